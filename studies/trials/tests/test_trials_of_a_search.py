"""Searches by trials: what they leave, that they can be repeated and go on after a kill, and how trials end early."""

import json
import logging

import pandas as pd
import pytest
import yaml

optuna = pytest.importorskip("optuna", reason="an optional package of the study")

from killing import killed_at, killed_in  # noqa: E402 - only where optuna is

from lib.core.record import read_record  # noqa: E402
from lib.study.arguments import read_run  # noqa: E402
from lib.study.tuning import TunedRun  # noqa: E402
from lib.training.run import train  # noqa: E402
from studies.trials.training import tuning  # noqa: E402
from studies.trials.training.tuning import tune  # noqa: E402

pytestmark = pytest.mark.extended

STEPS_AN_EPOCH = 192 // 32
SPACE = {
    "recipe.learning_rate": {"low": 1e-4, "high": 1e-2, "log": True},
    "recipe.freeze_layers": {"low": 0, "high": 2},
    "task.classifier_pooling": {"values": ["cls", "mean"]},
    "task.classifier_dropout": {"low": 0.0, "high": 0.3, "step": 0.1},
}
RATES = {"recipe.learning_rate": {"values": [3e-3, 1e-7]}}


@pytest.fixture
def tuned_run(settings):
    """Return settings of a search; `changes` are those of its section `tuning`."""

    def make(space=SPACE, stage="finetune", recipe=None, **changes):
        values = settings(stage, recipe=recipe or {}, execution={"checkpoint_minutes": 1e-6})
        return TunedRun.model_validate(values | {"tuning": {"trials": 4, "pruner": "none", "space": space} | changes})

    return make


def trials(folder):
    """Return the trials without what no two runs have alike."""
    return pd.read_csv(folder / "trials.csv").drop(columns="seconds")


def test_results_of_a_search(tuned_run, tmp_path):
    run = tuned_run()
    tune(run, tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "config.yaml",
        "trials.csv",
        "best.json",
        "run.json",
    }
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    found = pd.read_csv(tmp_path / "out" / "trials.csv")
    assert found.columns.tolist() == ["number", *SPACE, "eval_f1_macro", "state", "epochs", "seconds"]
    assert found["number"].tolist() == [0, 1, 2, 3]
    assert found["recipe.learning_rate"].between(1e-4, 1e-2).all()
    assert set(found["recipe.freeze_layers"]) <= {0, 1, 2}
    assert set(found["task.classifier_pooling"]) <= {"cls", "mean"}
    assert set((found["task.classifier_dropout"] * 10).round(9)) <= {0, 1, 2, 3}
    assert set(found["state"]) == {"complete"}
    assert found["epochs"].tolist() == [2] * 4
    record, best = read_record(tmp_path / "out"), found["eval_f1_macro"].idxmax()
    assert record.metrics["best_trial"] == best
    assert record.metrics["eval_f1_macro"] == found["eval_f1_macro"][best]
    assert (record.epochs, record.steps) == (8, 4 * 2 * STEPS_AN_EPOCH)
    assert record.seconds == pytest.approx(found["seconds"].sum())
    chosen = json.loads((tmp_path / "out" / "best.json").read_text())
    assert chosen == {place: found[place][best] for place in SPACE}
    assert TunedRun.model_validate(yaml.safe_load((tmp_path / "out" / "config.yaml").read_text())) == run


def test_run_with_the_best_settings(tuned_run, tmp_path):
    run = tuned_run(trials=3)
    tune(run, tmp_path / "out")
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(run.model_dump(mode="json", exclude={"tuning"})))
    arguments = ["--config", str(tmp_path / "config.yaml"), "--settings-from", str(tmp_path / "out" / "best.json")]
    taking, *_ = read_run(None, [*arguments, "--out", "again"])
    train(taking, tmp_path / "again")
    again, best = read_record(tmp_path / "again"), read_record(tmp_path / "out")
    assert again.metrics == {name: value for name, value in best.metrics.items() if name != "best_trial"}


@pytest.mark.parametrize("sampler", ["tpe", "random"])
def test_trials_by_seed(sampler, tuned_run, tmp_path):
    run = tuned_run(recipe={"epochs": 1}, sampler=sampler, **({"startup": 2} if sampler == "tpe" else {}))
    tune(run, tmp_path / "one")
    tune(run, tmp_path / "two")
    pd.testing.assert_frame_equal(trials(tmp_path / "one"), trials(tmp_path / "two"))
    tune(run.model_copy(update={"seed": 8}), tmp_path / "other")
    rates = [trials(tmp_path / name)["recipe.learning_rate"].tolist() for name in ("one", "other")]
    assert rates[0] != rates[1]


class Trainings:
    """Trains as ever, counts, and kills the training of a certain number before an optimiser step."""

    def __init__(self, killed=None, step=STEPS_AN_EPOCH + 3):
        self.runs, self.killed, self.step = [], killed, step

    def __call__(self, run, *arguments, **options):
        self.runs.append(run)
        if len(self.runs) - 1 == self.killed:
            with killed_at(self.step):
                train(run, *arguments, **options)
            raise KeyboardInterrupt
        train(run, *arguments, **options)


@pytest.mark.parametrize("pruner", ["none", "median"])
def test_killed_search(pruner, tuned_run, tmp_path, monkeypatch, caplog):
    run = tuned_run(pruner=pruner, startup=2)
    tune(run, tmp_path / "whole")
    monkeypatch.setattr(tuning, "train", Trainings(killed=2))
    with pytest.raises(KeyboardInterrupt):
        tune(run, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    again = Trainings()
    monkeypatch.setattr(tuning, "train", again)
    caplog.set_level(logging.INFO)
    tune(run, tmp_path / "out")
    assert len(again.runs) == 2
    assert f"checkpoint-{STEPS_AN_EPOCH + 3}" in next(line for line in caplog.messages if "resuming from" in line)
    pd.testing.assert_frame_equal(trials(tmp_path / "out"), trials(tmp_path / "whole"))
    assert read_record(tmp_path / "out").metrics == read_record(tmp_path / "whole").metrics
    assert (tmp_path / "out" / "best.json").read_text() == (tmp_path / "whole" / "best.json").read_text()
    assert read_record(tmp_path / "out").stretches == read_record(tmp_path / "whole").stretches
    assert read_record(tmp_path / "out").mixed is None


@pytest.mark.parametrize(("owner", "name", "left"), [(optuna.Study, "add_trial", 1), (tuning, "write_json", 0)])
def test_search_killed_between_trials(owner, name, left, tuned_run, tmp_path, monkeypatch):
    """Killed between the end of a trial and its line in the journal, and while the results of all are written."""
    run = tuned_run(trials=2)
    tune(run, tmp_path / "whole")
    with killed_in(owner, name):
        tune(run, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    again = Trainings()
    monkeypatch.setattr(tuning, "train", again)
    tune(run, tmp_path / "out")
    assert len(again.runs) == left
    pd.testing.assert_frame_equal(trials(tmp_path / "out"), trials(tmp_path / "whole"))


def test_trial_that_falls_behind(tuned_run, tmp_path):
    run = tuned_run(RATES, trials=4, pruner="median", startup=1, sampler="random", recipe={"batch_size": 16})
    tune(run, tmp_path / "out")
    found = trials(tmp_path / "out")
    pruned = found[found["state"] == "pruned"]
    assert len(pruned)
    assert set(pruned["recipe.learning_rate"]) == {1e-7}
    assert (pruned["epochs"] == 1).all()
    assert (found["epochs"][found["state"] == "complete"] == 2).all()
    assert pruned["eval_f1_macro"].notna().all()
    record = read_record(tmp_path / "out")
    assert record.epochs == found["epochs"].sum()
    assert json.loads((tmp_path / "out" / "best.json").read_text()) == {"recipe.learning_rate": 3e-3}
    tune(run.model_copy(update={"tuning": run.tuning.model_copy(update={"pruner": "none"})}), tmp_path / "none")
    assert set(trials(tmp_path / "none")["state"]) == {"complete"}


def test_search_by_loss(tuned_run, tmp_path):
    run = tuned_run(RATES, stage="pretrain", trials=4, sampler="random")
    tune(run, tmp_path / "out")
    found, record = trials(tmp_path / "out"), read_record(tmp_path / "out")
    assert found["eval_loss"].nunique() == 2
    assert record.metrics["eval_loss"] == found["eval_loss"].min()
    assert record.metrics["best_trial"] == found["eval_loss"].idxmin()


def test_trial_that_diverges(tuned_run, tmp_path):
    run = tuned_run({"recipe.learning_rate": {"values": [1e-3, 1e9]}}, sampler="random")
    tune(run, tmp_path / "out")
    found = trials(tmp_path / "out")
    assert found["eval_f1_macro"].isna().tolist() == (found["recipe.learning_rate"] == 1e9).tolist()
    assert set(found["state"]) == {"complete", "diverged"}
    assert json.loads((tmp_path / "out" / "best.json").read_text()) == {"recipe.learning_rate": 1e-3}
