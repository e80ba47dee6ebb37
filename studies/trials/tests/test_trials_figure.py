import pytest
from matplotlib.image import imread
from run_records import scope_of, write_run, write_trials

from lib.results.style import save_figure
from studies.trials.results.kinds.trials import TrialsFigure

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


def test_scores_by_trial_with_the_best_so_far(tmp_path):
    by_trial = drawn(tmp_path).axes[0]
    assert (by_trial.get_xlabel(), by_trial.get_ylabel()) == ("trial", "validation F1 [%]")
    (line,) = by_trial.lines
    assert line.get_ydata().tolist() == pytest.approx([50, 80, 80, 80, 80])
    assert points(by_trial, "complete") == [(0, 50), (1, 80), (4, 70)]
    assert points(by_trial, "pruned") == [(2, 40)]
    assert points(by_trial, "best") == [(1, 80)]


def test_a_panel_per_setting_on_the_scale_of_the_space(tmp_path):
    _, rate, epochs, pooling = drawn(tmp_path).axes
    assert [axes.get_xlabel() for axes in (rate, epochs, pooling)] == ["learning rate", "epochs", "classifier pooling"]
    assert [axes.get_xscale() for axes in (rate, epochs, pooling)] == ["log", "linear", "linear"]
    assert points(rate, "best") == [(1e-3, 80)]
    assert points(epochs, "complete") == [(2, 50), (4, 80), (2, 70)]
    assert [label.get_text() for label in pooling.get_xticklabels()] == ["cls", "mean"]
    assert points(pooling, "complete") == [(0, 50), (1, 80), (0, 70)]


def test_a_trial_that_diverged_stands_at_the_lower_edge(tmp_path):
    for axes in drawn(tmp_path).axes:
        (diverged,) = [each for each in axes.collections if each.get_gid() == "diverged"]
        bottom, _ = axes.get_ylim()
        height = diverged.get_offset_transform().transform(diverged.get_offsets())[0][1]
        edge = axes.transData.transform((1e-4, bottom))[1]
        assert 0 <= height - edge < 0.1 * axes.bbox.height


def test_panels_show_all_of_the_space_and_all_trials(tmp_path):
    rows = [trial(None, 1e-3, state="diverged"), trial(0.5, 1e-4), trial(None, 1e-5, state="diverged")]
    by_trial, rate, epochs, _ = drawn(tmp_path, rows).axes
    for axes, low, high in ((by_trial, 0, 2), (rate, 1e-5, 1e-3), (epochs, 1, 4)):
        left, right = axes.get_xlim()
        assert left < low
        assert high < right
    assert by_trial.get_ylim()[0] > 0


def test_the_legend_has_what_is_drawn(tmp_path):
    (legend,) = drawn(tmp_path).legends
    assert [text.get_text() for text in legend.texts] == ["best so far", "complete", "pruned", "diverged", "best"]
    (legend,) = drawn(tmp_path / "complete", ROWS[:2]).legends
    assert [text.get_text() for text in legend.texts] == ["best so far", "complete", "best"]


def test_models_are_told_apart(tmp_path):
    figure = drawn(tmp_path, ROWS[:2], ("sdpa", "favor-m64"))
    (legend,) = figure.legends
    names = [f"{kind} ({model})" for model in ("sdpa", "favor-m64") for kind in ("best so far", "complete", "best")]
    assert [text.get_text() for text in legend.texts] == names
    assert len({line.get_color() for line in figure.axes[0].lines}) == 2


def test_scores_of_different_tasks_are_both_named(tmp_path):
    folders = [write_trials(write_run(tmp_path, "tune", "sdpa", "imdb", best_trial=0), SPACE, trial(0.5))]
    spans = {name: value for name, value in trial(0.5).items() if name != "eval_f1_macro"} | {"eval_f1": 0.25}
    folders.append(write_trials(write_run(tmp_path, "tune", "spans", "imdb", best_trial=0), SPACE, spans))
    figure = TrialsFigure(kind="trials", stage="tune").draw(scope_of(folders, {"tune": ["imdb"]}, ["sdpa", "spans"]))
    figure.draw_without_rendering()
    assert all(axes.yaxis.label.get_window_extent().y1 <= figure.bbox.y1 for axes in figure.axes)
    assert {axes.get_ylabel() for axes in figure.axes} == {"validation F1 [%]\nor validation F1 of characters [%]"}


def test_the_figure_can_be_written(tmp_path):
    save_figure(drawn(tmp_path), [tmp_path / "trials.png", tmp_path / "trials.svg"])
    assert 0.005 < (imread(tmp_path / "trials.png")[..., :3].min(axis=2) < 0.6).mean() < 0.3
