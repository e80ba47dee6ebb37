"""Folders of a run: one per process, and results that come to their place whole and stay there."""

import errno
import os
import shutil

import pytest
import yaml
from run_folders import finish

from lib.core.attempts import attempts, read_heartbeat, remove
from lib.core.errors import DataError, RunError
from lib.core.record import digest_of
from lib.training import folders as module
from lib.training.checkpoints import Progress, writing
from lib.training.folders import RunFolders


def scores(place):
    return (place / "model" / "weights").read_text()


def test_results_by_one_renaming(begin, run):
    with begin() as folders:
        assert read_heartbeat(folders.work).state == "running"
        folders.move_to_out(finish(folders))
    assert {path.name for path in folders.out.iterdir()} == {"config.yaml", "model", "run.json"}
    assert yaml.safe_load((folders.out / "config.yaml").read_text())["stage"] == "score"
    heartbeat = read_heartbeat(folders.work)
    assert (heartbeat.state, heartbeat.out) == ("finished", str(folders.out))
    other = begin(run=run.model_copy(update={"seed": 2}), out=folders.out.parent / "other")
    with other:
        assert folders.work.exists()
        assert other.home.exists()


def test_results_of_a_run_by_hand(begin, tmp_path):
    with begin(work=None) as folders:
        folders.move_to_out(finish(folders))
    assert [path.name for path in folders.out.parent.iterdir()] == ["out"]
    with pytest.raises(RunError, match="finished run"):
        begin(work=None)
    assert scores(folders.out) == "1.0"


def _link(place):
    place.with_name("elsewhere").mkdir()
    place.symlink_to("elsewhere")


def _holding(name):
    def put(place):
        (place / name).parent.mkdir(parents=True)
        (place / name).write_text("mine")

    return put


PUT = {"hidden": (_holding(".env"), ".env"), "folder": (_holding("model/weights"), "model"), "link": (_link, "link")}


def content(folder):
    return {path: path.is_file() and path.read_text() for path in folder.rglob("*")}


@pytest.mark.parametrize("name", PUT)
def test_run_by_hand_where_something_is(name, begin, tmp_path):
    put, message = PUT[name]
    (tmp_path / "runs").mkdir()
    put(tmp_path / "runs" / "out")
    before = content(tmp_path)
    with pytest.raises(RunError, match=f"out: .*{message}"):
        begin(work=None)
    assert content(tmp_path) == before


def test_results_over_leftovers(begin):
    with begin() as folders:
        folders.out.mkdir(parents=True)
        for name in ("model", "config.yaml"):
            (folders.out / name).mkdir()
            (folders.out / name / "leftover").touch()
        folders.move_to_out(finish(folders))
    assert {path.name for path in folders.out.rglob("*")} == {"config.yaml", "model", "weights", "run.json"}
    assert [path.name for path in folders.out.parent.iterdir()] == ["out"]


def test_results_of_a_later_process(begin, caplog):
    """Both were at work at once: the first one publishes although it has been superseded, since it is finished."""
    caplog.set_level("INFO")
    with begin() as earlier, begin() as later:
        earlier.move_to_out(finish(earlier, 1.0))
        later.move_to_out(finish(later, 2.0))
    assert scores(earlier.out) == "1.0"
    assert "another process has finished this run" in caplog.text
    execution = earlier.run.execution.model_copy(update={"workers": 3})
    assert begin(run=earlier.run.model_copy(update={"execution": execution})).is_done()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda run, folder: {"code": "f" * 16}, "other code"),
        (lambda run, folder: {"run": run.model_copy(update={"seed": 2})}, "other seed"),
        (lambda run, folder: (folder / "train.parquet").write_text("new") and {}, "other inputs"),
    ],
)
def test_finished_run_of_others(change, message, begin, run, tmp_path):
    with begin() as folders:
        folders.move_to_out(finish(folders))
    with pytest.raises(RunError, match=message):
        begin(**change(run, tmp_path)).is_done()
    with pytest.raises(RunError, match=message), begin(**change(run, tmp_path)) as others:  # noqa: PT012
        assert others.earlier() == [], "what has other settings, code or inputs has another working folder"
        others.move_to_out(finish(others, 2.0))
    assert scores(folders.out) == "1.0"


def test_process_that_finds_a_later_one(begin):
    first = begin().__enter__()
    with begin() as second:
        assert second.earlier() == [first.work]
    with pytest.raises(RunError, match="0002-"):
        first.beat(step=3)
    error = KeyError("what it failed by")
    with pytest.raises(RunError, match="taken this run over"):
        first.__exit__(KeyError, error, None)
    assert read_heartbeat(first.work).state == "failed"
    assert "taken this run over" in read_heartbeat(first.work).error
    assert read_heartbeat(second.work).state == "finished"


def test_process_whose_folder_was_removed(begin):
    folders = begin().__enter__()
    module.remove(folders.home)
    error = FileNotFoundError("whatever it was about to read")
    with pytest.raises(RunError, match="has removed this one's folder"):
        folders.__exit__(type(error), error, None)
    assert attempts(folders.home) == []


def test_results_across_file_systems(begin, monkeypatch):
    """A renaming between two file systems fails; this stands for one."""
    rename = os.rename

    def across(source, target):
        if str(source).endswith("results"):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        rename(source, target)

    monkeypatch.setattr(module.os, "rename", across)
    with begin() as folders:
        folders.move_to_out(finish(folders))
    assert {path.name for path in folders.out.rglob("*")} == {"config.yaml", "model", "weights", "run.json"}
    assert [path.name for path in folders.out.parent.iterdir()] == ["out"]


def test_results_published_meanwhile(begin, monkeypatch):
    with begin() as folders:
        folders.out.mkdir(parents=True)
        (folders.out / "leftover").touch()
        published = RunFolders.is_done

        def too_early(self):
            found = published(self)
            monkeypatch.undo()
            folders.move_to_out(finish(folders, 1.0))  # by another process, after this one has looked
            return found

        monkeypatch.setattr(RunFolders, "is_done", too_early)
        late = begin()
        late.work, late.trackers = folders.work, folders.trackers
        other = finish(late, 2.0).rename(folders.work / "late")
        late.move_to_out(other)
    assert scores(folders.out) == "1.0"


def test_results_on_a_full_disk(begin, monkeypatch):
    def full(source, target):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target))

    folders = begin().__enter__()
    staged = finish(folders)
    monkeypatch.setattr(module.os, "rename", full)
    with pytest.raises(RunError, match="No space left"):
        folders.move_to_out(staged)
    assert (staged / "run.json").exists()
    assert not folders.out.exists()


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model-00001-of-00002.bin"])
def test_digest_of_weights_in_every_form(name, tmp_path):
    (tmp_path / "config.json").write_text("{}")
    digests = {digest_of(tmp_path)}
    for content in ("first", "other"):
        (tmp_path / name).write_text(content)
        digests.add(digest_of(tmp_path))
    assert len(digests) == 3


@pytest.fixture
def taken_over(begin):
    """An attempt whose folder a later one has removed, as it does with what superseded ones have left."""

    def take(folders):
        with begin():
            remove(folders.work)

    return take


def test_files_where_the_staging_folder_was(begin, taken_over):
    """Writers make folders that are missing, so that the results seem to be there, with a record of what is left."""
    with pytest.raises(RunError, match="another process has taken this run over"), begin() as folders:  # noqa: PT012
        staged = finish(folders)
        record = (staged / "run.json").read_text()
        taken_over(folders)
        for name in ("model/weights", "config.yaml", "run.json"):
            (staged / name).parent.mkdir(parents=True, exist_ok=True)
            (staged / name).write_text(record)
        folders.move_to_out(staged)
    assert not folders.out.exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda staged: (staged / "model/weights").unlink(), "model/weights"),
        (lambda staged: (staged / "config.yaml").write_text("other"), "config.yaml"),
        (lambda staged: (staged / "run.json").unlink(), "run.json"),
    ],
)
def test_results_that_are_not_whole(change, message, begin):
    with pytest.raises((RunError, DataError), match=message), begin() as folders:  # noqa: PT012
        staged = finish(folders)
        change(staged)
        folders.move_to_out(staged)
    assert not folders.out.exists()
    assert read_heartbeat(folders.work).state == "failed"


def test_record_without_its_files(begin, caplog):
    """As an interrupted deletion leaves it: the next start makes the run again instead of failing for ever."""
    with begin() as folders:
        folders.move_to_out(finish(folders, 1.0))
    shutil.rmtree(folders.out / "model")
    (folders.out / "config.yaml").unlink()
    with begin() as again:
        assert not again.is_done()
        assert "config.yaml, model/weights" in caplog.text
        again.move_to_out(finish(again, 2.0))
    assert scores(folders.out) == "2.0"
    assert [path.name for path in folders.out.parent.iterdir()] == ["out"]


def test_checkpoint_in_a_removed_folder(begin):
    """The process stood still within a checkpoint; transformers creates the folders above the files that it writes."""
    older = begin()
    left = pytest.raises(RunError, match="has taken this run over, and has removed this one's folder")
    with left, older, writing(older.work, Progress(step=1)) as checkpoint:
        remove(older.home)
        checkpoint.mkdir(parents=True)
        (checkpoint / "config.json").write_text("{}")
        older.beat(step=1)
    assert not older.home.exists()
