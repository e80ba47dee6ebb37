import pytest
from run_records import scope_of, write_run, write_trials

from studies.trials.results.kinds.trials import TrialsFigure

pytestmark = pytest.mark.extended

SPACE = {
    "recipe.learning_rate": {"low": 1e-5, "high": 1e-3, "log": True},
    "recipe.epochs": {"low": 1, "high": 4},
    "task.classifier_pooling": {"values": ["cls", "mean"]},
}


def trial(score, rate=1e-4, epochs=2, pooling="cls", state="complete"):
    settings = {"recipe.learning_rate": rate, "recipe.epochs": epochs, "task.classifier_pooling": pooling}
    return settings | {"eval_f1_macro": score, "state": state}


ROWS = [trial(0.5), trial(0.8, 1e-3, 4, "mean"), trial(0.4, state="pruned"), trial(None, state="diverged"), trial(0.7)]


def drawn(root, rows=ROWS, models=("sdpa",)):
    folders = [write_trials(write_run(root, "tune", model, "imdb", best_trial=1), SPACE, *rows) for model in models]
    return TrialsFigure(kind="trials", stage="tune").draw(scope_of(folders, {"tune": ["imdb"]}, models))


def points(axes, gid):
    """Return the points of a kind, of all models."""
    found = [each for each in axes.collections if each.get_gid() == gid]
    return [pytest.approx(tuple(point)) for each in found for point in each.get_offsets().tolist()]


def test_panel_of_trials(tmp_path):
    by_trial = drawn(tmp_path).axes[0]
    assert (by_trial.get_xlabel(), by_trial.get_ylabel()) == ("trial", "validation F1 [%]")
    (line,) = by_trial.lines
    assert line.get_ydata().tolist() == pytest.approx([50, 80, 80, 80, 80])
    assert points(by_trial, "complete") == [(0, 50), (1, 80), (4, 70)]
    assert points(by_trial, "pruned") == [(2, 40)]
    assert points(by_trial, "best") == [(1, 80)]


def test_panels_of_settings(tmp_path):
    _, rate, epochs, pooling = drawn(tmp_path).axes
    assert [axes.get_xlabel() for axes in (rate, epochs, pooling)] == ["learning rate", "epochs", "classifier pooling"]
    assert [axes.get_xscale() for axes in (rate, epochs, pooling)] == ["log", "linear", "linear"]
    assert points(rate, "best") == [(1e-3, 80)]
    assert points(epochs, "complete") == [(2, 50), (4, 80), (2, 70)]
    assert [label.get_text() for label in pooling.get_xticklabels()] == ["cls", "mean"]
    assert points(pooling, "complete") == [(0, 50), (1, 80), (0, 70)]


def test_legend_of_models(tmp_path):
    figure = drawn(tmp_path, ROWS[:2], ("sdpa", "favor-m64"))
    (legend,) = figure.legends
    names = [f"{kind} ({model})" for model in ("sdpa", "favor-m64") for kind in ("best so far", "complete", "best")]
    assert [text.get_text() for text in legend.texts] == names
    assert len({line.get_color() for line in figure.axes[0].lines}) == 2
