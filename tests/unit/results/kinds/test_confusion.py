import itertools

import numpy as np
import pytest
from run_records import scope_of, write_group_predictions, write_predictions, write_run

from lib.core.errors import DataError
from lib.core.record import CONFIG, PREDICTIONS
from lib.results.kinds.confusion import ConfusionFigure

NAMES = ["no", "yes", "maybe"]


def write(root, model, labels, predictions, seed=0, names=NAMES):
    return write_predictions(write_run(root, "finetune", model, "imdb", seed=seed), names, labels, predictions)


def drawn(folders, models=("sdpa",)):
    return ConfusionFigure(kind="confusion", stage="finetune").draw(
        scope_of(folders, {"finetune": ["imdb"]}, list(models))
    )


def cells_of(axes):
    """Return the texts of the cells, by true and predicted class."""
    return {(int(text.get_position()[1]), int(text.get_position()[0])): text.get_text() for text in axes.texts}


def test_rows_are_true_classes_columns_predicted_ones(tmp_path):
    figure = drawn([write(tmp_path, "sdpa", [0, 0, 0, 0, 1], [0, 0, 0, 1, 2])])
    axes, bar = figure.axes
    (image,) = axes.images
    percent = np.ma.getdata(image.get_array())
    assert percent[:2].tolist() == [[75, 25, 0], [0, 0, 100]]
    assert np.ma.getmaskarray(image.get_array()).tolist() == [[False] * 3, [False] * 3, [True] * 3]  # no `maybe`
    assert image.get_clim() == (0, 100)
    assert cells_of(axes) == {(0, 0): "75 %\n3", (0, 1): "25 %\n1", (1, 2): "100 %\n1"}
    assert [tick.get_text() for tick in axes.get_yticklabels()] == NAMES
    assert [tick.get_text() for tick in axes.get_xticklabels()] == NAMES
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("predicted class", "true class")
    assert bar.get_ylabel() == "share of the true class [%]"


def test_counts_are_means_of_the_seeds(tmp_path):
    folders = [write(tmp_path, "sdpa", [0, 0], [0, 0]), write(tmp_path, "sdpa", [0, 0], [0, 1], seed=1)]
    axes = drawn(folders).axes[0]
    assert cells_of(axes) == {(0, 0): "75 %\n1.5", (0, 1): "25 %\n0.5"}


def test_documents_without_a_class_have_a_column_in_every_panel(tmp_path):
    folders = [
        write(tmp_path, "sdpa", [0, 0, 1, 2], [0, 1, 1, 2]),
        write(tmp_path, "lsh-h2-c64", [0, 0, 1, 2], [0, -1, 1, -1]),
    ]
    first, second, _ = drawn(folders, ["sdpa", "lsh-h2-c64"]).axes
    for axes in (first, second):
        assert [tick.get_text() for tick in axes.get_xticklabels()] == [*NAMES, "none"]
    assert cells_of(second) == {(0, 0): "50 %\n1", (0, 3): "50 %\n1", (1, 1): "100 %\n1", (2, 3): "100 %\n1"}
    assert (0, 3) not in cells_of(first)


def test_a_class_called_none_and_no_class_have_names_of_their_own(tmp_path):
    names = ["none", "yes"]
    axes = drawn([write(tmp_path, "sdpa", [0, 0, 1], [0, -1, 1], names=names)]).axes[0]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["class none", "yes", "none"]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["class none", "yes"]
    axes = drawn([write(tmp_path, "sdpa", [0, 0, 1], [0, 1, 1], names=names)]).axes[0]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == names  # without such a column


def test_a_share_that_is_not_nothing_does_not_look_so(tmp_path):
    axes = drawn([write(tmp_path, "sdpa", [0] * 1000, [1] + [0] * 999)]).axes[0]
    assert cells_of(axes)[0, 1] == "<1 %\n1"


def test_labelled_words_count_and_others_do_not(tmp_path):
    folder = write(tmp_path, "sdpa", [0], [0])
    write_group_predictions(folder, [(4, [0, None, 1], [0, 0, 0]), (4, [1], [1])])
    axes = drawn([folder]).axes[0]
    assert cells_of(axes) == {(0, 0): "100 %\n1", (1, 0): "50 %\n1", (1, 1): "50 %\n1"}


def test_panels_bear_models_and_names_stay_apart(tmp_path):
    models = ["sdpa", "lsh-h2-c64", "lsh-h4-c64", "favor-m64", "favor-m128"]
    names = [f"class{number}" for number in range(11)]
    folders = [write(tmp_path, model, range(11), range(11), names=names) for model in models]
    figure = drawn(folders, models)
    panels = figure.axes[:5]
    assert [axes.get_title("left") for axes in panels] == models
    figure.draw_without_rendering()
    named = [bool(axes.get_yticklabels()) and axes.get_yticklabels()[0].get_text() != "" for axes in panels]
    assert named == [True, False, False, True, False]
    below = [bool(axes.get_xlabel()) for axes in panels]
    assert below == [False, False, True, True, True]  # the lowest of each column
    assert [any(tick.get_text() for tick in axes.get_xticklabels()) for axes in panels] == below
    texts = [text for axes in panels for text in axes.texts]
    texts += [tick for axes in panels for tick in axes.get_xticklabels()]
    texts += [axes.xaxis.label for axes in panels] + [axes._left_title for axes in panels]
    for one, other in itertools.combinations([text.get_window_extent() for text in texts], 2):
        assert not one.padded(-1).overlaps(other.padded(-1))


@pytest.mark.parametrize("documents", [9, 2000])
@pytest.mark.parametrize("classes", [2, 5, 8, 11, 14])
def test_ten_models_fit_a_report_of_1280_pixels_and_can_be_read(tmp_path, classes, documents):
    names, models = [f"math.{number:02}" for number in range(classes)], [f"model-{number}" for number in range(10)]
    labels = np.repeat(np.arange(classes), documents)
    folders = [write(tmp_path, model, labels, (labels + (labels % 2)) % classes, names=names) for model in models]
    figure = drawn(folders, models)
    figure.set_dpi(1280 / figure.get_figwidth())
    figure.draw_without_rendering()
    assert figure.get_figheight() < (18 if classes <= 11 else 28)
    for axes in figure.axes[:10]:
        side = axes.get_window_extent().width / classes
        for text in axes.texts:
            box = text.get_window_extent()
            assert box.height / 2 >= 9, "the line of a cell is lower than 9 pixels"
            assert box.width < side, "the text of a cell is wider than the cell"
            assert box.height < side, "the text of a cell is higher than the cell"


def test_many_classes_bear_no_figures(tmp_path):
    names = [str(number) for number in range(15)]
    axes = drawn([write(tmp_path, "sdpa", range(15), range(15), names=names)]).axes[0]
    assert not axes.texts
    assert np.diag(np.ma.getdata(axes.images[0].get_array())).tolist() == [100] * 15


def test_what_is_missing_is_named(tmp_path):
    folder = write(tmp_path, "sdpa", [0, 3], [0, 0])
    with pytest.raises(DataError, match="sdpa/imdb/seed-0.*classes other than 0 to 2"):
        drawn([folder])
    write(tmp_path, "sdpa", [0, -1], [0, 0])
    with pytest.raises(DataError, match="sdpa/imdb/seed-0.*classes other than 0 to 2"):
        drawn([folder])
    write(tmp_path, "sdpa", [], [])
    with pytest.raises(DataError, match=r"predictions\.parquet.*test"):
        drawn([folder])
    (folder / CONFIG).write_text("labels: null\n")
    with pytest.raises(DataError, match=r"config\.yaml"):
        drawn([folder])
    write(tmp_path, "sdpa", [0], [0])
    (folder / PREDICTIONS).unlink()
    with pytest.raises(DataError, match=r"predictions\.parquet"):
        drawn([folder])
