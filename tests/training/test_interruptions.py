"""Whatever happens to a run's checkpoints, it ends with the right figures or with an error, never with wrong ones."""

import logging
import shutil

import pytest
import torch
from comparing import assert_alike, weights
from killing import assert_trains_no_further, attempt, killed_at
from litter import leave_litter

from lib.core.errors import RunError
from lib.core.record import read_record
from lib.study.run import Start
from lib.training.checkpoints import Progress, last_checkpoint, seal, take_over
from lib.training.folders import RunFolders
from lib.training.run import train
from lib.training.trainer import Trainer

STEPS_AN_EPOCH = 192 // 32
KILLED_AT = STEPS_AN_EPOCH + 3


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
def killed(killed_once, tmp_path):
    """The folder of the killed attempt at `run`, with its last checkpoints and that of its best model; a copy."""
    shutil.copytree(killed_once / ".out.work", tmp_path / ".out.work")
    work = attempt(tmp_path / "out")
    assert {path.name for path in work.glob("checkpoint-*")} == {"checkpoint-6", "checkpoint-8", "checkpoint-9"}
    return work


@pytest.fixture
def taken_over(run, tmp_path):
    """Return the checkpoint that a new attempt goes on from."""

    def take():
        with RunFolders(run, tmp_path / "out", None) as folders:
            take_over(folders)
            found = last_checkpoint(folders.work)
            assert not folders.earlier()
            return found and found.name

    return take


FILES = ["model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state.pth", "state.json", "manifest.json"]


@pytest.mark.parametrize("part", FILES)
def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(part, killed, taken_over, caplog):
    path = killed / "checkpoint-9" / part
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    assert taken_over() == "checkpoint-8"
    assert f"{killed / 'checkpoint-9'}: skipped" in caplog.text


@pytest.mark.parametrize("part", FILES)
def test_a_checkpoint_that_lacks_a_part_is_passed_over_for_the_one_before(part, killed, taken_over):
    (killed / "checkpoint-9" / part).unlink()
    assert taken_over() == "checkpoint-8"


def test_a_checkpoint_without_its_best_model_is_worthless(killed, taken_over):
    (killed / "checkpoint-6" / "model.safetensors").unlink()
    assert taken_over() is None


def test_a_file_outside_a_checkpoint_is_no_part_of_it(killed, taken_over):
    manifest = killed / "checkpoint-9" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"optimizer.pt"', '"../../../stolen.pt"'))
    assert taken_over() == "checkpoint-8"


def test_a_checkpoint_of_another_format_is_passed_over(killed, taken_over, caplog):
    (killed / "checkpoint-9" / "state.json").rename(killed / "checkpoint-9" / "trainer_state.json")
    seal(killed / "checkpoint-9")
    assert taken_over() == "checkpoint-8"
    assert f"{killed / 'checkpoint-9'}: skipped" in caplog.text


def test_a_run_whose_last_checkpoint_is_damaged_goes_on_from_the_one_before(run, killed, undisturbed, tmp_path, caplog):
    (killed / "checkpoint-9" / "optimizer.pt").write_bytes(b"")
    caplog.set_level(logging.INFO)
    train(run, tmp_path / "out")
    assert "checkpoint-9: its optimizer.pt is damaged" in caplog.text
    assert "checkpoint-8" in next(line for line in caplog.messages if line.startswith("resuming from"))
    assert_alike(undisturbed, tmp_path / "out")


def test_litter_in_working_folders_and_checkpoints_changes_nothing(run, killed, undisturbed, tmp_path):
    (killed / "checkpoint-11").touch()
    (killed / "checkpoint-12" / "manifest.json").mkdir(parents=True)
    leave_litter(tmp_path)
    train(run, tmp_path / "out")
    assert_alike(undisturbed, tmp_path / "out")
    assert read_record(tmp_path / "out").files.keys() == read_record(undisturbed).files.keys()


def test_the_best_model_of_an_earlier_attempt_is_kept(run, killed, undisturbed, tmp_path, monkeypatch):
    """Its path is another one now, and its evaluation is not made again."""
    loaded = []
    load = Trainer.load_weights

    def note(self, checkpoint):
        loaded.append(str(checkpoint))
        load(self, checkpoint)

    monkeypatch.setattr(Trainer, "load_weights", note)
    train(run, tmp_path / "out")
    resumed, best = loaded
    assert resumed.endswith("checkpoint-9")
    assert best.endswith("checkpoint-6") == (read_record(undisturbed).metrics["best_epoch"] == 1)
    assert str(killed) not in best
    assert_alike(undisturbed, tmp_path / "out")


def test_a_start_from_the_training_state_of_another_run_goes_on_exactly(run, killed, undisturbed, tmp_path):
    checkpoint = shutil.copytree(killed / "checkpoint-9", tmp_path / "copied")
    leave_litter(checkpoint)
    start = Start(run=str(tmp_path), checkpoint=str(checkpoint), load_only_model_state=False)
    train(run.model_copy(update={"start": start}), tmp_path / "started")
    expected, started = weights(undisturbed / "model"), weights(tmp_path / "started" / "model")
    assert all(torch.equal(weight, started[name]) for name, weight in expected.items())


def test_the_best_model_must_be_known_at_the_end(run, tmp_path, monkeypatch):
    monkeypatch.setattr(Progress, "note", lambda *arguments: None)
    with pytest.raises(RunError, match=r"no evaluation had a finite f1_macro"):
        train(run, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_every_checkpoint_holds_the_rows_of_its_finished_epochs(run, tmp_path, monkeypatch):
    """A resume from an epoch's last step would never write that epoch's row."""
    saved = []
    save = Trainer.save

    def note(self):
        saved.append((self.progress.step, len(self.history.rows)))
        save(self)

    monkeypatch.setattr(Trainer, "save", note)
    train(run, tmp_path / "out")
    assert saved == [(step, step // STEPS_AN_EPOCH) for step in range(1, 2 * STEPS_AN_EPOCH + 1)]


@pytest.mark.parametrize("keep", [["best"], ["last", "best"], ["last", "state"]])
def test_a_run_killed_after_its_last_epoch_only_leaves_its_record(keep, run, tmp_path):
    run = run.model_copy(update={"recipe": run.recipe.model_copy(update={"keep": keep})})
    assert_trains_no_further(run, tmp_path)
