import math

import numpy as np
import pytest
import yaml
from run_records import UNTRAINED, scope_of, write_run

from lib.core.errors import DataError
from lib.core.record import CONFIG
from studies.hate_speech.results.kinds.learning_rate import LearningRateFigure

RECIPE = {"epochs": 2, "learning_rate": 3e-4, "min_lr_ratio": 0.0, "batch_size": 8}


def write(root, model, dataset="imdb", seed=0, steps=20, **recipe):
    folder = write_run(root, "finetune", model, dataset, seed=seed, steps=steps)
    (folder / CONFIG).write_text(yaml.safe_dump({"recipe": RECIPE | recipe}))
    return folder


def drawn(folders, models=("sdpa",), datasets=("imdb",)):
    scope = scope_of(folders, {"finetune": datasets}, list(models))
    return LearningRateFigure(kind="learning_rate", stage="finetune").draw(scope)


def test_the_seminar_papers_figure_24(tmp_path):
    """Its formula: peak * s / W up to step W, then peak / 2 (1 + cos(pi (s - W) / (N - W)))."""
    (axes,) = drawn([write(tmp_path, "sdpa", steps=200), write(tmp_path, "sdpa", seed=1, steps=200)]).axes
    (line,) = axes.lines  # one for both seeds
    step = np.arange(200)
    fall = 1.5e-4 * (1 + np.cos(math.pi * (step - 20) / 180))
    assert line.get_xdata().tolist() == [*range(1, 201)]
    assert line.get_ydata() == pytest.approx(np.where(step <= 20, 3e-4 * step / 20, fall))
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_title("left")) == ("optimiser step", "learning rate", "imdb")


def test_models_differ_by_peak_minimum_steps_and_schedule(tmp_path):
    folders = [write(tmp_path, "sdpa"), write(tmp_path, "lsh-h2-c64", learning_rate=1e-3, min_lr_ratio=0.5, steps=40)]
    folders += [write(tmp_path, "favor-m64", schedule="one_cycle", min_lr_ratio=0.001)]
    (axes,) = drawn(folders, ["sdpa", "lsh-h2-c64", "favor-m64"]).axes
    lines = {line.get_gid(): line.get_ydata() for line in axes.lines}
    assert [len(rates) for rates in lines.values()] == [20, 40, 20]
    assert max(lines["lsh-h2-c64"]) == pytest.approx(1e-3)
    assert lines["lsh-h2-c64"][-1] == pytest.approx(5e-4, rel=0.01)
    assert lines["favor-m64"][0] == pytest.approx(3e-4 / 25)
    assert lines["favor-m64"][-1] == pytest.approx(3e-7)


def test_a_long_training_is_thinned_to_exact_points(tmp_path):
    (axes,) = drawn([write(tmp_path, "sdpa", steps=4001)]).axes
    (line,) = axes.lines
    assert len(line.get_xdata()) == 500
    assert (line.get_xdata()[0], line.get_xdata()[-1]) == (1, 4001)
    assert line.get_ydata()[0] == 0


def test_what_does_not_train_is_left_out(tmp_path):
    folders = [write(tmp_path, "sdpa"), write_run(tmp_path, "finetune", "tfidf", "imdb", **UNTRAINED)]
    (axes,) = drawn(folders, ["tfidf", "sdpa"]).axes
    assert [line.get_gid() for line in axes.lines] == ["sdpa"]


@pytest.mark.parametrize("recipe", [{"recipe": {"epochs": 2}}, {}])
def test_an_imported_run_has_no_schedule(tmp_path, recipe):
    folder = write(tmp_path, "sdpa")
    (folder / CONFIG).write_text(yaml.safe_dump(recipe))
    with pytest.raises(DataError, match=r"config\.yaml: the schedule of the run cannot be computed"):
        drawn([folder])


def test_unknown_steps_are_an_error(tmp_path):
    with pytest.raises(DataError, match="the number of steps in its record"):
        drawn([write(tmp_path, "sdpa", steps=None)])
