"""Extensions in tests: each module of tests has its own in use, and no other."""

import os
import sys
from contextlib import contextmanager

import pytest

from lib.core.extensions import ROOT, SHIPPED, VARIABLE, use


@contextmanager
def extended(*names):
    """Have these extensions in use, and no others."""
    before = os.environ.pop(VARIABLE, "")
    try:
        use(names)
        yield
    finally:
        os.environ[VARIABLE] = before


def having(place):
    """Return the shipped extensions with parts of `lib/<place>`, and those that the environment names."""
    shipped = sorted(f"{SHIPPED}/{study.name}" for study in (ROOT / SHIPPED).iterdir() if (study / place).is_dir())
    return [*shipped, *filter(None, os.environ.get(VARIABLE, "").split(os.pathsep))]


@pytest.fixture(scope="module", autouse=True)
def extensions(request):
    """In use in a module: the study whose tests they are, and what its mark `extensions` names."""
    study = request.path.parents[1]
    own = [f"{SHIPPED}/{study.name}"] if study.parent == ROOT / SHIPPED else []
    with extended(*own, *(name for mark in request.node.iter_markers("extensions") for name in mark.args)):
        yield


@pytest.fixture
def own_extension(tmp_path, monkeypatch):
    """An empty folder that is an extension in use, outside of the project."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    folder = tmp_path / f"of_{tmp_path.name}"  # a name of its own, as Python keeps what it imported
    folder.mkdir()
    with extended(str(folder)):
        yield folder
