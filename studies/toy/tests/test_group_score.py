import numpy as np
import pytest
from run_records import scope_of, write_group_predictions, write_run

from studies.toy.results.kinds.groups import GroupScoreFigure

pytestmark = pytest.mark.extended

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


def test_accuracy_by_group(tmp_path):
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


def test_model_without_a_group(tmp_path):
    folders = write_distances(tmp_path, {("sdpa", 1): [1, 1, 1, 1]})
    folders += write_distances(tmp_path, {("gru", 1): [1, 0.5]}, distances=[4, 64])
    axes = draw_groups(folders, {"sdpa": "sdpa", "gru": "recurrent"}).axes[0]
    heights = lines_of(axes)["gru"].get_ydata()
    assert heights[[0, 2]].tolist() == [100, 50]
    assert np.isnan(heights[[1, 3]]).all()


@pytest.mark.parametrize(("distances", "scale"), [([4, 16, 41], "log"), ([4, 16, 40], "linear")])
def test_axis_of_a_wide_range(tmp_path, distances, scale):
    folders = write_distances(tmp_path, {("sdpa", 1): [1, 1, 1]}, distances=distances)
    axes = draw_groups(folders, {"sdpa": "sdpa"}).axes[0]
    assert axes.get_xscale() == scale
    assert [tick.get_text() for tick in axes.get_xticklabels()] == [str(distance) for distance in distances]


def test_chance_and_end_of_training(tmp_path):
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
