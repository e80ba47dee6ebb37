"""Attempts at a run: their order, their heartbeats, and when their folders go."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from lib.core import attempts as module
from lib.core.attempts import HEARTBEAT, Heartbeat, attempts, is_alive, read_heartbeat, remove, sweep


def heartbeat(place, **changes):
    now = datetime.now(UTC)
    values = {"stage": "finetune", "model": "sdpa", "dataset": "imdb", "seed": 1, "out": str(place), "host": "node"}
    return Heartbeat(**values | {"process": 1, "started": now, "updated": now} | changes)


@pytest.fixture
def begun(tmp_path):
    """Return the folder of a new attempt at a run whose results go to `out`."""

    def make(name, run="a-run", **changes):
        folder = tmp_path / "work" / run / name
        folder.mkdir(parents=True)
        heartbeat(tmp_path / "out", **changes).write(folder)
        return folder

    return make


def test_heartbeat_is_read_as_it_was_written(begun, tmp_path):
    folder = begun("0001-node-1")
    for loss in (0.5, None, float("nan")):
        heartbeat(tmp_path, loss=loss, step=3, steps=9, error="a\nb").write(folder)
        found = read_heartbeat(folder)
        assert (found.loss, found.step, found.error) == (0.5 if loss == 0.5 else None, 3, "a\nb")
        json.loads((folder / HEARTBEAT).read_text(), parse_constant=pytest.fail)
    assert [path.name for path in folder.iterdir()] == [HEARTBEAT]


@pytest.mark.parametrize("content", ["", "[]", '{"stage": 1}', "\udcff"])
def test_heartbeat_that_is_none(content, tmp_path):
    (tmp_path / HEARTBEAT).write_bytes(content.encode(errors="surrogateescape"))
    assert read_heartbeat(tmp_path) is None
    assert read_heartbeat(tmp_path / "missing") is None


def test_heartbeat_brings_back_no_folder(begun, tmp_path):
    folder = begun("0001-node-1")
    remove(folder)
    with pytest.raises(FileNotFoundError):
        heartbeat(tmp_path).write(folder)
    assert not list(folder.parent.iterdir())


def test_attempts_come_in_the_order_of_their_numbers(begun):
    names = ["9999-b-1", "0002-a-1", "10000-a-1", "0002-b-0", "0001-z-9"]
    for name in names:
        folder = begun(name)
    (folder.parent / ".trash-1").mkdir()
    (folder.parent / "notes").mkdir()
    assert [path.name for path in attempts(folder.parent)] == [
        "0001-z-9",
        "0002-a-1",
        "0002-b-0",
        "9999-b-1",
        "10000-a-1",
    ]
    assert attempts(folder / "missing") == []


def test_attempt_is_alive_by_its_heartbeat_or_a_trial(begun, tmp_path):
    long_ago = datetime.now(UTC) - timedelta(hours=2)
    assert is_alive(begun("0001-node-1"))
    assert not is_alive(begun("0002-node-1", updated=long_ago))
    assert not is_alive(begun("0003-node-1", state="failed"))
    search = begun("0004-node-1", updated=long_ago)
    trial = search / "trial-3" / "work" / "a-trial" / "0001-node-1"
    trial.mkdir(parents=True)
    heartbeat(tmp_path).write(trial)
    assert is_alive(search)


@pytest.mark.parametrize(
    ("changes", "accepted", "goes"),
    [
        ({"state": "finished"}, True, True),
        ({"state": "finished"}, False, False),
        ({"state": "failed"}, True, True),  # another attempt has made the results
        ({"state": "running"}, True, False),
        ({"updated": datetime.now(UTC) - timedelta(hours=2)}, True, True),
    ],
)
def test_sweep_takes_what_nobody_needs(changes, accepted, goes, begun, tmp_path):
    folder = begun("0001-node-1", **changes)
    sweep(tmp_path / "work", lambda out: accepted and out == tmp_path / "out")
    assert folder.exists() == (not goes)
    assert (tmp_path / "work").is_dir() == (not goes)


def test_sweep_takes_rubbish_of_a_killed_sweep(begun, tmp_path, monkeypatch):
    folder = begun("0001-node-1")
    monkeypatch.setattr(module.shutil, "rmtree", lambda *arguments, **options: None)
    remove(folder.parent)
    assert not folder.exists()
    (rubbish,) = (tmp_path / "work").iterdir()
    monkeypatch.undo()
    sweep(tmp_path / "work", lambda out: False)
    assert not rubbish.exists()
    sweep(tmp_path / "missing", lambda out: True)
