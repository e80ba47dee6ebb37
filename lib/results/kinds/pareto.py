"""Which models are worth their cost: their scores, times and memory, and the Pareto front of these."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, ClassVar, Literal

import matplotlib.style
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import Field

from lib.core.errors import DataError
from lib.core.settings import PositiveFloat
from lib.evaluation.statistics import Paired
from lib.results.costs import CONFIDENCE, dominance, front, measured, tolerance
from lib.results.predictions import interval_notes, paired_predictions, scores_of, without_copies
from lib.results.quantities import QUANTITIES, Quantity, time_unit
from lib.results.scope import Scope
from lib.results.settings import FigureSettings, ResultSettings, TableSettings
from lib.results.style import BEHIND, PANEL_INCHES, STYLE, colours_and_markers, draw_points, legend_beside, panel_grid
from lib.results.table import Column, Table, interval_columns

MINUTES, MEMORY = QUANTITIES["total_minutes"], QUANTITIES["memory"]


class CostSettings(ResultSettings):
    """Settings of what compares scores with their costs."""

    compares_with: ClassVar[tuple[Literal["baseline"]]] = ("baseline",)
    leaves_out_baseline: ClassVar[bool] = True
    adds_costs: ClassVar[bool] = True

    stage: str
    """Stage whose score counts."""
    time: list[str] = Field(min_length=1)
    """Stages whose costs count: their training times are added up; of their peaks of memory, if these are shown, the
    largest counts."""
    time_tolerance: PositiveFloat | None = None
    """Times that differ by at most this, in per cent, count as equal, where models have one run each; null = times do
    not decide in a table, and every difference counts in a figure. With several seeds, the spread between the runs of
    `stage` gives the tolerance."""

    def mean_minutes(self, scope: Scope) -> pd.Series:
        """Return the minutes of training, means over the seeds, by `dataset` and `row`, of models that train.

        Raises:
            DataError: a run is missing or incomplete, or there is no time.
        """
        of_seeds = scope.totals(MINUTES.source, self.time, scope.trained, "sum", self.stage)
        minutes = MINUTES.factor * of_seeds.groupby(["dataset", "row"]).mean().dropna()
        if minutes.empty:
            named, stages = ", ".join(scope.trained), ", ".join(self.time)
            raise DataError(f"{self.stage}: no model of {named} has a training time at {stages}. Name other stages.")
        return minutes

    def on_different_hardware(self, scope: Scope) -> list[str]:
        """Return the datasets where trainings ran on different hardware, so that times cannot be compared."""
        used = scope.trainings(MINUTES.source, self.time, scope.trained, self.stage)
        machines = measured(used[used[MINUTES.source].notna()], "machine").groupby("dataset").nunique()
        return [dataset for dataset in scope.stages[self.stage] if machines.get(dataset, 1) > 1]


class ParetoTable(CostSettings, TableSettings):
    """Models with a training loop, by dataset: F1 on test, time and memory, and which are on the Pareto front."""

    takes_sets: ClassVar[bool] = True
    has_intervals: ClassVar[bool] = True

    kind: Literal["pareto"]
    intervals: bool = True
    """Show intervals of F1, and mark neighbours on the front whose difference in F1 has an interval with 0; needs
    predictions."""
    confidence: float = Field(CONFIDENCE, gt=0.5, lt=1)
    """Confidence of the intervals."""
    memory_tolerance: PositiveFloat | None = None
    """Per cent of memory, as `time_tolerance` is of time."""

    @property
    def needs_predictions(self) -> bool:  # type: ignore[override]  # here it depends on a setting
        """See the base."""
        return self.intervals

    def columns_shown(self, stage: str) -> list[str]:
        """See the base: F1 of `stage`."""
        return ["f1"] if stage == self.stage else []

    def make(self, scope: Scope) -> Table:
        """Return F1, minutes of training, peak memory, and whether on the front: a row per dataset and model.

        Figures are means over the seeds. A model is on the front if no other is at least as good in all three and
        better in one; `dominated_by` names the members that are. Times and memory that differ by less than those of
        repeated runs of the stage count as equal; without repetition and tolerance they do not decide, and times on
        different hardware never do. Neighbours on the front are those next by F1. Models without a training loop have
        no time and no row.

        Raises:
            DataError: a run is missing or incomplete, its memory is of another kind than that of the others, or there
                is no time.
        """
        rows = scope.trained
        f1 = scope.quantity("f1", self.stage)
        grid = scope.grid(self.stage, [f1.source], rows)
        used = scope.trainings(MEMORY.source, self.time, rows, self.stage)
        memory = scope.totals(MEMORY.source, self.time, rows, "max", self.stage).groupby(["dataset", "row"]).mean()
        costs = {MINUTES: self.mean_minutes(scope), MEMORY: MEMORY.factor * memory}
        timed = costs[MINUTES].index
        scores, used = (each[pd.MultiIndex.from_frame(each[["dataset", "row"]]).isin(timed)] for each in (grid, used))
        frames, ways, apart = [], {}, self.on_different_hardware(scope)
        for dataset in [dataset for dataset in scope.stages[self.stage] if dataset in set(scores["dataset"])]:
            here = scores[scores["dataset"] == dataset]
            made = [row for row in rows if row in set(here["row"])]
            f1_here = f1.factor * without_copies(here).groupby("row")[f1.source].agg(["mean", "std"])
            _check_kinds(used[used["dataset"] == dataset])
            frame = pd.DataFrame({"dataset": dataset, f1.name: f1_here["mean"]}, index=pd.Index(made, name="model"))
            frame[f"{f1.name}_sd"] = f1_here["std"]
            paired = paired_predictions(here) if self.intervals else None
            if paired:
                frame[["low", "high"]] = scores_of(paired, self.confidence)[["low", "high"]]
            for each, values in costs.items():
                frame[each.name] = values.reindex([(dataset, row) for row in made]).to_numpy()
            of_own = {MINUTES: self.time_tolerance, MEMORY: self.memory_tolerance}
            once = here.drop_duplicates("folder").set_index("row")
            tolerances = {each.name: tolerance(once[each.source], own, self.confidence) for each, own in of_own.items()}
            if dataset in apart:
                tolerances[MINUTES.name] = None
            ways[dataset] = tolerances
            runs = here.groupby("row")["folder"].first()
            deciding = {name: factor for name, factor in tolerances.items() if factor is not None}
            frames.append(self._with_front(frame, f1.name, runs, deciding, paired).reset_index())
        frame = pd.concat(frames, ignore_index=True)
        columns = {each.name: Column(each.label, each.decimals) for each in (f1, MINUTES, MEMORY)}
        columns |= interval_columns(self.confidence) if self.intervals else {}
        shown = frame.dropna(axis="columns", how="all")  # deviations of a single seed
        notes = interval_notes(scores, self.confidence) if self.intervals else []
        note = " ".join([*_note(self, ways, apart), *notes])
        return Table(shown[["dataset", *shown.columns.drop("dataset")]], columns, note)

    def _with_front(
        self, frame: pd.DataFrame, f1: str, runs: pd.Series, deciding: Mapping[str, float], paired: Paired | None
    ) -> pd.DataFrame:
        """Return `frame` with the front, who dominates others, and neighbours without a significant difference in F1.

        Models with the same run, as `runs` has it by model, have one place among the neighbours.
        """
        costs = pd.concat([-frame[f1], frame[list(deciding)]], axis=1)
        members, dominated = front(costs, deciding), dominance(costs, deciding)
        # With tolerances, what dominates a model may itself be dominated, and by no more than a tolerance.
        above = {model: [each for each in frame.index if dominated.loc[model, each]] for model in frame.index}
        frame = frame.assign(
            front=["yes" if model in members else "no" for model in frame.index],
            dominated_by=[", ".join([each for each in members if each in of] or of) for of in above.values()],
        )
        if paired:
            ranked = runs[members].drop_duplicates()
            ranks = runs[members].map(frame.loc[ranked.index, f1].set_axis(ranked).rank(method="first"))

            def differs(model: str, other: str) -> bool:
                difference = paired.difference(paired.models.index(model), paired.models.index(other))
                low, high = difference.difference_interval(self.confidence)
                return low > 0 or high < 0

            def like(model: str) -> list[str]:
                near = [each for each in members if abs(ranks[each] - ranks[model]) == 1]
                return [each for each in near if not differs(model, each)]

            of_models = [", ".join(like(model)) if model in members else "" for model in frame.index]
            frame["f1_no_significant_difference_from"] = of_models
        return frame


def _check_kinds(used: pd.DataFrame) -> None:
    """Refuse runs whose memory was measured in different ways."""
    firsts = used.groupby("peak_memory_kind")["folder"].first()
    if len(firsts) > 1:
        odd, kinds = ", ".join(firsts), " and ".join(firsts.index)
        raise DataError(f"{odd}: peak memory of the kinds {kinds}, which do not compare. Repeat on one device.")


def _note(table: ParetoTable, ways: Mapping[str, Mapping[str, float | None]], apart: Collection[str]) -> Iterator[str]:
    """Yield the meaning of the columns, and what decides: by `ways`, but no time on the datasets in `apart`."""
    yield "On the front: no other model is at least as good in F1, time and memory together and better in one."
    yield f"Time is that of training in {' and '.join(table.time)}, memory the largest peak there."
    if apart:
        yield f"Trainings on {', '.join(apart)} ran on different hardware: time is shown and does not decide there."
    for each, noun in ((MINUTES, "time"), (MEMORY, "memory")):
        factors = {dataset: factors[each.name] for dataset, factors in ways.items()}
        unknown = [dataset for dataset, factor in factors.items() if factor is None]
        if absent := [dataset for dataset in unknown if each != MINUTES or dataset not in apart]:
            unset = f"No model's {noun} is repeated on {', '.join(absent)}, and `{noun}_tolerance` is not set"
            yield f"{unset}: it is shown and does not decide there."
        if known := [f"{dataset} {100 * factor - 100:.1f} %" for dataset, factor in factors.items() if factor]:
            yield f"Differences in {noun} that count as none: {', '.join(known)}."
    if table.intervals:
        yield "No significant difference in F1 from: the neighbour on the front, the next one by F1, where the interval"
        yield "of the paired difference includes 0."


SIZE, RING = 6.0, 3.0
"""Size of a marker, and how much larger each further one at the same place is, in points."""


class ScoreTimeFigure(CostSettings, FigureSettings):
    """A score against the time of training, with the Pareto front of both, one panel per dataset."""

    kind: Literal["score_time"]
    column: str = "f1"
    """The score, as in the columns of tables."""

    def notes(self, scope: Scope) -> Iterator[str]:
        """See the base: they name the datasets whose panels have no front."""
        if apart := self.on_different_hardware(scope):
            names = ", ".join(map(scope.title, apart))
            yield f"Trainings on {names} ran on different hardware: no Pareto front is drawn there."

    @matplotlib.style.context(STYLE)
    def draw(self, scope: Scope) -> Figure:
        """Draw a score against the time of training that a dataset cost, one panel per dataset.

        Times are means over the seeds; a bar spans one standard deviation of the score to either side where there is
        more than one seed. The baseline is a dashed line where it has the score. A stepped line joins the Pareto front:
        no other model has at least as good a score in at most as much time and is better in one. As in the table of
        kind `pareto`, times that differ by no more than those of repeated runs count as equal, and where trainings ran
        on different hardware there is no front. Other models without a
        training loop have no time and are left out. Markers are open, and larger where another model is at the same
        place, so that none hides another. Times are seconds if all are below a minute.
        """
        score = scope.quantity(self.column, self.stage)
        baseline = scope.baseline
        grid = scope.grid(self.stage, [score.source], [*scope.trained, *filter(None, [baseline])])
        minutes = self.mean_minutes(scope)
        cells = without_copies(grid).groupby(["dataset", "row"])[score.source]
        scores = score.factor * cells.agg(["mean", "std"]).fillna({"std": 0})
        styles = colours_and_markers({row: scope.families[row] for row in scope.trained})
        unit, per_minute = time_unit(minutes.max())
        points = scores.assign(time=per_minute * minutes)  # of the baseline there are none
        timed = points[points["time"].notna()].index.unique("dataset")
        datasets = [dataset for dataset in scope.stages[self.stage] if dataset in timed]
        figure, panels = panel_grid(len(datasets), PANEL_INCHES)
        apart = self.on_different_hardware(scope)
        handles: dict[str, Any] = {}
        for axes, dataset in zip(panels, datasets, strict=True):
            axes.set(title=scope.title(dataset), xlabel=f"training time, {' + '.join(self.time)} [{unit}]")
            shown = scope.quantity(self.column, self.stage, dataset)
            of_test = shown.source.startswith("test_") and not shown.label.startswith("test ")
            axes.set_ylabel(f"test {shown.label}" if of_test else shown.label)
            here = points.loc[dataset]
            made = [model for model in styles if model in here.index[here["time"].notna()]]
            if baseline in here.index and pd.notna(here.loc[baseline, "mean"]):
                line = axes.axhline(here.loc[baseline, "mean"], linestyle="--", linewidth=1, **BEHIND)
                handles[f"baseline ({baseline})"] = line
            places = list(zip(here.loc[made, "time"], here.loc[made, "mean"], strict=True))
            for number, (model, (time, mean)) in enumerate(zip(made, places, strict=True)):
                colour, marker = styles[model]
                size = SIZE + RING * places[:number].count((time, mean))
                style: dict[str, Any] = {"color": colour, "marker": marker, "markersize": size, "fillstyle": "none"}
                draw_points(axes, time, mean, model, yerr=here.loc[model, "std"] or None, **style)
                handles[model] = next(line for line in axes.lines if line.get_gid() == model)
            if dataset not in apart:
                runs = grid[(grid["dataset"] == dataset) & grid["row"].isin(made)].drop_duplicates("folder")
                factor = tolerance(runs.set_index("row")["training_seconds"], self.time_tolerance, CONFIDENCE) or 1.0
                _draw_front(axes, here.loc[made, "time"], here.loc[made, "mean"], score, factor)
        legend_beside(figure, list(handles.values()), list(handles))
        return figure


def _draw_front(axes: Axes, times: pd.Series, scores: pd.Series, score: Quantity, factor: float) -> None:
    """Draw the line between what a model reaches and what none does, to the edges of the panel.

    Times that differ by at most `factor` count as equal.
    """
    axes.margins(x=0.1, y=0.1)
    costs = pd.DataFrame({"time": times, "score": scores * (1 if score.smaller_is_better else -1)})
    ordered = times[front(costs, {"time": factor})].sort_values(kind="stable").index
    (_, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    axes.autoscale(False)  # to the edges as they are
    x = np.repeat([*times[ordered], right], 2)[:-1]
    y = np.repeat([top if score.smaller_is_better else bottom, *scores[ordered]], 2)[1:]
    axes.plot(x, y, color="0.65", linewidth=1, zorder=1.2)
