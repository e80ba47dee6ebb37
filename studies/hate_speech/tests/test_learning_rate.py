import math

import numpy as np
import pytest
import yaml
from run_records import scope_of, write_run

from lib.core.record import CONFIG
from studies.hate_speech.results.kinds.learning_rate import LearningRateFigure

pytestmark = pytest.mark.extended

RECIPE = {"epochs": 2, "learning_rate": 3e-4, "min_lr_ratio": 0.0, "batch_size": 8}


def write(root, model, dataset="imdb", seed=0, steps=20, **recipe):
    folder = write_run(root, "finetune", model, dataset, seed=seed, steps=steps)
    (folder / CONFIG).write_text(yaml.safe_dump({"recipe": RECIPE | recipe}))
    return folder


def drawn(folders, models=("sdpa",), datasets=("imdb",)):
    scope = scope_of(folders, {"finetune": datasets}, list(models))
    return LearningRateFigure(kind="learning_rate", stage="finetune").draw(scope)


def test_figure_of_the_seminar_paper(tmp_path):
    """Its formula: peak * s / W up to step W, then peak / 2 (1 + cos(pi (s - W) / (N - W)))."""
    (axes,) = drawn([write(tmp_path, "sdpa", steps=200), write(tmp_path, "sdpa", seed=1, steps=200)]).axes
    (line,) = axes.lines  # one for both seeds
    step = np.arange(200)
    fall = 1.5e-4 * (1 + np.cos(math.pi * (step - 20) / 180))
    assert line.get_xdata().tolist() == [*range(1, 201)]
    assert line.get_ydata() == pytest.approx(np.where(step <= 20, 3e-4 * step / 20, fall))
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_title("left")) == ("optimiser step", "learning rate", "imdb")
