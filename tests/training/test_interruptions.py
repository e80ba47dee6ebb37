"""Whatever happens to a run's checkpoints, it ends with the right figures or with an error, never with wrong ones."""

import logging
import shutil
from types import SimpleNamespace

import pytest
import torch
from killing import kill, killed_at, killed_in
from safetensors.torch import load_file

from lib.core.errors import RunError
from lib.core.record import read_record
from lib.core.settings.run import Start
from lib.training.checkpoints import last_checkpoint
from lib.training.folders import RunFolders
from lib.training.run import train
from lib.training.trainer import KeyedTrainer

STEPS_AN_EPOCH = 192 // 32
KILLED_AT = STEPS_AN_EPOCH + 3


@pytest.fixture
def run(run_of):
    """A fine-tuning of two epochs with a checkpoint at every step."""
    return run_of("finetune", recipe={"epochs": 2}, execution={"checkpoint_minutes": 1e-6})


@pytest.fixture
def killed(run, tmp_path):
    """The working folder of `run`, killed in its second epoch: its last checkpoint, and that of its best model."""
    with killed_at(KILLED_AT):
        train(run, tmp_path / "out")
    (work,) = (tmp_path / ".out.work").iterdir()
    assert {path.name for path in work.iterdir()} == {f"checkpoint-{step}" for step in (STEPS_AN_EPOCH, KILLED_AT)}
    return work


def arguments(work, **changes):
    values = {"output_dir": str(work), "world_size": 1, "process_index": 0, "fp16": False}
    return SimpleNamespace(**values | {"load_best_model_at_end": True} | changes)


def weights(folder):
    return load_file(folder / "model" / "model.safetensors")


def assert_like_an_undisturbed_run(run, tmp_path):
    train(run, tmp_path / "undisturbed")
    expected, found = weights(tmp_path / "undisturbed"), weights(tmp_path / "out")
    assert all(torch.equal(weight, found[name]) for name, weight in expected.items())
    assert read_record(tmp_path / "undisturbed").metrics == read_record(tmp_path / "out").metrics


@pytest.mark.parametrize(
    ("method", "lost", "message"),
    [
        ("_load_from_checkpoint", "checkpoint-9/model.safetensors", "its model.safetensors is missing"),
        ("_init_training_state", "checkpoint-9/trainer_state.json", "starts at step 0. Expected step 9"),
        ("_init_training_state", "checkpoint-6", "of its best model in .*checkpoint-6, model.safetensors is missing"),
        ("_load_optimizer_and_scheduler", "checkpoint-9/optimizer.pt", "its optimizer.pt is missing"),
        ("_load_optimizer_and_scheduler", "checkpoint-9/scheduler.pt", "its scheduler.pt is missing"),
        ("_load_rng_state", "checkpoint-9/rng_state.pth", "its rng_state.pth is missing"),
    ],
)
def test_what_vanishes_while_the_training_reads_it(method, lost, message, run, killed, tmp_path, monkeypatch):
    """Another process removes a part of the checkpoint after it was found whole, before the Trainer reads it."""
    read = getattr(KeyedTrainer, method)

    def lose(self, *arguments, **options):
        path = killed / lost
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        return read(self, *arguments, **options)

    monkeypatch.setattr(KeyedTrainer, method, lose)
    with pytest.raises(RunError, match=rf"checkpoint-9: .*{message}.*Another process.*start this run again"):
        train(run, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_best_model_that_vanished_makes_its_checkpoint_worthless(run, killed, tmp_path, caplog):
    (killed / "checkpoint-6" / "model.safetensors").unlink()
    caplog.set_level(logging.WARNING)
    train(run, tmp_path / "out")
    assert "checkpoint-9: passed over, since of its best model" in caplog.text
    assert_like_an_undisturbed_run(run, tmp_path)


@pytest.mark.parametrize("part", ["model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state.pth"])
def test_a_checkpoint_with_a_part_cut_off_is_passed_over_and_left_there(part, killed):
    assert last_checkpoint(arguments(killed)) == killed / "checkpoint-9"
    path = killed / "checkpoint-9" / part
    path.write_bytes(path.read_bytes()[:-30])
    assert last_checkpoint(arguments(killed)) == killed / "checkpoint-6"
    path.unlink()
    assert last_checkpoint(arguments(killed)) == killed / "checkpoint-6"
    assert (killed / "checkpoint-9").is_dir()


def test_a_checkpoint_whose_state_is_of_another_step_is_passed_over(killed):
    (killed / "checkpoint-9").rename(killed / "checkpoint-10")
    (killed / "checkpoint-none").mkdir()
    assert last_checkpoint(arguments(killed)) == killed / "checkpoint-6"


def test_the_gradient_scaler_belongs_to_a_checkpoint_of_fp16(killed):
    assert last_checkpoint(arguments(killed, fp16=True)) is None


def test_without_a_choice_of_the_best_model_none_is_needed(killed):
    shutil.rmtree(killed / "checkpoint-6")
    assert last_checkpoint(arguments(killed, load_best_model_at_end=False)) == killed / "checkpoint-9"
    assert last_checkpoint(arguments(killed)) is None


def test_an_older_checkpoint_does_when_the_last_is_cut_off(run, killed, tmp_path):
    (killed / "checkpoint-9" / "trainer_state.json").write_text("{")
    train(run, tmp_path / "out")
    assert_like_an_undisturbed_run(run, tmp_path)


def test_a_start_from_the_training_state_of_another_run_goes_on_exactly(run, killed, tmp_path):
    checkpoint = shutil.copytree(killed / "checkpoint-9", tmp_path / "copied")
    start = Start(run=str(tmp_path), checkpoint=str(checkpoint), load_only_model_state=False)
    train(run.model_copy(update={"start": start}), tmp_path / "started")
    train(run, tmp_path / "out")
    resumed, started = weights(tmp_path / "out"), weights(tmp_path / "started")
    assert all(torch.equal(weight, started[name]) for name, weight in resumed.items())


@pytest.mark.parametrize("forgotten", [True, False])
def test_the_best_model_must_be_there_at_the_end(forgotten, run, tmp_path, monkeypatch):
    finalize = KeyedTrainer._finalize_training

    def lose(self, *arguments):
        if forgotten:
            self.state.best_model_checkpoint = None
        else:
            shutil.rmtree(self.state.best_model_checkpoint)
        return finalize(self, *arguments)

    monkeypatch.setattr(KeyedTrainer, "_finalize_training", lose)
    with pytest.raises(RunError, match=r"Expected the model with the best f1_macro \(.*start this run again"):
        train(run, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_every_checkpoint_holds_the_rows_of_its_finished_epochs(run, tmp_path, monkeypatch):
    """A resume from an epoch's last step would never write that epoch's row."""
    saved = []
    save = KeyedTrainer._save_checkpoint

    def note(self, *arguments):
        saved.append((self.state.global_step, len(self.recorder.rows)))
        save(self, *arguments)

    monkeypatch.setattr(KeyedTrainer, "_save_checkpoint", note)
    train(run, tmp_path / "out")
    assert saved == [(step, step // STEPS_AN_EPOCH) for step in range(1, 2 * STEPS_AN_EPOCH + 1)]


@pytest.mark.parametrize("keep", [["best"], ["last", "best"], ["last", "state"]])
def test_a_run_killed_after_its_last_epoch_only_leaves_its_record(keep, run, tmp_path, monkeypatch):
    run = run.model_copy(update={"recipe": run.recipe.model_copy(update={"keep": keep})})
    with killed_in(RunFolders, "publish"):
        train(run, tmp_path / "out")
    with monkeypatch.context() as context:
        context.setattr(KeyedTrainer, "training_step", kill)
        train(run, tmp_path / "out")
    assert_like_an_undisturbed_run(run, tmp_path)
