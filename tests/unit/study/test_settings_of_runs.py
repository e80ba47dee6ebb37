"""What decides whether a run is stale: its settings, byte for byte, of every run of every shipped configuration.

`settings_of_runs.json` has a digest of each configuration. A change makes finished runs stale, so it must be meant.
"""

import hashlib
import json
import sys
from pathlib import Path

from lib.study.configuration import SHIPPED, load_study, read_layers

STORED = Path(__file__).with_name("settings_of_runs.json")
CHANGED = """The settings of runs changed in {names}.
To see what differs, print them here and in a worktree of the commit before, and compare the two:
    python tests/unit/study/test_settings_of_runs.py {names}
If it is meant, write the digests anew:
    python tests/unit/study/test_settings_of_runs.py --write"""


def settings_of(configuration):
    """Return the settings of every run, a line each, behind its folder."""
    study = load_study(read_layers([SHIPPED[configuration]]))
    return "".join(f"{run.id.path} {run.settings}\n" for run in study.runs)


def digests():
    """Return a digest of the settings of all runs of every shipped configuration."""
    return {name: hashlib.sha256(settings_of(name).encode()).hexdigest() for name in sorted(SHIPPED)}


def test_settings_of_runs_stay_byte_for_byte():
    stored, found = json.loads(STORED.read_text()), digests()
    names = [name for name in sorted({*stored, *found}) if stored.get(name) != found.get(name)]
    assert not names, CHANGED.format(names=" ".join(names))


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        STORED.write_text(json.dumps(digests(), indent=0) + "\n")
    else:
        print("".join(map(settings_of, sys.argv[1:] or sorted(SHIPPED))), end="")
