"""Trials of runs that tuned, read from their records."""

import pytest
from run_records import scope_of, write_run, write_trials

from lib.core.errors import DataError
from studies.trials.results.kinds.trials import load_trials

SPACE = {
    "recipe.learning_rate": {"low": 1e-5, "high": 1e-3, "log": True},
    "recipe.freeze_epochs": {"values": [None, 1]},
}


def trial(score, rate=1e-4, frozen="null", name="eval_f1_macro", **values):
    return {"recipe.learning_rate": rate, "recipe.freeze_epochs": frozen, name: score} | values


def loaded(root, *rows, best=0):
    folder = write_trials(write_run(root, "tune", "sdpa", "imdb", best_trial=best), SPACE, *rows)
    (found,) = load_trials(scope_of([folder], {"tune": ["imdb"]}, ["sdpa"]), "tune")
    return found


def test_settings_of_trials(tmp_path):
    found = loaded(tmp_path, trial(0.8, rate=3.25e-05), trial(0.7, frozen="1"))
    assert found.frame["recipe.learning_rate"].tolist() == [3.25e-05, 1e-4]
    assert found.frame["recipe.freeze_epochs"].tolist() == ["null", "1"]
    assert list(found.space) == list(SPACE)
    assert (found.dataset, found.row) == ("imdb", "sdpa")


@pytest.mark.parametrize(
    ("metric", "name", "label", "score"),
    [
        ("eval_f1", "validation_f1_characters_percent", "validation F1 of characters [%]", 50),
        ("eval_spearman", "validation_spearman", "validation Spearman correlation", 0.5),
        ("eval_loss", "eval_loss", "eval loss", 0.5),
    ],
)
def test_names_and_units_of_scores(tmp_path, metric, name, label, score):
    found = loaded(tmp_path, trial(0.5, name=metric))
    assert (found.score.name, found.score.label) == (name, label)
    assert found.frame["score"].tolist() == pytest.approx([score])


def test_best_of_complete_trials(tmp_path):
    rows = [trial(0.5), trial(0.9, state="pruned"), trial(0.7), trial(None, state="diverged"), trial(0.6)]
    found = loaded(tmp_path, *rows, best=2)
    assert found.frame["best_so_far"].tolist() == pytest.approx([50, 50, 70, 70, 70])
    assert found.frame["best"].tolist() == [False, False, True, False, False]
    assert found.frame["score"].isna().tolist() == [False, False, False, True, False]


def test_best_loss_of_trials(tmp_path):
    rows = [trial(score, name="eval_loss") for score in (3.0, 2.0, 2.5)]
    assert loaded(tmp_path, *rows, best=1).frame["best_so_far"].tolist() == [3, 2, 2]


def test_damaged_tables_of_trials(tmp_path):
    folder = write_trials(write_run(tmp_path, "tune", "sdpa", "imdb", best_trial=0), SPACE, trial(0.5))
    scope = scope_of([folder], {"tune": ["imdb"]}, ["sdpa"])
    text = (folder / "trials.csv").read_text()
    for damaged in ("number\n0\n", text.replace("0.5", "half"), ""):
        (folder / "trials.csv").write_text(damaged)
        with pytest.raises(DataError, match="trials.csv"):
            load_trials(scope, "tune")
    (folder / "trials.csv").unlink()
    with pytest.raises(DataError, match="trials.csv"):
        load_trials(scope, "tune")
