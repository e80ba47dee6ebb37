"""The loss, or another number of the histories, at every evaluation."""

from collections.abc import Hashable
from typing import Any, ClassVar, Literal

import matplotlib.style
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from lib.core.errors import DataError
from lib.results.quantities import of_validation, time_unit
from lib.results.records import KEY
from lib.results.scope import Scope
from lib.results.settings import FigureSettings, ResultSettings, TableSettings, Topic
from lib.results.style import PANEL_INCHES, STYLE, legend_beside, line_styles, panel_grid
from lib.results.table import Column, Key, Table

EPOCH = "epoch"


class HistorySettings(ResultSettings):
    """Settings of what shows a column of the histories."""

    about: ClassVar[Topic] = "training"

    stage: str
    """Stage whose trainings it shows."""
    column: str = "train_loss"
    """Column of the runs' `history.csv`, such as `train_loss`, `eval_loss` or `eval_f1_macro`."""

    def evaluations(self, scope: Scope) -> pd.DataFrame:
        """Return the histories of all runs, with their `row`, and with `seconds` and `column` even if none has them."""
        epochs = scope.grid(self.stage)[["row", *KEY]].merge(scope.histories, on=KEY)
        return epochs.reindex(columns=list(dict.fromkeys([*epochs, "seconds", self.column])))

    def over_seeds(self, scope: Scope, epochs: pd.DataFrame, x: pd.Series) -> pd.DataFrame:
        """Return `mean` and `std` of the column, and the mean of `x`, over the seeds by `dataset`, `row` and `epoch`.

        They are NaN where any seed that the model has on the dataset lacks the value.
        """
        cells = epochs.assign(x=x).groupby(["dataset", "row", "epoch"])
        curves = cells.agg(x=("x", "mean"), mean=(self.column, "mean"), std=(self.column, "std"))
        # Datasets may have seeds of their own.
        seeds = scope.grid(self.stage).groupby(["dataset", "row"])["seed"].nunique()
        lacking = cells[self.column].count().to_numpy() < seeds.reindex(curves.index.droplevel("epoch")).to_numpy()
        curves.loc[lacking, ["mean", "std"]] = float("nan")
        return curves


class HistoryTable(HistorySettings, TableSettings):
    """One table per dataset: a row per evaluation, a column per model that trains."""

    divided: ClassVar[Literal["if_several"]] = "if_several"

    kind: Literal["history"]

    def make(self, scope: Scope) -> Table:
        """Return a column of the history by epoch and model, unscaled.

        With more than one seed these are means with a standard deviation. An epoch at which any seed of a model was not
        evaluated, or has no value of, is a gap.

        Raises:
            DataError: a run is missing or duplicated, or no history has the column.
        """
        epochs = self.evaluations(scope)
        if epochs[self.column].isna().all():
            known = ", ".join(epochs.columns[epochs.notna().any()].drop(["row", *KEY], errors="ignore"))
            raise DataError(f"the history of {self.stage} has no value of '{self.column}'. Known: {known or 'none'}.")
        curves = self.over_seeds(scope, epochs, epochs["epoch"]).droplevel("dataset")
        means, deviations = curves["mean"].unstack("row"), curves["std"].unstack("row")
        frame = pd.DataFrame({EPOCH: means.index})
        columns: dict[Hashable, Column] = {EPOCH: Column("epoch", 0 if (means.index % 1 == 0).all() else 2)}
        label = self.column.replace("_", " ")
        for model in [model for model in scope.models if model in means]:
            key = Key((model,))
            frame[key], columns[key] = means[model].to_numpy(), Column(f"{model} {label}", 4)
            if deviations[model].notna().any():
                frame[key.sd] = deviations[model].to_numpy()
        return Table(frame, columns)


LABELS = {"train_loss": "training loss [nats]", "eval_loss": "validation loss [nats]"}
"""What columns are called; scores as in tables, in percent; any other as it is, but for its split."""
WIDE = 100
"""How often the greatest value must hold the least for a logarithmic axis."""


class LossFigure(HistorySettings, FigureSettings):
    """A column of the histories by epoch, one line per model, one panel per dataset."""

    needs_training: ClassVar[bool] = True

    kind: Literal["loss"]
    against: Literal["epochs", "minutes"] = "epochs"
    """Horizontal axis: epochs, or minutes of training without evaluations."""

    @matplotlib.style.context(STYLE)
    def draw(self, scope: Scope) -> Figure:
        """Draw a column of the histories at every evaluation, one panel per dataset.

        Lines are means over the seeds, as are the minutes; a band spans one standard deviation to either side where
        there is more than one seed. A line is broken where any seed that the model has on the dataset lacks the value.
        Models without a training loop are left out. All axes are logarithmic if the greatest value of any panel is
        more than 100 times its least. Times are seconds if all are below a minute.

        Raises:
            DataError: a run is missing or duplicated, or its history lacks the column, or the seconds of an epoch.
        """
        label, factor = _shown(self.column)
        curves = self._curves(scope)
        curves[["mean", "std"]] *= factor
        unit, per_minute = time_unit(curves["x"].max())
        if self.against == "minutes":
            curves["x"] *= per_minute
        positive, extremes = curves["mean"].min() > 0, curves["mean"].groupby("dataset").agg(["min", "max"])
        logarithmic = positive and (extremes["max"] > WIDE * extremes["min"]).any()
        styles = line_styles({row: scope.families[row] for row in scope.models if row in curves.index.unique("row")})
        datasets = [dataset for dataset in scope.stages[self.stage] if dataset in curves.index.unique("dataset")]
        figure, panels = panel_grid(len(datasets), PANEL_INCHES)
        for axes, dataset in zip(panels, datasets, strict=True):
            axes.set_title(scope.title(dataset))
            for row, style in styles.items():
                if (dataset, row) in curves.index.droplevel("epoch"):
                    _draw_curve(axes, curves.loc[(dataset, row)], style)
            axes.set_xlabel("epoch" if self.against == "epochs" else f"training time [{unit}]")
            axes.set_ylabel(f"{label}, logarithmic" if logarithmic else label)
            if self.against == "epochs":
                axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
            if logarithmic:
                axes.set_yscale("log")
        handles = {line.get_label(): line for axes in panels for line in axes.lines}
        legend_beside(figure, [handles[row] for row in styles], list(styles))
        return figure

    def _curves(self, scope: Scope) -> pd.DataFrame:
        """Return place on the horizontal axis `x`, `mean` and `std` by `dataset`, `row` and `epoch`, gaps as NaN."""
        epochs = self.evaluations(scope)
        runs = epochs.groupby(["dataset", "row", "seed"])
        _require(runs[self.column].count() > 0, self.stage, f"no value of {self.column}")
        if self.against == "epochs":
            return self.over_seeds(scope, epochs, epochs["epoch"])
        length = runs["epoch"].agg(lambda epoch: len(_evaluated(epoch)))
        _require(runs["seconds"].count() == length, self.stage, "no seconds of some epoch")
        minutes = epochs.sort_values("epoch").groupby(["dataset", "row", "seed"])["seconds"].cumsum() / 60
        return self.over_seeds(scope, epochs, minutes)


def _shown(column: str) -> tuple[str, float]:
    """Return the label of a column and the factor of its values."""
    if column in LABELS or not column.startswith("eval_"):
        return LABELS.get(column, column.replace("_", " ")), 1
    shown = of_validation(column.removeprefix("eval_"))
    return shown.label.replace("eval ", "validation "), shown.factor


def _evaluated(epochs: pd.Series) -> list[float]:
    """Return the epochs that have values, or should have them: between whole ones, all are meant."""
    at_ends = (epochs % 1 == 0).all()
    return [*range(int(epochs.min()), int(epochs.max()) + 1)] if at_ends else sorted(set(epochs))


def _require(present: pd.Series, stage: str, problem: str) -> None:
    lacking = [f"{stage}/{row}/{dataset}/seed-{seed}" for dataset, row, seed in present.index[~present]]
    if lacking:
        raise DataError(f"history.csv of {', '.join(lacking)}: {problem}. Name another column, or repeat the runs.")


def _draw_curve(axes: Axes, curve: pd.DataFrame, style: dict[str, Any]) -> None:
    curve = curve.reindex(_evaluated(curve.index.to_series()))  # so that a missing epoch breaks the line
    axes.plot(curve["x"], curve["mean"], **style)
    if curve["std"].notna().any():
        low, high = curve["mean"] - curve["std"], curve["mean"] + curve["std"]
        axes.fill_between(curve["x"], low, high, color=style["color"], alpha=0.15, linewidth=0)
