"""Whether models are right as often as they are confident: reliability diagrams."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Literal, NamedTuple

import matplotlib.style
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import Field

from lib.core.settings import Few, PositiveInt
from lib.results.predictions import class_probabilities, has_sets, without_copies
from lib.results.scope import Scope
from lib.results.settings import FigureSettings
from lib.results.style import BEHIND, STYLE, line_styles

PANEL_INCHES = (3.5, 4.3)
LEGEND_LINE_INCHES = 0.16
SIZE = {"markersize": 4.5}
TITLE = "expected calibration error [%]\nT: temperature chosen on validation"


class CalibrationFigure(FigureSettings):
    """Accuracy on test by confidence, one line per model, one panel per dataset."""

    needs_predictions: ClassVar[bool] = True
    needs_probabilities: ClassVar[bool] = True
    takes_sets: ClassVar[bool] = True
    compares_with: ClassVar[tuple[Literal["baseline"]]] = ("baseline",)

    kind: Literal["calibration"]
    stage: str
    """Stage whose predictions are drawn."""
    bins: Few = Field(10, ge=2)
    """Number of equally wide intervals of confidence."""
    least_documents: PositiveInt = Field(20, ge=1)
    """Documents of a point: intervals that hold fewer are joined with their neighbours. Errors are computed from the
    intervals as they are."""

    def notes(self, scope: Scope) -> Iterable[str]:
        """See the base: what counts as a document where documents have sets of classes."""
        first = scope.grid(self.stage).drop_duplicates("dataset").set_index("dataset")["folder"]
        if sets := [dataset for dataset, folder in first.items() if has_sets(folder)]:
            yield f"{', '.join(sets)}: each class of a document is a decision, at a probability of 0.5, and counts"
            yield "as a document."

    @matplotlib.style.context(STYLE)
    def draw(self, scope: Scope) -> Figure:
        """Draw accuracy on test against confidence, above the share of the documents in each bin of confidence.

        A point is at the mean confidence of its bin; points below the diagonal are overconfident. Points are of the
        predictions of all seeds together, each of at least `least_documents` documents if the data allow it, and the
        figure says of how many; a document counts once, however many seeds predict it. The legend has the expected
        calibration error, as it is and at the temperature that validation chooses, which follows: with several seeds
        means, and the standard deviations of the errors.
        """
        grid = without_copies(scope.grid(self.stage))
        datasets = [dataset for dataset in scope.stages[self.stage] if dataset in set(grid["dataset"])]
        styles = {row: {**each, **SIZE} for row, each in line_styles(scope.families, scope.baseline).items()}
        width, height = PANEL_INCHES
        height += LEGEND_LINE_INCHES * (len(styles) + 1)
        figure = Figure(figsize=(width * len(datasets), height), layout="constrained")
        shared: dict[str, Any] = {"sharex": "col", "sharey": "row", "height_ratios": [3, 1]}
        panels = figure.subplots(2, len(datasets), squeeze=False, **shared)
        for (above, below), dataset in zip(panels.T, datasets, strict=True):
            above.set_title(scope.title(dataset))
            runs = grid[grid["dataset"] == dataset].groupby("row")["folder"]
            made = [row for row in styles if row in runs.groups]
            found = {row: _calibration(list(runs.get_group(row)), self) for row in made}
            _draw_models(above, below, found, styles)
        panels[0, 0].set(ylabel="test accuracy [%]", ylim=(-3, 103))
        panels[1, 0].set(ylabel="documents [%]", ylim=(0, None))
        return figure


class Calibration(NamedTuple):
    """A model on a dataset."""

    reliability: pd.DataFrame
    """Reliability over the predictions of all seeds (`lib.evaluation.calibration.reliability`)."""
    points: pd.DataFrame
    """Reliability with small intervals joined (`lib.evaluation.calibration.joined`)."""
    least: float
    """Confidence of a guess, in percent: that of all classes if they are equally probable."""
    errors: np.ndarray
    """Expected calibration error of each seed, in percent [S]."""
    calibrated_errors: np.ndarray
    """Expected calibration error of each seed at its temperature, in percent [S]."""
    temperatures: np.ndarray
    """Temperature of each seed, chosen on validation [S]."""


def _calibration(folders: list[str], settings: CalibrationFigure) -> Calibration:
    from lib.evaluation import calibration, decisions  # scikit-learn starts slowly

    outcomes, seeds = [], []
    for folder in folders:
        labels, probabilities = class_probabilities(folder, "validation")
        temperature = decisions.temperature(probabilities, labels)
        labels, probabilities = class_probabilities(folder)
        right = labels == probabilities.argmax(axis=1)  # something else may decide the prediction
        both = (probabilities, decisions.at_temperature(probabilities, temperature))
        tables = [calibration.reliability(right, each.max(axis=1), settings.bins) for each in both]
        seeds.append([*(100 * calibration.expected_calibration_error(each) for each in tables), temperature])
        outcomes.append(pd.DataFrame({"right": right, "confidence": probabilities.max(axis=1)}))
    together = pd.concat(outcomes)
    table = calibration.reliability(together["right"], together["confidence"], settings.bins)
    points = calibration.joined(table, settings.least_documents * len(folders))
    return Calibration(table, points, 100 / probabilities.shape[1], *np.transpose(seeds))


def _draw_models(above: Axes, below: Axes, found: Mapping[str, Calibration], styles: Mapping[str, Any]) -> None:
    above.plot([0, 100], [0, 100], linewidth=0.8, gid="diagonal", **BEHIND)
    handles, labels = [], []
    for row, (table, points, _, *errors, temperatures) in found.items():
        style = styles[row]
        handles += above.plot(100 * points["confidence"], 100 * points["accuracy"], **style)
        below.plot(100 * table["confidence"], 100 * table["documents"] / table["documents"].sum(), **style)
        spreads = [f" ± {each.std(ddof=1):.1f}" if len(each) > 1 else "" for each in errors]
        before, after = (f"{each.mean():.1f}{spread}" for each, spread in zip(errors, spreads, strict=True))
        labels.append(f"{row}: {before}; at T = {temperatures.mean():.2f}: {after}")
    below.set(xlabel="confidence [%]", xlim=(min(each.least for each in found.values()) - 2, 102))
    least = min(each.points["documents"].min() // len(each.errors) for each in found.values())
    place: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, 0), "borderaxespad": 4.5}  # below the axis
    below.legend(handles, labels, title=f"{TITLE}\ndocuments per point: {least} or more", title_fontsize=8, **place)
