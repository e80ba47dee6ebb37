import numpy as np
from run_records import scope_of, write_run

from lib.core.record import HISTORY
from lib.results.kinds.history import LossFigure


def write(root, model, losses, dataset="imdb", seed=0):
    """Write a run of `finetune` with these losses, by epoch."""
    folder = write_run(root, "finetune", model, dataset, seed=seed)
    rows = [f"{epoch + 1},60,{loss}" for epoch, loss in enumerate(losses)]
    (folder / HISTORY).write_text("\n".join(["epoch,seconds,train_loss", *rows]) + "\n")
    return folder


def drawn(folders, models=("sdpa",), datasets=("imdb",)):
    scope = scope_of(folders, {"finetune": datasets}, list(models))
    return LossFigure(kind="loss", stage="finetune").draw(scope)


def lines_of(axes):
    return {line.get_gid(): line for line in axes.lines}


def test_loss_by_model_and_dataset(tmp_path):
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


def test_loss_with_a_lacking_seed(tmp_path):
    folders = [write(tmp_path, "sdpa", [4.0, 3.0, 2.0]), write(tmp_path, "sdpa", [4.0, "", 2.0], seed=1)]
    (axes,) = drawn(folders).axes
    assert np.isnan(lines_of(axes)["sdpa"].get_ydata()).tolist() == [False, True, False]
    (folders[0] / HISTORY).write_text("epoch,seconds,train_loss\n1,60,4.0\n3,60,2.0\n")
    (axes,) = drawn(folders[:1]).axes
    assert lines_of(axes)["sdpa"].get_xdata()[[0, 2]].tolist() == [1, 3]
    assert np.isnan(lines_of(axes)["sdpa"].get_ydata()).tolist() == [False, True, False]
