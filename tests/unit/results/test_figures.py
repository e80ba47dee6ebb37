import itertools
import json
import runpy
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from matplotlib.image import imread
from matplotlib.transforms import Bbox
from run_records import write_group_predictions, write_run

from lib.core.errors import DataError, ProjectError
from lib.core.program import run as run_program
from lib.results.figures import group_score_figure, looks, save_figure, score_time_figure
from lib.results.records import load_runs

PROGRAM = Path(__file__).resolve().parents[3] / "scripts/figure.py"
DATASETS = ["imdb", "arxiv"]
MODELS = ["sdpa", "lsh-h2-c64", "lsh-h2-c128", "lsh-h4-c64", "lsh-h4-c128"]
MODELS += ["favor-m64", "favor-m128", "favor-m256", "favor-m512"]


FAMILIES = {model: model.split("-")[0] for model in MODELS}
SHOWN = {"stage": "finetune", "column": "f1", "baseline": "tfidf"}
TIMED = {model: [("tapt", model), ("finetune", model)] for model in MODELS}


def draw(runs, datasets=DATASETS, **changes):
    return score_time_figure(runs, datasets=datasets, **{**SHOWN, "families": FAMILIES, "timed": TIMED, **changes})


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
    return draw(load_runs(folders))


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


def test_a_family_is_what_the_study_says():
    given = looks({"sdpa": "sdpa", "sdpa-then-favor": "favor", "favor-m64": "favor"})
    assert given == {"sdpa": ("C0", "o"), "sdpa-then-favor": ("C1", "o"), "favor-m64": ("C1", "s")}


def test_a_model_that_skips_a_stage_costs_less(tmp_path):
    folders = [write_run(tmp_path, "finetune", model, "imdb", seconds=300.0) for model in ("sdpa", "favor-m64")]
    folders.append(write_run(tmp_path, "tapt", "sdpa", "imdb", seconds=600.0))
    families = {"sdpa": "sdpa", "favor-m64": "favor"}
    timed = {"sdpa": TIMED["sdpa"], "favor-m64": [("finetune", "favor-m64")]}
    axes = draw(load_runs(folders), ["imdb"], families=families, timed=timed, baseline=None).axes[0]
    assert minutes_of(axes) == {"sdpa": 15.0, "favor-m64": 5.0}
    assert not [line for line in axes.lines if line.get_linestyle() == "--"]


def test_a_shared_run_costs_each_of_its_models(tmp_path):
    folders = [write_run(tmp_path, "finetune", model, "imdb", seconds=300.0) for model in ("sdpa", "favor-m64")]
    folders.append(write_run(tmp_path, "tapt", "sdpa", "imdb", seconds=600.0))
    families = {"sdpa": "sdpa", "favor-m64": "favor"}
    timed = {"sdpa": TIMED["sdpa"], "favor-m64": [("tapt", "sdpa"), ("finetune", "favor-m64")]}
    axes = draw(load_runs(folders), ["imdb"], families=families, timed=timed, baseline=None).axes[0]
    assert minutes_of(axes) == {"sdpa": 15.0, "favor-m64": 15.0}


def minutes_of(axes):
    return {line.get_gid(): line.get_xdata()[0] for line in axes.lines if line.get_gid()}


def test_names_cover_nothing_and_stay_inside(tmp_path):
    folders = []
    for seed, (place, model) in itertools.product((0, 1), enumerate(MODELS)):
        folders.append(write_run(tmp_path, "tapt", model, "imdb", seed=seed, seconds=600.0 + 7 * (place // 2)))
        score = 0.8 + (place % 3) / 500 + seed / 100
        folders.append(write_run(tmp_path, "finetune", model, "imdb", seed=seed, seconds=300.0, test_f1_macro=score))
        folders.append(write_run(tmp_path, "finetune", "tfidf", "imdb", seed=seed, test_f1_macro=0.803))
    check_names(draw(load_runs(dict.fromkeys(folders)), ["imdb"]))


def test_names_cover_nothing_where_panels_stand_side_by_side(figure):
    check_names(figure)


def check_names(figure):
    figure.draw_without_rendering()  # puts the names where they will stand
    for axes in figure.axes:
        assert sorted(text.get_text() for text in axes.texts) == sorted([*MODELS, "baseline (tfidf)"])
        boxes = [text.get_window_extent().padded(-0.5) for text in axes.texts]
        for one, other in itertools.combinations(boxes, 2):
            assert not one.overlaps(other)
        inside = axes.get_window_extent()
        assert all(inside.contains(*corner) for box in boxes for corner in box.corners())
        drawn = [line.get_xydata() for line in axes.lines if line.get_gid()]
        drawn += [segment for bars in axes.collections for segment in bars.get_segments()]
        drawn += [[(x, line.get_ydata()[0]) for x in axes.get_xlim()] for line in axes.lines if line.is_dashed()]
        covers = [Bbox(axes.transData.transform([ends[0], ends[-1]])) for ends in drawn]
        assert not any(box.count_overlaps(covers) for box in boxes)


def test_several_seeds_draw_mean_and_spread(tmp_path):
    folders = []
    for seed, score in enumerate((0.90, 0.94)):
        folders.append(write_run(tmp_path, "tapt", "sdpa", "imdb", seed=seed))
        folders.append(write_run(tmp_path, "finetune", "sdpa", "imdb", seed=seed, test_f1_macro=score))
        folders.append(write_run(tmp_path, "finetune", "tfidf", "imdb", seed=seed, test_f1_macro=0.8))
    axes = draw(load_runs(folders), ["imdb"], families={"sdpa": "sdpa"}, timed={"sdpa": TIMED["sdpa"]}).axes[0]
    (point,) = (line for line in axes.lines if line.get_gid() == "sdpa")
    assert point.get_ydata() == pytest.approx([92.0])
    (bar,) = axes.collections[0].get_segments()
    assert bar[:, 1] == pytest.approx([92 - 2.8284, 92 + 2.8284], abs=1e-3)


def test_files_hold_text_and_repeat_to_the_byte(figure, tmp_path):
    save_figure(figure, [tmp_path / "one.svg", tmp_path / "one.png", tmp_path / "one.pdf"])
    save_figure(figure, [tmp_path / "two.svg", tmp_path / "two.pdf"])
    texts = [
        element.text for element in ElementTree.parse(tmp_path / "one.svg").iter("{http://www.w3.org/2000/svg}text")
    ]
    assert {*MODELS, *DATASETS, "test F1 [%]", "training time, tapt + finetune [min]"} <= set(texts)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    assert (tmp_path / "one.pdf").read_bytes() == (tmp_path / "two.pdf").read_bytes()
    image = imread(tmp_path / "one.png")
    assert image.shape[1] == round(2 * 3.5 * 200)
    assert 0.02 < (image[..., :3].min(axis=2) < 0.5).mean() < 0.2  # drawn on, and mostly paper


def test_a_hole_is_named(folders):
    runs = load_runs(folders)
    for model in ("favor-m64", "tfidf"):
        hole = (runs["stage"] == "finetune") & (runs["model"] == model) & (runs["dataset"] == "arxiv")
        with pytest.raises(DataError, match=f"finetune/{model}/arxiv/seed-0: no record"):
            draw(runs[~hole])


def test_program(folders, tmp_path):
    main = runpy.run_path(str(PROGRAM))["main"]
    kind = {"kind": "score_time"}
    shown = json.dumps(SHOWN | kind | {"models": MODELS, "families": FAMILIES, "timed": TIMED, "datasets": DATASETS})
    inputs = ["--figure", shown, "--records", *(str(folder / "run.json") for folder in folders)]
    out = [tmp_path / "figures/f.svg", tmp_path / "figures/f.png"]
    assert run_program(main, [*inputs, "--out", *map(str, out)]) == 0
    assert all(path.stat().st_size > 5_000 for path in out)
    (tmp_path / "file").touch()
    with pytest.raises(ProjectError, match="cannot be written"):
        main([*inputs, "--out", str(tmp_path / "file/f.svg")])


RECURRENT = {"sdpa": "sdpa", "lsh-h2-c64": "lsh", "rnn": "recurrent", "gru": "recurrent", "lstm": "recurrent"}
DISTANCES = [4, 16, 64, 256]


def write_distances(tmp_path, shares, dataset="recall", distances=DISTANCES):
    """Write runs of models and seeds, each with the share of ten documents that it gets right at every distance."""
    folders = []
    for (model, seed), right in shares.items():
        documents = [
            (distance, 1, int(number < 10 * share))
            for distance, share in zip(distances, right, strict=True)
            for number in range(10)
        ]
        folder = write_run(tmp_path, "retrieve", model, dataset, seed=seed)
        folders.append(write_group_predictions(folder, documents))
    return folders


def draw_groups(folders, families, datasets=("recall",), labels=None, **settings):
    labels = labels or dict.fromkeys(datasets, "distance [tokens]")
    shown = {"stage": "retrieve", "families": families, "datasets": datasets, "labels": labels}
    return group_score_figure(load_runs(folders), **shown, **settings)


def lines_of(axes):
    return {line.get_gid(): line for line in axes.lines if line.get_gid()}


def test_accuracy_is_drawn_against_the_group(tmp_path):
    shares = {("sdpa", 1): [1, 1, 0.8, 0.4], ("sdpa", 2): [1, 1, 0.6, 0.4], ("gru", 1): [1, 0.5, 0.5, 0.5]}
    shares["gru", 2] = shares["gru", 1]
    figure = draw_groups(write_distances(tmp_path, shares), {"sdpa": "sdpa", "gru": "recurrent"})
    (axes,) = figure.axes
    assert (axes.get_title("left"), axes.get_xlabel()) == ("recall", "distance [tokens]")
    assert axes.get_ylabel() == "test accuracy [%]"
    assert lines_of(axes)["sdpa"].get_ydata().tolist() == pytest.approx([100, 100, 70, 40])
    assert lines_of(axes)["gru"].get_ydata().tolist() == pytest.approx([100, 50, 50, 50])
    bar = axes.collections[0].get_segments()[2]
    assert bar[:, 1] == pytest.approx([70 - 14.1421, 70 + 14.1421], abs=1e-3)


def test_points_stand_beside_their_group_and_do_not_leave_it(tmp_path):
    shares = {(model, 1): [1, 1, 1, 1] for model in RECURRENT}
    axes = draw_groups(write_distances(tmp_path, shares), RECURRENT).axes[0]
    places = [line.get_xdata() for line in lines_of(axes).values()]
    assert len({tuple(place) for place in places}) == len(RECURRENT)
    for place in places:
        # A seventh of the way to the next group at most; on this axis every group is 4 times the one before.
        assert all(abs(x / distance - 1) < 4 ** (1 / 7) - 1 for x, distance in zip(place, DISTANCES, strict=True))
    assert places[2].tolist() == pytest.approx(DISTANCES)
    assert not axes.collections  # one seed has no spread
    alone = draw_groups(write_distances(tmp_path, {("sdpa", 1): [1, 1, 1, 1]}), {"sdpa": "sdpa"}).axes[0]
    assert lines_of(alone)["sdpa"].get_xdata().tolist() == pytest.approx(DISTANCES)


@pytest.mark.parametrize(
    ("distances", "scale"), [([4, 16, 41], "log"), ([4, 16, 40], "linear"), ([0, 20, 90], "linear")]
)
def test_a_wide_range_is_logarithmic(tmp_path, distances, scale):
    folders = write_distances(tmp_path, {("sdpa", 1): [1, 1, 1]}, distances=distances)
    axes = draw_groups(folders, {"sdpa": "sdpa"}).axes[0]
    assert axes.get_xscale() == scale
    assert [tick.get_text() for tick in axes.get_xticklabels()] == [str(distance) for distance in distances]


@pytest.mark.parametrize(
    "distances", [range(1, 41), [2**power for power in range(16)], [*range(10, 101, 5), 5000], [7]]
)
def test_names_of_groups_do_not_touch(tmp_path, distances):
    shares = {("sdpa", 1): [1] * len(distances)}
    figure = draw_groups(write_distances(tmp_path, shares, distances=distances), {"sdpa": "sdpa"})
    figure.draw_without_rendering()
    boxes = [tick.get_window_extent() for tick in figure.axes[0].get_xticklabels()]
    assert boxes
    for one, other in itertools.combinations(boxes, 2):
        assert not one.overlaps(other)


def test_members_of_a_family_differ_in_marker_and_line(tmp_path):
    shares = {(model, 1): [1, 1, 1, 1] for model in RECURRENT}
    figure = draw_groups(write_distances(tmp_path, shares), RECURRENT)
    drawn = lines_of(figure.axes[0])
    recurrent = [drawn[model] for model in ("rnn", "gru", "lstm")]
    assert len({line.get_color() for line in recurrent}) == 1
    assert len({line.get_marker() for line in recurrent}) == len({line.get_linestyle() for line in recurrent}) == 3
    assert len({line.get_color() for line in drawn.values()}) == 3


def test_chance_and_the_end_of_training_are_marked(tmp_path):
    folders = write_distances(tmp_path, {("sdpa", 1): [1, 1, 1, 0.9]})
    figure = draw_groups(folders, {"sdpa": "sdpa"}, chance=0.25, trained_to=64.0)
    axes = figure.axes[0]
    dashed = next(line for line in axes.lines if line.is_dashed())
    assert dashed.get_ydata() == pytest.approx([25, 25])
    assert any(list(line.get_xdata()) == [64, 64] for line in axes.lines)
    assert [text.get_text() for text in axes.texts] == ["trained to 64"]
    figure.draw_without_rendering()
    (name,) = (text.get_window_extent() for text in axes.texts)
    assert not any(name.overlaps(title.get_window_extent()) for title in (axes._left_title, figure.legends[0]))
    plain = draw_groups(folders, {"sdpa": "sdpa"}).axes[0]
    assert (len(plain.lines), len(plain.texts)) == (1, 0)


def test_the_legend_names_all_and_covers_no_panel(tmp_path):
    folders = [
        folder
        for dataset in DATASETS
        for folder in write_distances(tmp_path, {(model, 1): [1, 1, 0.5, 0] for model in MODELS}, dataset)
    ]
    figure = draw_groups(folders, FAMILIES, DATASETS, dict(zip(DATASETS, ["length", "depth"], strict=True)), chance=0.5)
    assert [axes.get_xlabel() for axes in figure.axes] == ["length", "depth"]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [*MODELS, "chance"]
    figure.draw_without_rendering()
    box = legend.get_window_extent()
    assert all(axes.get_window_extent().x1 < box.x0 for axes in figure.axes)
    assert box.x1 <= figure.bbox.x1
    assert box.y0 >= 0


def test_bars_beyond_all_and_nothing_leave_the_axis_alone(tmp_path):
    shares = {("sdpa", 1): [1, 1, 1, 0], ("sdpa", 2): [0, 1, 1, 0]}
    axes = draw_groups(write_distances(tmp_path, shares), {"sdpa": "sdpa"}).axes[0]
    assert axes.get_ylim() == (-3, 103)


def test_program_draws_groups(tmp_path):
    main = runpy.run_path(str(PROGRAM))["main"]
    folders = write_distances(tmp_path, {(model, 1): [1, 1, 1, 1] for model in ("sdpa", "gru")})
    shown = {"kind": "group_score", "stage": "retrieve", "datasets": ["recall"], "chance": None, "trained_to": 64}
    shown |= {"models": ["sdpa", "gru"], "families": {"gru": "recurrent", "sdpa": "sdpa"}, "labels": {"recall": "n"}}
    inputs = ["--figure", json.dumps(shown), "--records", *(str(folder / "run.json") for folder in folders)]
    assert run_program(main, [*inputs, "--out", str(tmp_path / "one.svg"), str(tmp_path / "one.png")]) == 0
    assert run_program(main, [*inputs, "--out", str(tmp_path / "two.svg")]) == 0
    texts = [
        element.text for element in ElementTree.parse(tmp_path / "one.svg").iter("{http://www.w3.org/2000/svg}text")
    ]
    assert texts.index("sdpa") < texts.index("gru")
    assert "trained to 64" in texts
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
