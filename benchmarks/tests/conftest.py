"""What the tests of measurements share."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def repository():
    """The root of the repository."""
    return Path(__file__).resolve().parents[2]
