"""The learning rate at every optimiser step of a stage: warm-up, peak and fall."""

from pathlib import Path
from typing import ClassVar, Literal

import matplotlib.style
import numpy as np
from matplotlib.figure import Figure
from pydantic import ValidationError

from lib.core.errors import ConfigError, DataError
from lib.core.files import read_mapping
from lib.core.record import CONFIG, read_record
from lib.results.scope import Scope
from lib.results.settings import FigureSettings, Topic
from lib.results.style import PANEL_INCHES, STYLE, legend_beside, line_styles, panel_grid

POINTS = 500
"""Drawn steps of a line, about; each is the exact rate of its step."""


class LearningRateFigure(FigureSettings):
    """The learning rate by optimiser step, one line per model, one panel per dataset."""

    about: ClassVar[Topic] = "training"
    needs_training: ClassVar[bool] = True

    kind: Literal["learning_rate"]
    stage: str
    """Stage whose schedule is drawn."""

    @matplotlib.style.context(STYLE)
    def draw(self, scope: Scope) -> Figure:
        """Draw the learning rate that each optimiser step of a stage's trainings had, by the code that trained them.

        The history of a run holds the rate at its evaluations only, so the schedule is computed from the run's recipe
        and its number of steps. Seeds share a schedule: the first one is drawn. Models without a training loop are left
        out.

        Raises:
            DataError: a run is missing or duplicated, or its settings or its steps are not known, as of imported runs.
        """
        runs = scope.grid(self.stage)
        runs = runs[runs["epochs"] > 0].drop_duplicates(["dataset", "row"])
        styles = line_styles({row: scope.families[row] for row in scope.models if row in set(runs["row"])})
        datasets = [dataset for dataset in scope.stages[self.stage] if dataset in set(runs["dataset"])]
        figure, panels = panel_grid(len(datasets), PANEL_INCHES)
        for axes, dataset in zip(panels, datasets, strict=True):
            axes.set_title(scope.title(dataset))
            here = runs[runs["dataset"] == dataset].set_index("row")
            for row, style in styles.items():
                if row in here.index:
                    rates = _rates(Path(here.at[row, "folder"]), here.at[row, "steps"])
                    places = np.unique(np.linspace(0, len(rates) - 1, POINTS).round().astype(int))
                    axes.plot(places + 1, rates[places], **style, markevery=max(1, len(places) // 8))
            axes.set(xlabel="optimiser step", ylabel="learning rate", ylim=(0, None))
            axes.ticklabel_format(axis="y", style="sci", scilimits=(0, 0))
        handles = {line.get_label(): line for axes in panels for line in axes.lines}
        legend_beside(figure, [handles[row] for row in styles], list(styles))
        return figure


def _rates(folder: Path, steps: float) -> np.ndarray:
    """Return the rate of every step of the run in `folder`."""
    from studies.hate_speech.schedule import learning_rates  # which imports torch

    try:
        planned = int(steps) + (read_record(folder).saved_steps or 0)
        return np.asarray(learning_rates(read_mapping(folder / CONFIG)["recipe"], planned)[: int(steps)])
    except (ConfigError, ValidationError, KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"{folder / CONFIG}: the schedule of the run cannot be computed ({error!r}). Expected a complete recipe, "
            "and the number of steps in its record; leave imported runs out of the figure."
        ) from error
