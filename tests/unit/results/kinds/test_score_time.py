import itertools
import json
import runpy
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import matplotlib.style
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.image import imread
from run_records import scope_of, write_baseline, write_run

from lib.core.errors import DataError, ProjectError
from lib.core.program import run as run_program
from lib.core.record import read_record
from lib.core.record import write_run as write_record
from lib.results.kinds.pareto import ScoreTimeFigure
from lib.results.quantities import quantity
from lib.results.style import STYLE, save_figure

PROGRAM = Path(__file__).resolve().parents[4] / "scripts/figure.py"
DATASETS = ["imdb", "arxiv"]
MODELS = ["sdpa", "lsh-h2-c64", "lsh-h2-c128", "lsh-h4-c64", "lsh-h4-c128"]
MODELS += ["favor-m64", "favor-m128", "favor-m256", "favor-m512"]
SETTINGS = ScoreTimeFigure(kind="score_time", stage="finetune", time=["tapt", "finetune"])


def scope_with(folders, datasets=DATASETS, models=("tfidf", *MODELS), **fields):
    stages = dict.fromkeys(("tapt", "finetune"), datasets)
    owners = {"tapt": {model: model for model in models if model != "tfidf"}}
    owners["finetune"] = owners["tapt"] | {"tfidf": "tfidf"}
    return scope_of(folders, stages, models, **{"owners": owners, "baseline": "tfidf", **fields})


def figure_of(*arguments, **fields):
    return SETTINGS.draw(scope_with(*arguments, **fields))


@pytest.fixture
def folders(tmp_path):
    """A crowd: all models within two minutes and one point of each other, far above the baseline."""
    made = [write_run(tmp_path, "finetune", "tfidf", dataset, test_f1_macro=0.6) for dataset in DATASETS]
    for number, (dataset, model) in enumerate(itertools.product(DATASETS, MODELS)):
        place = number % len(MODELS)
        made.append(write_run(tmp_path, "tapt", model, dataset, seconds=600.0 + 7 * (place // 2)))
        score = 0.99 + (place % 3) / 500
        made.append(write_run(tmp_path, "finetune", model, dataset, seconds=300.0, test_f1_macro=score))
    return made


@pytest.fixture
def figure(folders):
    return figure_of(folders)


def test_points_are_total_minutes_and_percent(figure):
    for axes, dataset in zip(figure.axes, DATASETS, strict=True):
        assert axes.get_title("left") == dataset
        points = {line.get_gid(): line for line in axes.lines if line.get_gid()}
        assert list(points) == MODELS
        assert points["sdpa"].get_xydata().tolist() == [[15.0, pytest.approx(99.0)]]
        dashed = [line for line in axes.lines if line.get_linestyle() == "--"]
        assert dashed[0].get_ydata() == pytest.approx([60, 60])


def test_families_have_colours_and_their_models_markers(figure):
    points = {line.get_gid(): line for line in figure.axes[0].lines if line.get_gid()}
    colours = {name: {points[m].get_color() for m in MODELS if m.startswith(name)} for name in ("sdpa", "lsh", "favor")}
    assert all(len(colour) == 1 for colour in colours.values())
    assert len(set.union(*colours.values())) == 3
    assert len({points[model].get_marker() for model in MODELS if model.startswith("lsh")}) == 4


def test_a_model_that_skips_a_stage_costs_less(tmp_path):
    folders = [write_run(tmp_path, "finetune", model, "imdb", seconds=300.0) for model in ("sdpa", "favor-m64")]
    folders.append(write_run(tmp_path, "tapt", "sdpa", "imdb", seconds=600.0))
    owners = {"tapt": {"sdpa": "sdpa"}, "finetune": {"sdpa": "sdpa", "favor-m64": "favor-m64"}}
    axes = figure_of(folders, ["imdb"], ["sdpa", "favor-m64"], owners=owners, baseline=None).axes[0]
    assert minutes_of(axes) == {"sdpa": 15.0, "favor-m64": 5.0}
    assert not [line for line in axes.lines if line.get_linestyle() == "--"]


def test_a_model_without_a_training_is_neither_a_point_nor_on_the_front(tmp_path):
    folders = [write_run(tmp_path, "finetune", "sdpa", "imdb", seconds=300.0), write_baseline(tmp_path, "imdb", 0.9)]
    owners = {"tapt": {}, "finetune": {"sdpa": "sdpa", "tfidf": "tfidf"}}
    axes = figure_of(folders, ["imdb"], ["sdpa", "tfidf"], owners=owners, baseline=None).axes[0]
    assert minutes_of(axes) == {"sdpa": 5.0}
    assert all(np.isfinite(line.get_xydata()).all() for line in axes.lines)


@pytest.mark.parametrize("stage", ["tapt", "finetune"])
def test_times_on_different_hardware_make_no_front(folders, stage):
    (elsewhere,) = [folder for folder in folders if f"/{stage}/favor-m64/imdb/" in str(folder)]
    write_record(elsewhere, read_record(elsewhere).model_copy(update={"hardware": "a cluster"}))
    scope = scope_with(folders)
    fronts = [sum(line.get_zorder() == 1.2 for line in axes.lines) for axes in SETTINGS.draw(scope).axes]
    assert dict(zip(DATASETS, fronts, strict=True)) == {"imdb": 0, "arxiv": 1}
    assert list(SETTINGS.notes(scope)) == [
        "Trainings on imdb ran on different hardware: no Pareto front is drawn there."
    ]


def test_a_figure_without_any_time_is_refused(tmp_path):
    owners = {"tapt": {}, "finetune": {"tfidf": "tfidf"}}
    with pytest.raises(DataError, match="finetune: no model of tfidf has a training time at tapt, finetune"):
        figure_of([write_baseline(tmp_path, "imdb", 0.9)], ["imdb"], ["tfidf"], owners=owners, baseline=None)


def test_a_shared_run_costs_each_of_its_models(tmp_path):
    folders = [write_run(tmp_path, "finetune", model, "imdb", seconds=300.0) for model in ("sdpa", "favor-m64")]
    folders.append(write_run(tmp_path, "tapt", "sdpa", "imdb", seconds=600.0))
    owners = {"tapt": dict.fromkeys(["sdpa", "favor-m64"], "sdpa")}
    owners["finetune"] = {"sdpa": "sdpa", "favor-m64": "favor-m64"}
    axes = figure_of(folders, ["imdb"], ["sdpa", "favor-m64"], owners=owners, baseline=None).axes[0]
    assert minutes_of(axes) == {"sdpa": 15.0, "favor-m64": 15.0}


def minutes_of(axes):
    return {line.get_gid(): line.get_xdata()[0] for line in axes.lines if line.get_gid()}


def test_a_legend_beside_the_panels_names_the_baseline_and_all_models(figure):
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["baseline (tfidf)", *MODELS]


def test_several_seeds_draw_mean_and_spread(tmp_path):
    folders = []
    for seed, score in enumerate((0.90, 0.94)):
        folders.append(write_run(tmp_path, "tapt", "sdpa", "imdb", seed=seed))
        folders.append(write_run(tmp_path, "finetune", "sdpa", "imdb", seed=seed, test_f1_macro=score))
        folders.append(write_run(tmp_path, "finetune", "tfidf", "imdb", seed=seed, test_f1_macro=0.8))
    axes = figure_of(folders, ["imdb"], ["sdpa"]).axes[0]
    (point,) = (line for line in axes.lines if line.get_gid() == "sdpa")
    assert point.get_ydata() == pytest.approx([92.0])
    (bar,) = axes.collections[0].get_segments()
    assert bar[:, 1] == pytest.approx([92 - 2.8284, 92 + 2.8284], abs=1e-3)
    caps = [line.get_ydata()[0] for line in axes.lines if line.get_marker() == "_"]
    assert sorted(caps) == pytest.approx(sorted(bar[:, 1]))


def test_files_hold_text_and_repeat_to_the_byte(folders, figure, tmp_path):
    save_figure(figure, [tmp_path / "one.svg", tmp_path / "one.png", tmp_path / "one.pdf"])
    save_figure(figure_of(folders), [tmp_path / f"two.{suffix}" for suffix in ("svg", "png", "pdf")])
    texts = [
        element.text for element in ElementTree.parse(tmp_path / "one.svg").iter("{http://www.w3.org/2000/svg}text")
    ]
    assert {*MODELS, *DATASETS, "test F1 [%]", "training time, tapt + finetune [min]"} <= set(texts)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    assert (tmp_path / "one.pdf").read_bytes() == (tmp_path / "two.pdf").read_bytes()


def test_the_baseline_is_a_line_whether_it_is_a_row_or_not(folders, figure):
    models = [[line.get_gid() for line in axes.lines] for axes in figure.axes]
    assert models == [[line.get_gid() for line in axes.lines] for axes in figure_of(folders, models=MODELS).axes]


def test_another_score_may_be_drawn(tmp_path):
    folders = [write_run(tmp_path, "finetune", "sdpa", "imdb", test_accuracy=0.75, seconds=60.0)]
    settings = ScoreTimeFigure(kind="score_time", stage="finetune", column="accuracy", time=["finetune"])
    (axes,) = settings.draw(scope_of(folders, {"finetune": ["imdb"]}, ["sdpa"])).axes
    assert axes.get_ylabel() == "test accuracy [%]"
    assert axes.get_xlabel() == "training time, finetune [min]"
    assert axes.lines[0].get_xydata().tolist() == [[1.0, 75.0]]


@pytest.mark.parametrize(
    ("column", "source", "label"),
    [
        ("accuracy", "test_accuracy", "test accuracy [%]"),
        ("test_recall_macro", "test_recall_macro", "test recall macro"),
        ("validation_accuracy", "eval_accuracy", "validation accuracy [%]"),
        ("eval_loss", "eval_loss", "eval loss"),
        ("loss", "train_loss", "loss"),
    ],
)
def test_the_axis_says_whether_a_score_is_of_test_and_a_baseline_without_it_is_no_line(tmp_path, column, source, label):
    folders = [write_run(tmp_path, "finetune", "sdpa", "imdb", seconds=60.0, **{source: 0.75})]
    folders.append(write_baseline(tmp_path, "imdb", 0.9))  # which has no score but F1
    settings = ScoreTimeFigure(kind="score_time", stage="finetune", column=column, time=["finetune"])
    (axes,) = settings.draw(scope_of(folders, {"finetune": ["imdb"]}, ["sdpa"], baseline="tfidf")).axes
    assert axes.get_ylabel() == label
    assert not [line for line in axes.lines if line.is_dashed()]
    assert 0 not in [value for line in axes.lines for value in line.get_ydata()]


def test_a_hole_is_named(folders):
    for model in ("favor-m64", "tfidf"):
        hole = f"finetune/{model}/arxiv"
        with pytest.raises(DataError, match=f"{hole}/seed-0"):
            figure_of([folder for folder in folders if hole not in folder.as_posix()])


def test_program(folders, tmp_path):
    main = runpy.run_path(str(PROGRAM))["main"]
    owners = {model: dict.fromkeys(DATASETS, model) for model in MODELS}
    scope = {
        "models": ["tfidf", *MODELS],
        "stages": [["tapt", DATASETS], ["finetune", DATASETS]],
        "owners": {"tapt": owners, "finetune": owners | {"tfidf": dict.fromkeys(DATASETS, "tfidf")}},
        "families": {model: model.split("-")[0] for model in ("tfidf", *MODELS)},
        "baseline": "tfidf",
    }
    shown = json.dumps({"settings": SETTINGS.model_dump(mode="json"), "scope": scope})
    inputs = ["--figure", shown, "--records", *(str(folder / "run.json") for folder in folders)]
    out = [tmp_path / f"figures/f.{suffix}" for suffix in ("svg", "png", "pdf")]
    assert run_program(main, [*inputs, "--out", *map(str, out)]) == 0
    assert all(path.stat().st_size > 5_000 for path in out)
    assert "different versions" not in out[0].read_text()
    write_run(tmp_path, "finetune", "sdpa", "imdb", seconds=300.0, versions={"torch": "1.9"})
    main([*inputs, "--out", *map(str, out)])
    said = " ".join(" ".join(ElementTree.parse(out[0]).getroot().itertext()).split())  # over all lines
    assert "made with different versions: torch" in said
    assert "torch 1.9 (sdpa)" in said
    (tmp_path / "file").touch()
    with pytest.raises(ProjectError, match="cannot be written"):
        main([*inputs, "--out", str(tmp_path / "file/f.svg")])


def test_no_marker_hides_another(tmp_path):
    """All models at one place: of each family, pixels of its colour are left."""
    folders = [write_run(tmp_path, "finetune", "tfidf", "imdb", test_f1_macro=0.6)]
    for model in MODELS:
        folders.append(write_run(tmp_path, "tapt", model, "imdb", seconds=600.0))
        folders.append(write_run(tmp_path, "finetune", model, "imdb", seconds=300.0, test_f1_macro=0.9))
    figure = figure_of(folders, ["imdb"])
    points = {line.get_gid(): line for line in figure.axes[0].lines if line.get_gid()}
    sizes = [points[model].get_markersize() for model in MODELS]
    assert sizes == sorted(set(sizes))
    assert {points[model].get_markerfacecolor() for model in MODELS} == {"none"}
    save_figure(figure, [tmp_path / "figure.png"])
    image = imread(tmp_path / "figure.png")[..., :3]
    with matplotlib.style.context(STYLE):
        colours = {model: to_rgb(points[model].get_color()) for model in ("sdpa", "lsh-h2-c64", "favor-m64")}
    for model, colour in colours.items():
        assert (abs(image - colour).max(axis=2) < 0.02).sum() > 20, model


@pytest.mark.parametrize("metric", ["loss", "perplexity", "unexplained_variance", "token_cosine", "f1"])
def test_which_scores_are_better_when_they_are_smaller_is_known(metric):
    assert quantity(f"eval_{metric}").smaller_is_better == (metric not in ("token_cosine", "f1"))
