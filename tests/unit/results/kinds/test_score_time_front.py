import pytest
from run_records import scope_of, write_run

from lib.results.kinds.pareto import ScoreTimeFigure


def front(tmp_path, runs, column="f1", **settings):
    """Return the axes and the corners of the front of runs: seconds and score by model."""
    metric = {"f1": "test_f1_macro", "loss": "train_loss"}[column]
    folders = [
        write_run(tmp_path, "finetune", model, "imdb", seconds=seconds, **{metric: score})
        for model, (seconds, score) in runs.items()
    ]
    figure = ScoreTimeFigure(kind="score_time", stage="finetune", column=column, time=["finetune"], **settings)
    axes = figure.draw(scope_of(folders, {"finetune": ["imdb"]}, list(runs))).axes[0]
    (line,) = (line for line in axes.lines if line.get_gid() is None and len(line.get_xdata()) > 2)
    return axes, line.get_xydata().tolist()


def test_front_line_of_a_loss(tmp_path):
    runs = {"sdpa": (600.0, 2.0), "favor-m64": (120.0, 3.0), "favor-m128": (420.0, 4.0)}
    axes, corners = front(tmp_path, runs, "loss")
    (_, right), (_, top) = axes.get_xlim(), axes.get_ylim()
    assert corners == [pytest.approx(corner) for corner in [(2, top), (2, 3), (10, 3), (10, 2), (right, 2)]]


def test_front_line_with_a_tolerance(tmp_path):
    runs = {"sdpa": (600.0, 0.9), "lsh-h2-c64": (550.0, 0.89), "favor-m64": (120.0, 0.6)}
    axes, corners = front(tmp_path, runs, time_tolerance=20)
    (_, right), (bottom, _) = axes.get_xlim(), axes.get_ylim()
    expected = [(2, bottom), (2, 60), (10, 60), (10, 90), (right, 90)]
    assert corners == [pytest.approx(corner) for corner in expected]
