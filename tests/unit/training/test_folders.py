"""Folders of a run: one per process, and results that come to their place whole and stay there."""

import contextlib
import errno
import os
import re
import shutil
import signal
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from litter import leave_litter
from run_folders import finish

from lib.core import files
from lib.core.attempts import SILENCE, attempts, read_heartbeat, remove, sweep
from lib.core.errors import DataError, RunError
from lib.core.files import read_mapping
from lib.core.record import differing_files, digest_of, read_record
from lib.training import folders as module
from lib.training.checkpoints import Progress, writing
from lib.training.folders import RunFolders


def scores(place):
    return (place / "model" / "weights").read_text()


def test_results_come_whole_and_the_working_folder_stays_until_they_are_accepted(begin, run):
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


def test_a_run_begins_while_the_workflow_removes_empty_folders(begin, monkeypatch):
    folders, make, removed = begin(), os.mkdir, []

    def mkdir(path, *arguments, **options):
        make(path, *arguments, **options)
        if len(removed) < 5:  # the sweep after another run, at the worst moment
            sweep(folders.home.parent, lambda out: True)
            removed.append(not os.path.exists(path))

    monkeypatch.setattr(os, "mkdir", mkdir)
    with folders:
        assert read_heartbeat(folders.work).state == "running"
    assert any(removed)


def test_labels_that_look_like_numbers_stay_texts(begin, run):
    labels = ["1e5", "4e2", "no", "0x1f", "1_000", "~", "12:30"]
    with begin(run=run.model_copy(update={"labels": labels})) as folders:
        assert read_mapping(folders.stage() / "config.yaml")["labels"] == labels


def test_a_run_by_hand_leaves_nothing_but_its_results_and_does_not_overwrite(begin, tmp_path):
    with begin(work=None) as folders:
        folders.move_to_out(finish(folders))
    assert [path.name for path in folders.out.parent.iterdir()] == ["out"]
    with pytest.raises(RunError, match="holds a finished run. Expected a new folder"):
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


PUT = {
    "file": (_holding("letter.txt"), "holds letter.txt"),
    "hidden": (_holding(".env"), "holds .env"),
    "folder": (_holding("model/weights"), "holds model"),
    "link": (_link, "is a link"),
    "no folder": (lambda place: place.write_text("mine"), "cannot be"),
}


def content(folder):
    return {path: path.is_file() and path.read_text() for path in folder.rglob("*")}


@pytest.mark.parametrize("name", PUT)
def test_what_a_user_has_where_a_run_by_hand_should_go_stays(name, begin, tmp_path):
    put, message = PUT[name]
    (tmp_path / "runs").mkdir()
    put(tmp_path / "runs" / "out")
    before = content(tmp_path)
    with pytest.raises(RunError, match=f"out: {message}"):
        begin(work=None)
    assert content(tmp_path) == before


def test_what_a_user_puts_there_while_a_run_by_hand_works_stays_and_the_results_wait(begin):
    with begin(work=None) as folders:
        staged = finish(folders)
        PUT["file"][0](folders.out)
        with pytest.raises(RunError, match=r"out: holds letter\.txt.*give --out another"):
            folders.move_to_out(staged)
        assert (staged / "run.json").is_file()
    assert [path.name for path in folders.out.iterdir()] == ["letter.txt"]


def test_a_run_by_hand_takes_a_folder_with_its_settings(begin):
    folders = begin(work=None)
    folders.out.mkdir(parents=True)
    for name in ("config.yaml", ".DS_Store"):
        (folders.out / name).touch()
    with begin(work=None) as folders:
        folders.move_to_out(finish(folders))
    assert {path.name for path in folders.out.iterdir()} == {"config.yaml", "model", "run.json"}


@pytest.mark.parametrize("left", [[], ["model"], ["model", "config.yaml"]])
def test_what_the_workflow_leaves_of_an_unfinished_run_is_replaced(left, begin):
    with begin() as folders:
        folders.out.mkdir(parents=True)
        for name in left:
            (folders.out / name).mkdir()
            (folders.out / name / "leftover").touch()
        folders.move_to_out(finish(folders))
    assert {path.name for path in folders.out.rglob("*")} == {"config.yaml", "model", "weights", "run.json"}
    assert [path.name for path in folders.out.parent.iterdir()] == ["out"]


def test_a_later_process_leaves_what_is_finished_as_it_is(begin, caplog):
    """Both were at work at once: the first one publishes although it has been superseded, since it is finished."""
    caplog.set_level("INFO")
    with begin() as earlier, begin() as later:
        earlier.move_to_out(finish(earlier, 1.0))
        later.move_to_out(finish(later, 2.0))
    assert scores(earlier.out) == "1.0"
    assert "another process has finished this run, with the same results" in caplog.text


def test_a_finished_run_found_at_the_start_is_left(begin):
    with begin() as folders:
        folders.move_to_out(finish(folders))
    assert begin().is_done()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda run, folder: {"code": "f" * 16}, "other code"),
        (lambda run, folder: {"run": run.model_copy(update={"seed": 2})}, "other seed"),
        (lambda run, folder: (folder / "train.parquet").write_text("new") and {}, "other inputs"),
    ],
)
def test_a_finished_run_of_others_is_an_error_and_stays(change, message, begin, run, tmp_path):
    with begin() as folders:
        folders.move_to_out(finish(folders))
    with pytest.raises(RunError, match=f"holds a finished run with {message}"):
        begin(**change(run, tmp_path)).is_done()
    with (
        pytest.raises(RunError, match=f"holds a finished run with {message}"),
        begin(**change(run, tmp_path)) as others,
    ):
        others.move_to_out(finish(others, 2.0))
    assert scores(folders.out) == "1.0"


def test_how_the_work_is_done_makes_no_other_run(begin, run):
    with begin() as folders:
        folders.move_to_out(finish(folders))
    execution = run.execution.model_copy(update={"workers": 3})
    assert begin(run=run.model_copy(update={"execution": execution})).is_done()


@pytest.mark.parametrize(
    "change",
    [
        lambda run, folder: {"code": "f" * 16},
        lambda run, folder: {"run": run.model_copy(update={"seed": 2})},
        lambda run, folder: (folder / "train.parquet").write_text("new") and {},
    ],
)
def test_a_working_folder_of_other_settings_code_or_inputs_is_not_taken_up(change, begin, run, tmp_path):
    with pytest.raises(KeyError), begin() as folders:
        raise KeyError
    with begin() as same, begin(**change(run, tmp_path)) as other:
        assert [path.name for path in same.earlier()] == [folders.work.name]
        assert other.earlier() == []


def test_an_input_that_has_vanished_is_named(begin, run):
    os.remove(run.data["validation"])
    with pytest.raises(DataError, match=re.escape(f"{run.data['validation']}: cannot be read (No such file")):
        begin()


def test_a_process_that_finds_a_later_one_leaves(begin):
    first = begin().__enter__()
    with begin() as second:
        assert second.earlier() == [first.work]
    with pytest.raises(RunError, match="taken this run over, in .*0002-.*This one stops"):
        first.beat(step=3)
    error = KeyError("what it failed by")
    with pytest.raises(RunError, match="taken this run over"):
        first.__exit__(KeyError, error, None)
    assert read_heartbeat(first.work).state == "failed"
    assert "taken this run over" in read_heartbeat(first.work).error
    assert read_heartbeat(second.work).state == "finished"


def test_a_process_whose_folder_was_removed_leaves_and_brings_nothing_back(begin):
    folders = begin().__enter__()
    module.remove(folders.home)
    error = FileNotFoundError("whatever it was about to read")
    with pytest.raises(RunError, match="has removed this one's folder"):
        folders.__exit__(type(error), error, None)
    assert attempts(folders.home) == []


def test_results_of_a_process_whose_folder_was_removed_are_not_published(begin):
    folders = begin().__enter__()
    staged = finish(folders)
    with begin():
        module.remove(folders.work)
    with pytest.raises(RunError, match="taken this run over"):
        folders.move_to_out(staged)
    assert not folders.out.exists()


def test_results_cross_file_systems_whole(begin, monkeypatch):
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


def test_what_is_published_while_leftovers_are_removed_stays(begin, monkeypatch):
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


def test_results_that_cannot_be_moved_wait(begin, monkeypatch):
    def full(source, target):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target))

    folders = begin().__enter__()
    staged = finish(folders)
    monkeypatch.setattr(module.os, "rename", full)
    with pytest.raises(RunError, match="No space left.*The finished results wait in"):
        folders.move_to_out(staged)
    assert (staged / "run.json").exists()
    assert not folders.out.exists()


def test_a_place_that_cannot_be_made_is_said_before_any_work(begin, tmp_path):
    (tmp_path / "runs").write_text("a file")
    with pytest.raises(RunError, match="cannot be written"), begin():
        pytest.fail("it has begun")


def test_results_have_the_rights_that_the_umask_gives(begin, monkeypatch):
    """Weights too, which safetensors writes for their owner alone, and what trackers left."""
    monkeypatch.setattr(files, "UMASK", 0o027)
    with begin() as folders:
        staged = finish(folders)
        (staged / "model" / "weights").chmod(0o600)
        (folders.trackers / "wandb").mkdir(parents=True, mode=0o700)
        folders.move_to_out(staged)
    found = {path.name: path.stat().st_mode & 0o777 for path in [folders.out, *folders.out.rglob("*")]}
    assert {found.pop(name) for name in ("out", "model", "wandb")} == {0o750}
    assert found == dict.fromkeys(("weights", "config.yaml", "run.json"), 0o640)


def test_litter_stops_no_run_and_is_no_part_of_it(begin, tmp_path):
    with pytest.raises(KeyError), begin() as earlier:
        raise KeyError
    (tmp_path / "runs" / "out" / "run.json").mkdir(parents=True)
    leave_litter(tmp_path)
    with begin() as folders:
        assert [path.name for path in folders.earlier()] == [earlier.work.name]
        leave_litter(folders.work)
        staged = finish(folders)
        folders.trackers.mkdir()
        (folders.trackers / "events").touch()
        leave_litter(folders.trackers)
        folders.move_to_out(staged)
    record = read_record(folders.out)
    assert set(record.files) == {"config.yaml", "model/weights"}
    leave_litter(folders.out)
    assert differing_files(folders.out, record) == []
    assert begin().is_done()


def test_litter_is_no_input(tmp_path):
    for name in ("vocab.txt", "data-0.arrow", "model.safetensors"):
        (tmp_path / name).write_text(name)
    digest = digest_of(tmp_path)
    leave_litter(tmp_path)
    assert digest_of(tmp_path) == digest


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin", "pytorch_model-00001-of-00002.bin"])
def test_weights_in_every_form_are_an_input(name, tmp_path):
    (tmp_path / "config.json").write_text("{}")
    digests = {digest_of(tmp_path)}
    for content in ("first", "other"):
        (tmp_path / name).write_text(content)
        digests.add(digest_of(tmp_path))
    assert len(digests) == 3


# Copies between file systems


@pytest.fixture
def copying(begin, monkeypatch):
    """Return a process that copies its results to another file system, and stops before it removes the copy."""
    if not os.access("/dev/shm", os.W_OK) or os.stat("/dev/shm").st_dev == os.stat(begin().home.anchor).st_dev:
        pytest.skip("needs two file systems")
    started = []

    def start(number, **changes):
        process = os.fork()
        if not process:
            settle = module.settle
            folders = begin(**changes)

            def stop(folder):
                settle(folder)
                if folder.parent == folders.out.parent:
                    os.kill(os.getpid(), number)

            module.settle = stop
            with contextlib.suppress(BaseException), folders:
                folders.move_to_out(finish(folders))
            os._exit(0)
        started.append(process)
        _, status = os.waitpid(process, os.WUNTRACED)
        assert os.WIFSTOPPED(status) or os.WTERMSIG(status) == number
        return process

    yield start
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


@pytest.fixture
def shared(tmp_path_factory):
    """A folder on another file system."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


def test_the_next_start_removes_what_a_killed_copy_has_left(begin, copying, shared):
    out = shared / "seed-1"
    copying(signal.SIGKILL, out=out)
    (copy,) = shared.iterdir()
    assert re.fullmatch(r"\.seed-1\.[0-9a-f]{32}", copy.name)
    others = [shared / f".{name}" for name in (f"seed-2.{'0' * 32}", "seed-1.notes", f"seed-1.{'0' * 31}", "trash-me")]
    trash = [shared / f".seed-1.{'0' * 32}", shared / f".trash-{'0' * 32}"]
    for folder in [*others, *trash]:
        folder.mkdir()
    with begin(out=out) as folders:
        assert {*shared.iterdir()} == {*others}
        folders.move_to_out(finish(folders))
    assert {*shared.iterdir()} == {*others, out}


def test_the_copy_of_a_living_process_stays(begin, run, copying, shared, monkeypatch):
    out = shared / "seed-1"
    living = copying(signal.SIGSTOP, out=out, run=run.model_copy(update={"seed": 2}))
    (copy,) = shared.iterdir()
    with begin(out=out):
        assert copy.is_dir()
    os.kill(living, signal.SIGKILL)
    monkeypatch.setattr("lib.core.attempts.datetime", Later)
    with begin(out=out):
        assert not copy.exists()


class Later(datetime):
    """A clock of after the time in which a living process would have said something."""

    @classmethod
    def now(cls, zone):
        return datetime.now(UTC) + 2 * SILENCE


# Taken over between staging and publishing


@pytest.fixture
def taken_over(begin):
    """An attempt whose folder a later one has removed, as it does with what superseded ones have left."""

    def take(folders):
        with begin():
            remove(folders.work)

    return take


@pytest.mark.parametrize("again", [[], ["run.json"], ["model/weights", "config.yaml", "run.json"]])
def test_what_is_written_where_the_staging_folder_was_is_never_published(again, begin, taken_over):
    """Writers make folders that are missing, so that the results seem to be there, with a record of what is left."""
    with pytest.raises(RunError, match="another process has taken this run over"), begin() as folders:  # noqa: PT012
        staged = finish(folders)
        record = (staged / "run.json").read_text()
        taken_over(folders)
        for name in again:
            (staged / name).parent.mkdir(parents=True, exist_ok=True)
            (staged / name).write_text(record)
        folders.move_to_out(staged)
    assert not folders.out.exists()


def test_trackers_files_are_not_put_where_the_staging_folder_was(begin, taken_over):
    with pytest.raises(RunError, match="another process has taken this run over"), begin() as folders:  # noqa: PT012
        staged = finish(folders)
        taken_over(folders)
        folders.trackers.mkdir(parents=True)
        (folders.trackers / "events").touch()
        folders.move_to_out(staged)
    assert not staged.exists()
    assert not folders.out.exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda staged: (staged / "model/weights").unlink(), "model/weights is gone"),
        (lambda staged: (staged / "config.yaml").write_text("other"), "config.yaml is not what the run left"),
        (lambda staged: (staged / "run.json").unlink(), "run.json: no such file"),
    ],
)
def test_results_that_are_not_whole_are_never_published(change, message, begin):
    with pytest.raises((RunError, DataError), match=message), begin() as folders:  # noqa: PT012
        staged = finish(folders)
        change(staged)
        folders.move_to_out(staged)
    assert not folders.out.exists()
    assert read_heartbeat(folders.work).state == "failed"


def test_a_record_without_its_files_is_no_finished_run(begin, caplog):
    """As an interrupted deletion leaves it: the next start makes the run again instead of failing for ever."""
    with begin() as folders:
        folders.move_to_out(finish(folders, 1.0))
    shutil.rmtree(folders.out / "model")
    (folders.out / "config.yaml").unlink()
    with begin() as again:
        assert not again.is_done()
        assert "not a finished run, since it lacks config.yaml, model/weights" in caplog.text
        again.move_to_out(finish(again, 2.0))
    assert scores(folders.out) == "2.0"
    assert [path.name for path in folders.out.parent.iterdir()] == ["out"]


def test_a_finished_run_of_others_is_never_out_of_its_place(begin, run, monkeypatch):
    """Not even for the moment in which another process looks at what lies there."""
    with begin() as folders:
        folders.move_to_out(finish(folders))
    moved = []
    rename = os.rename
    monkeypatch.setattr(os, "rename", lambda source, target: moved.append(Path(source)) or rename(source, target))
    with begin(code="f" * 16) as others:
        others._clear()
    assert folders.out not in moved
    assert scores(folders.out) == "1.0"


def test_a_checkpoint_does_not_bring_back_the_folder_of_an_attempt_that_was_taken_over(begin):
    """It stopped just before its checkpoint; meanwhile another process has finished, and Snakemake has swept up."""
    older = begin()
    left = pytest.raises(RunError, match="has taken this run over, and has removed this one's folder")
    gone = contextlib.ExitStack()  # entered in this order, left in the other
    with left, gone:
        gone.enter_context(older)
        remove(older.home)
        gone.enter_context(writing(older.work, Progress(step=1)))
    assert not older.home.exists()


def test_what_libraries_bring_back_of_a_removed_attempt_is_removed_again(begin):
    """The process stood still within a checkpoint; transformers creates the folders above the files that it writes."""
    older = begin()
    left = pytest.raises(RunError, match="has taken this run over, and has removed this one's folder")
    with left, older, writing(older.work, Progress(step=1)) as checkpoint:
        remove(older.home)
        checkpoint.mkdir(parents=True)
        (checkpoint / "config.json").write_text("{}")
        older.beat(step=1)
    assert not older.home.exists()


def test_an_attempt_whose_folder_was_replaced_leaves_the_later_one_alone(begin):
    older = begin().__enter__()
    remove(older.home)
    with begin() as later:
        older.work.mkdir()
        with pytest.raises(RunError, match="has taken this run over, in"):
            older.refuse_later()
        assert attempts(older.home) == [later.work]
    with pytest.raises(RunError, match="has taken this run over, in"):
        older.__exit__(RunError, RunError("it left"), None)
