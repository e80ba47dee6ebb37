import numpy as np
from run_records import scope_of, write_group_predictions, write_predictions, write_run

from lib.results.kinds.confusion import ConfusionFigure

NAMES = ["no", "yes", "maybe"]


def write(root, model, labels, predictions):
    return write_predictions(write_run(root, "finetune", model, "imdb"), NAMES, labels, predictions)


def drawn(folders, models=("sdpa",)):
    return ConfusionFigure(kind="confusion", stage="finetune").draw(
        scope_of(folders, {"finetune": ["imdb"]}, list(models))
    )


def cells_of(axes):
    """Return the texts of the cells, by true and predicted class."""
    return {(int(text.get_position()[1]), int(text.get_position()[0])): text.get_text() for text in axes.texts}


def test_confusion_by_hand(tmp_path):
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


def test_documents_without_a_prediction(tmp_path):
    folders = [
        write(tmp_path, "sdpa", [0, 0, 1, 2], [0, 1, 1, 2]),
        write(tmp_path, "lsh-h2-c64", [0, 0, 1, 2], [0, -1, 1, -1]),
    ]
    first, second, _ = drawn(folders, ["sdpa", "lsh-h2-c64"]).axes
    for axes in (first, second):
        assert [tick.get_text() for tick in axes.get_xticklabels()] == [*NAMES, "none"]
    assert cells_of(second) == {(0, 0): "50 %\n1", (0, 3): "50 %\n1", (1, 1): "100 %\n1", (2, 3): "100 %\n1"}
    assert (0, 3) not in cells_of(first)


def test_confusion_of_words(tmp_path):
    folder = write(tmp_path, "sdpa", [0], [0])
    write_group_predictions(folder, [(4, [0, None, 1], [0, 0, 0]), (4, [1], [1])])
    axes = drawn([folder]).axes[0]
    assert cells_of(axes) == {(0, 0): "100 %\n1", (1, 0): "50 %\n1", (1, 1): "50 %\n1"}


def test_confusion_of_the_best_two(tmp_path):
    """By F1 on validation, whatever it is on test, unless the settings name models."""
    folders, scores = [], {"sdpa": 0.4, "lsh-h2-c64": 0.9, "favor-m64": 0.7}
    for model, score in scores.items():
        run = write_run(tmp_path, "finetune", model, "imdb", eval_f1_macro=score, test_f1_macro=1 - score)
        folders.append(write_predictions(run, NAMES, [0, 1], [0, 1]))
    scope = scope_of(folders, {"finetune": ["imdb"]}, list(scores))
    for named, shown in ((None, ["lsh-h2-c64", "favor-m64"]), (list(scores), list(scores))):
        figure = ConfusionFigure(kind="confusion", stage="finetune", models=named).draw(scope)
        assert [axes.get_title("left") for axes in figure.axes[:-1]] == shown  # the last one has the colours
