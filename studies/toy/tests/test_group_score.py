import itertools
import json
import runpy
import xml.etree.ElementTree as ElementTree
from colorsys import rgb_to_hsv
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from run_records import scope_of, write_group_predictions, write_run

from lib.core.program import run as run_program
from studies.toy.results.kinds.groups import GroupScoreFigure

PROGRAM = Path(__file__).resolve().parents[3] / "scripts/figure.py"
DATASETS = ["imdb", "arxiv"]
MODELS = ["sdpa", "lsh-h2-c64", "lsh-h2-c128", "lsh-h4-c64", "lsh-h4-c128"]
MODELS += ["favor-m64", "favor-m128", "favor-m256", "favor-m512"]
FAMILIES = {model: model.split("-")[0] for model in MODELS}
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


def draw_groups(folders, families, datasets=("recall",), groups=None, **settings):
    if groups is None:
        settings = {"label": "distance [tokens]"} | settings
    parameters = GroupScoreFigure(kind="group_score", stage="retrieve", **settings)
    fields = {"families": families, "groups": groups or dict.fromkeys(datasets, "distance")}
    return parameters.draw(scope_of(folders, {"retrieve": datasets}, list(families), **fields))


def lines_of(axes):
    return {line.get_gid(): line for line in axes.lines if line.get_gid()}


def test_groups_that_are_names_are_placed_in_their_order(tmp_path):
    folders = write_distances(tmp_path, {("sdpa", 1): [1, 0.5, 0]}, distances=["news", "books", "films"])
    (axes,) = draw_groups(folders, {"sdpa": "sdpa"}, groups={"recall": "domain"}).axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["books", "films", "news"]
    assert lines_of(axes)["sdpa"].get_ydata().tolist() == [50, 0, 100]


def test_groups_with_names_stand_beside_each_other(tmp_path):
    folders = write_distances(tmp_path, {("sdpa", 1): [1, 0.5, 0], ("gru", 1): [1, 1, 1]}, distances=[0, 1, 2])
    names = ["praise", "quoted hostility", "threat"]
    parameters = GroupScoreFigure(kind="group_score", stage="retrieve", label="function")
    fields = {
        "families": {"sdpa": "sdpa", "gru": "gru"},
        "groups": {"recall": "group"},
        "group_names": {"recall": names},
    }
    figure = parameters.draw(scope_of(folders, {"retrieve": ["recall"]}, ["sdpa", "gru"], **fields))
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_xticklabels()] == names
    assert axes.get_xticks().tolist() == [0, 1, 2]
    assert {line.get_linestyle() for line in lines_of(axes).values()} == {"None"}
    assert lines_of(axes)["sdpa"].get_ydata().tolist() == [100, 50, 0]
    figure.draw_without_rendering()
    assert all(label.get_window_extent().y0 >= 0 for label in axes.get_xticklabels())


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


def test_a_model_called_chance_and_the_level_of_chance_have_names_of_their_own(tmp_path):
    folders = write_distances(tmp_path, {("chance", 1): [1, 1, 1, 1], ("gru", 1): [0, 0, 0, 0]})
    figure = draw_groups(folders, {"chance": "sdpa", "gru": "recurrent"}, chance=0.5)
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["chance", "gru", "chance level"]
    assert [line.get_linestyle() for line in legend.get_lines()] == ["-", "-", "--"]


def test_a_model_that_lacks_a_group_has_a_gap_there(tmp_path):
    folders = write_distances(tmp_path, {("sdpa", 1): [1, 1, 1, 1]})
    folders += write_distances(tmp_path, {("gru", 1): [1, 0.5]}, distances=[4, 64])
    axes = draw_groups(folders, {"sdpa": "sdpa", "gru": "recurrent"}).axes[0]
    heights = lines_of(axes)["gru"].get_ydata()
    assert heights[[0, 2]].tolist() == [100, 50]
    assert np.isnan(heights[[1, 3]]).all()


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
    assert len({line.get_color() for line in recurrent}) == 3  # shades of one colour
    assert len({line.get_marker() for line in recurrent}) == len({line.get_linestyle() for line in recurrent}) == 3
    hues = {round(rgb_to_hsv(*to_rgb(line.get_color()))[0], 2) for line in recurrent}
    assert len(hues) == 1
    assert len({line.get_color() for line in drawn.values()}) == 5


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
    assert [text.get_text() for text in legend.get_texts()] == [*MODELS, "chance level"]
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
    scope = {
        "models": ["sdpa", "gru"],
        "stages": [["retrieve", ["recall"]]],
        "owners": {"retrieve": {"gru": {"recall": "gru"}, "sdpa": {"recall": "sdpa"}}},
        "families": {"gru": "recurrent", "sdpa": "sdpa"},
        "groups": {"recall": "n"},
    }
    shown = {"settings": {"kind": "group_score", "stage": "retrieve", "trained_to": 64}, "scope": scope}
    inputs = ["--figure", json.dumps(shown), "--records", *(str(folder / "run.json") for folder in folders)]
    assert run_program(main, [*inputs, "--out", str(tmp_path / "one.svg"), str(tmp_path / "one.png")]) == 0
    assert run_program(main, [*inputs, "--out", str(tmp_path / "two.svg")]) == 0
    texts = [
        element.text for element in ElementTree.parse(tmp_path / "one.svg").iter("{http://www.w3.org/2000/svg}text")
    ]
    assert texts.index("sdpa") < texts.index("gru")
    assert {"trained to 64", "n"} <= set(texts)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
