"""What decides whether a run is stale: its settings, byte for byte, of every run of every shipped configuration.

`settings_of_runs.json` has a digest of each. A change makes finished runs stale, so it must be meant. To write it anew:
python tests/unit/study/test_settings_of_runs.py
"""

import hashlib
import json
from pathlib import Path

import pytest

from lib.study.configuration import SHIPPED, load_study, read_layers

ROOT = Path(__file__).resolve().parents[3]
STORED = Path(__file__).with_name("settings_of_runs.json")
CONFIGURATIONS = sorted(SHIPPED)


def digests(configuration):
    """Return a digest of the settings of every run, by its folder."""
    study = load_study(read_layers([SHIPPED[configuration]]))
    return {run.id.path: hashlib.sha256(run.settings.encode()).hexdigest()[:8] for run in study.runs}


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_the_settings_of_a_run_stay_byte_for_byte(configuration):
    assert digests(configuration) == json.loads(STORED.read_text())[configuration]


if __name__ == "__main__":
    STORED.write_text(json.dumps({name: digests(name) for name in CONFIGURATIONS}, indent=0) + "\n")
