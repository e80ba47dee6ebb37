"""Whatever happens to a run's checkpoints, it ends with the right figures or with an error, never with wrong ones."""

import logging
import shutil

import pytest
import torch
from comparing import assert_alike, weights
from killing import assert_trains_no_further, attempt, killed_at
from litter import leave_litter

from lib.core.record import read_record
from lib.study.run import Start
from lib.training.checkpoints import last_checkpoint, seal, take_over
from lib.training.folders import RunFolders
from lib.training.predictor import Observer
from lib.training.run import train
from lib.training.trainer import Trainer

KILLED_AT = 192 // 32 + 3
FILES = ["model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state.pth", "state.json", "manifest.json"]


@pytest.fixture(scope="module")
def run(run_of):
    """A fine-tuning of two epochs with a checkpoint at every step."""
    return run_of("finetune", recipe={"epochs": 2}, execution={"checkpoint_minutes": 1e-6})


@pytest.fixture(scope="module")
def killed_once(run, tmp_path_factory):
    """A folder with `run`, killed in its second epoch."""
    folder = tmp_path_factory.mktemp("killed")
    with killed_at(KILLED_AT):
        train(run, folder / "out")
    return folder


@pytest.fixture
def copies(killed_once, tmp_path):
    """Return, again and again, the folder of the killed attempt at `run`: a copy in a folder of its own."""

    def copy(name="copy"):
        shutil.copytree(killed_once / ".out.work", tmp_path / name / ".out.work")
        return attempt(tmp_path / name / "out")

    return copy


@pytest.fixture
def killed(killed_once, tmp_path):
    """The folder of the killed attempt at `run`, with its last checkpoints and that of its best model; a copy."""
    shutil.copytree(killed_once / ".out.work", tmp_path / ".out.work")
    work = attempt(tmp_path / "out")
    assert {path.name for path in work.glob("checkpoint-*")} == {"checkpoint-6", "checkpoint-8", "checkpoint-9"}
    return work


def taken_over(run, work):
    """Return the name of the checkpoint that a new attempt goes on from, after the one that worked in `work`."""
    with RunFolders(run, work.parents[2] / "out", None) as folders:
        take_over(folders)
        found = last_checkpoint(folders.work)
        assert not folders.earlier()
        return found and found.name


def flip(path):
    """Change a bit in the middle of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_checkpoint_taken_over_is_the_newest_whole_one(run, copies):
    assert taken_over(run, copies("whole")) == "checkpoint-9"
    for damage in (flip, lambda path: path.unlink()):
        for part in FILES:
            work = copies(f"{damage.__name__}-{part}")
            damage(work / "checkpoint-9" / part)
            assert taken_over(run, work) == "checkpoint-8", part


def test_checkpoint_taken_over_of_strange_folders(run, copies):
    work = copies("without its best model")
    (work / "checkpoint-6" / "model.safetensors").unlink()
    assert taken_over(run, work) is None
    work = copies("a file elsewhere")
    manifest = work / "checkpoint-9" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"optimizer.pt"', '"../../../stolen.pt"'))
    assert taken_over(run, work) == "checkpoint-8"
    work = copies("another format")
    (work / "checkpoint-9" / "state.json").rename(work / "checkpoint-9" / "trainer_state.json")
    seal(work / "checkpoint-9")
    assert taken_over(run, work) == "checkpoint-8"


class Rates(Observer):
    """Notes the learning rate of each step."""

    def __init__(self):
        self.found = []

    def has_gradients(self, trainer):
        self.found += {group["lr"] for group in trainer.optimizer.param_groups}


def test_killed_run_resumes_bit_for_bit(run, copies, tmp_path, monkeypatch):
    """Weights, figures, rates of learning; the best model of the earlier attempt is kept, at another path."""
    loaded, load, whole, resumed = [], Trainer.load_weights, Rates(), Rates()
    train(run, tmp_path / "whole", observers=[whole])

    def note(self, checkpoint):
        loaded.append(checkpoint)
        load(self, checkpoint)

    monkeypatch.setattr(Trainer, "load_weights", note)
    killed = copies()
    train(run, tmp_path / "copy" / "out", observers=[resumed])
    assert resumed.found == whole.found[KILLED_AT:]
    assert_alike(tmp_path / "whole", tmp_path / "copy" / "out")
    assert [path.name for path in loaded] == [f"checkpoint-{KILLED_AT}", f"checkpoint-{6 * best_epoch(tmp_path)}"]
    assert not any(path.is_relative_to(killed) for path in loaded)
    assert read_record(tmp_path / "copy" / "out").tokens == read_record(tmp_path / "whole").tokens


def best_epoch(folder):
    return int(read_record(folder / "whole").metrics["best_epoch"])


@pytest.mark.extended
def test_damaged_checkpoint_and_the_one_before(run, killed, undisturbed, tmp_path, caplog):
    (killed / "checkpoint-9" / "optimizer.pt").write_bytes(b"")
    caplog.set_level(logging.INFO)
    train(run, tmp_path / "out")
    assert "checkpoint-9: its optimizer.pt" in caplog.text
    assert "checkpoint-8" in next(line for line in caplog.messages if line.startswith("resuming from"))
    assert_alike(undisturbed, tmp_path / "out")


@pytest.mark.extended
def test_litter_in_working_folders(run, killed, undisturbed, tmp_path):
    (killed / "checkpoint-11").touch()
    (killed / "checkpoint-12" / "manifest.json").mkdir(parents=True)
    leave_litter(tmp_path)
    train(run, tmp_path / "out")
    assert_alike(undisturbed, tmp_path / "out")
    assert read_record(tmp_path / "out").files.keys() == read_record(undisturbed).files.keys()


@pytest.mark.extended
def test_start_from_the_state_of_another_run(run, killed, undisturbed, tmp_path):
    checkpoint = shutil.copytree(killed / "checkpoint-9", tmp_path / "copied")
    leave_litter(checkpoint)
    start = Start(run=str(tmp_path), checkpoint=str(checkpoint), load_only_model_state=False)
    train(run.model_copy(update={"start": start}), tmp_path / "started")
    expected, started = weights(undisturbed / "model"), weights(tmp_path / "started" / "model")
    assert all(torch.equal(weight, started[name]) for name, weight in expected.items())


@pytest.mark.extended
@pytest.mark.parametrize("keep", [["last", "best"], ["last", "state"]])
def test_killed_run_after_its_last_step(keep, run, tmp_path):
    run = run.model_copy(update={"recipe": run.recipe.model_copy(update={"keep": keep, "steps": 9})})
    assert_trains_no_further(run, tmp_path)
