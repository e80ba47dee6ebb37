import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.lines import Line2D
from run_records import scope_of, write_baseline, write_run
from small_studies import study

from lib.core.errors import ConfigError, DataError
from lib.core.record import HISTORY
from lib.results.kinds.history import LossFigure


def write(root, model, losses, dataset="imdb", seed=0, seconds=None):
    """Write a run of `finetune` with these losses, by epoch."""
    folder = write_run(root, "finetune", model, dataset, seed=seed)
    seconds = seconds or [60.0] * len(losses)
    rows = [f"{epoch + 1},{seconds[epoch]},{loss}" for epoch, loss in enumerate(losses)]
    (folder / HISTORY).write_text("\n".join(["epoch,seconds,train_loss", *rows]) + "\n")
    return folder


def drawn(folders, models=("sdpa",), datasets=("imdb",), fields=None, **settings):
    scope = scope_of(folders, {"finetune": datasets}, list(models), **fields or {})
    return LossFigure(kind="loss", stage="finetune", **settings).draw(scope)


def lines_of(axes):
    return {line.get_gid(): line for line in axes.lines}


def test_a_line_per_model_and_a_panel_per_dataset(tmp_path):
    folders = [write(tmp_path, "sdpa", [3.0, 2.0]), write(tmp_path, "favor-m64", [3.5, 2.5])]
    folders += [write(tmp_path, "sdpa", [1.0, 0.9], "arxiv"), write(tmp_path, "favor-m64", [1.5, 1.4], "arxiv")]
    figure = drawn(folders, ["sdpa", "favor-m64"], ["imdb", "arxiv"])
    assert [axes.get_title("left") for axes in figure.axes] == ["imdb", "arxiv"]
    assert [(axes.get_xlabel(), axes.get_ylabel()) for axes in figure.axes] == [("epoch", "training loss [nats]")] * 2
    assert lines_of(figure.axes[0])["favor-m64"].get_xydata().tolist() == [[1, 3.5], [2, 2.5]]
    assert lines_of(figure.axes[1])["sdpa"].get_ydata().tolist() == [1.0, 0.9]
    assert not figure.axes[0].collections  # one seed has no band
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["sdpa", "favor-m64"]
    figure.draw_without_rendering()
    assert all(axes.get_tightbbox().x1 <= legend.get_window_extent().x0 for axes in figure.axes)
    assert legend.get_window_extent().x1 <= figure.bbox.x1


def test_seeds_give_a_mean_and_a_band_of_one_standard_deviation(tmp_path):
    folders = [write(tmp_path, "sdpa", [3.0, 2.0]), write(tmp_path, "sdpa", [4.0, 2.0], seed=1)]
    (axes,) = drawn(folders).axes
    assert lines_of(axes)["sdpa"].get_ydata().tolist() == [3.5, 2.0]
    (band,) = axes.collections
    corners = band.get_paths()[0].vertices
    at_first = corners[corners[:, 0] == 1][:, 1]
    assert (at_first.min(), at_first.max()) == (pytest.approx(3.5 - 0.5**0.5), pytest.approx(3.5 + 0.5**0.5))
    assert set(corners[corners[:, 0] == 2][:, 1]) == {2.0}


def test_minutes_add_up_over_epochs_and_are_means_over_seeds(tmp_path):
    folders = [write(tmp_path, "sdpa", [3.0, 2.0], seconds=[60, 120])]
    folders += [write(tmp_path, "sdpa", [3.0, 2.0], seed=1, seconds=[120, 120])]
    (axes,) = drawn(folders, against="minutes").axes
    assert lines_of(axes)["sdpa"].get_xdata().tolist() == [1.5, 3.5]
    assert axes.get_xlabel() == "training time [min]"


@pytest.mark.parametrize(
    ("column", "label", "factor"),
    [
        ("eval_f1_macro", "validation F1 [%]", 100),
        ("eval_f1", "validation F1 of characters [%]", 100),
        ("eval_accuracy", "validation accuracy [%]", 100),
        ("eval_loss", "validation loss [nats]", 1),
        ("eval_mlm_share", "validation mlm share", 1),
    ],
)
def test_other_columns_are_named_by_their_split_and_scores_are_in_percent(column, label, factor, tmp_path):
    folders = [write(tmp_path, "sdpa", [3.0], seed=seed) for seed in (0, 1)]
    for folder in folders:
        (folder / HISTORY).write_text(f"epoch,train_loss,{column}\n1,3.0,0.5\n2,2.0,0.75\n")
    (axes,) = drawn(folders, column=column).axes
    assert axes.get_ylabel() == label
    assert lines_of(axes)["sdpa"].get_ydata().tolist() == [0.5 * factor, 0.75 * factor]


def test_epochs_are_whole_numbers_also_if_there_is_only_one(tmp_path):
    (axes,) = drawn([write(tmp_path, "sdpa", [3.0])]).axes
    axes.figure.draw_without_rendering()
    low, high = axes.get_xlim()
    assert [tick for tick in axes.get_xticks() if low <= tick <= high] == [1]


@pytest.mark.parametrize("against", ["epochs", "minutes"])
def test_evaluations_within_epochs_stand_where_they_were(against, tmp_path):
    folders = []
    for seed in (0, 1):
        folders.append(write(tmp_path, "sdpa", [], seed=seed))
        rows = [f"{epoch},60,{loss + seed}" for epoch, loss in ((0.4, 5.0), (0.8, 3.0), (1.2, 2.0), (1.5, 1.0))]
        (folders[-1] / HISTORY).write_text("\n".join(["epoch,seconds,train_loss", *rows]) + "\n")
    (axes,) = drawn(folders, against=against).axes
    line = lines_of(axes)["sdpa"]
    assert line.get_xdata().tolist() == ([0.4, 0.8, 1.2, 1.5] if against == "epochs" else [1, 2, 3, 4])
    assert line.get_ydata().tolist() == [5.5, 3.5, 2.5, 1.5]


def test_a_line_breaks_where_a_seed_lacks_the_value(tmp_path):
    folders = [write(tmp_path, "sdpa", [4.0, 3.0, 2.0]), write(tmp_path, "sdpa", [4.0, "", 2.0], seed=1)]
    (axes,) = drawn(folders).axes
    assert np.isnan(lines_of(axes)["sdpa"].get_ydata()).tolist() == [False, True, False]
    (folders[0] / HISTORY).write_text("epoch,seconds,train_loss\n1,60,4.0\n3,60,2.0\n")
    (axes,) = drawn(folders[:1]).axes
    assert lines_of(axes)["sdpa"].get_xdata()[[0, 2]].tolist() == [1, 3]
    assert np.isnan(lines_of(axes)["sdpa"].get_ydata()).tolist() == [False, True, False]


def test_a_figure_without_any_training_is_refused(tmp_path):
    with pytest.raises(DataError, match="the figure has no panel"):
        drawn([write_baseline(tmp_path, "imdb", 0.6)], ["tfidf"])


def test_datasets_have_seeds_of_their_own(tmp_path):
    folders = [write(tmp_path, "sdpa", [4.0 + seed, 2.0 + seed], seed=seed) for seed in (0, 1, 2)]
    folders += [write(tmp_path, "sdpa", [3.0, 1.0], "arxiv", seed=7)]
    imdb, arxiv = drawn(folders, datasets=["imdb", "arxiv"]).axes
    assert lines_of(imdb)["sdpa"].get_ydata().tolist() == [5.0, 3.0]
    assert lines_of(arxiv)["sdpa"].get_ydata().tolist() == [3.0, 1.0]


@pytest.mark.parametrize("against", ["epochs", "minutes"])
def test_models_whose_histories_differ_in_length_keep_all_evaluations(against, tmp_path):
    folders = [write(tmp_path, "sdpa", [4.0, 3.0, 2.0]), write(tmp_path, "favor-m64", [])]
    (folders[1] / HISTORY).write_text("epoch,seconds,train_loss\n0.5,60,5.0\n1,60,4.0\n")
    (axes,) = drawn(folders, ["sdpa", "favor-m64"], against=against).axes
    assert lines_of(axes)["sdpa"].get_ydata().tolist() == [4.0, 3.0, 2.0]
    assert lines_of(axes)["favor-m64"].get_ydata().tolist() == [5.0, 4.0]


def test_what_does_not_train_is_left_out_and_shared_runs_are_drawn_for_each_row(tmp_path):
    folders = [write_baseline(tmp_path, "imdb", 0.6), write(tmp_path, "sdpa", [3.0, 2.0])]
    owners = {"finetune": {"tfidf": "tfidf", "sdpa": "sdpa", "sdpa-again": "sdpa"}}
    (axes,) = drawn(folders, ["tfidf", "sdpa", "sdpa-again"], fields={"owners": owners}).axes
    assert list(lines_of(axes)) == ["sdpa", "sdpa-again"]


@pytest.mark.parametrize(("last", "scale"), [(0.01, "log"), (0.5, "linear"), (0.0, "linear")])
def test_a_wide_range_is_logarithmic(tmp_path, last, scale):
    (axes,) = drawn([write(tmp_path, "sdpa", [3.0, last])]).axes
    assert axes.get_yscale() == scale


def test_what_is_missing_is_named(tmp_path):
    folders = [write(tmp_path, "sdpa", [3.0, 2.0]), write(tmp_path, "lsh-h2-c64", [3.0, 2.0], seconds=[60, ""])]
    models = ["sdpa", "lsh-h2-c64"]
    with pytest.raises(DataError, match="finetune/lsh-h2-c64/imdb/seed-0.*seconds"):
        drawn(folders, models, against="minutes")
    with pytest.raises(DataError, match=r"sdpa/imdb/seed-0.*eval_los\b"):
        drawn(folders, models, column="eval_los")
    with pytest.raises(DataError, match="finetune/favor-m64/imdb/seed-0"):
        drawn(folders, [*models, "favor-m64"])


@pytest.mark.parametrize(
    ("shown", "problem"),
    [
        (
            {"stage": "finetune", "models": ["tfidf", "sdpa"]},
            "figures.x.stage: shows a training, which runs of tfidf at finetune lack",
        ),
        ({"stage": "score"}, "figures.x.stage: shows a training, which runs of tfidf, sdpa, .* at score lack"),
    ],
)
def test_a_study_is_told_that_there_is_no_training(shown, problem):
    untrained = {"start": "finetune", "task": {"kind": "sequence_classification"}, "data": {"imdb": {}}}
    report = ("report.yaml", {"report": {"figures": {"x": {"kind": "loss", **shown}}}})
    with pytest.raises(ConfigError, match=problem):
        study(("stages/score", untrained), layers=[report])
    # `score` apart, all is well.
    study(
        ("stages/score", untrained), layers=[("r", {"report": {"figures": {"x": {"kind": "loss", "stage": "tapt"}}}})]
    )


def test_lines_that_coincide_all_show(tmp_path):
    """Each further one is wider, paler and behind, and so are its markers."""
    models = ["lsh-h2-c64", "lsh-h2-c128", "lsh-h4-c64", "lsh-h4-c128"]
    figure = drawn([write(tmp_path, model, [4.0, 3.0]) for model in models], models)
    lines = [lines_of(figure.axes[0])[model] for model in models]
    for size in (Line2D.get_linewidth, Line2D.get_markersize, lambda line: sum(to_rgb(line.get_color()))):
        assert (np.diff([size(line) for line in lines]) > 0.5).all()
    assert (np.diff([line.get_zorder() for line in lines]) < 0).all()
    assert len({line.get_marker() for line in lines}) == len({line.get_linestyle() for line in lines}) == 4
    (legend,) = figure.legends
    assert [line.get_linewidth() for line in legend.get_lines()] == [line.get_linewidth() for line in lines]
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    seen = {tuple(pixel) for pixel in np.asarray(canvas.buffer_rgba())[..., :3].reshape(-1, 3)}
    assert {tuple(np.round(255 * np.array(to_rgb(line.get_color()))).astype(int)) for line in lines} <= seen
