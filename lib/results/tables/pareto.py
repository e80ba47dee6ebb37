"""Which models are worth their cost: a row per dataset and model, with its score, time and memory."""

from typing import ClassVar, Literal

import pandas as pd
from pydantic import Field

from lib.core.errors import DataError
from lib.evaluation.statistics import interval
from lib.results.costs import dominance, front
from lib.results.parameters import TableParameters
from lib.results.predictions import paired_predictions
from lib.results.quantities import QUANTITIES
from lib.results.scope import Scope
from lib.results.table import Column, Table

MINUTES, MEMORY = QUANTITIES["total_minutes"], QUANTITIES["memory"]
ENDS = ("low", "high")


class Parameters(TableParameters):
    """Models with a training loop, by dataset: macro-F1 on test, time and memory, and which are on the Pareto front."""

    beside: ClassVar[tuple[Literal["baseline"]]] = ("baseline",)

    kind: Literal["pareto"]
    stage: str = Field(description="Stage whose macro-F1 counts.")
    time: list[str] = Field(
        min_length=1, description="Stages whose training times are added up, and whose largest peak of memory counts."
    )
    intervals: bool = Field(
        True,
        description="Show bootstrap intervals of F1, and mark models whose F1 lies within the interval of a "
        "neighbour on the front; needs predictions.",
    )
    confidence: float = Field(0.95, gt=0.5, lt=1, description="Confidence of the intervals.")
    resamples: int = Field(10_000, ge=1000, description="Resamples of the bootstrap.")

    @property
    def needs_predictions(self) -> bool:  # type: ignore[override]  # here it depends on a setting
        """See the base."""
        return self.intervals


def make(settings: Parameters, scope: Scope) -> Table:
    """Return F1, minutes of training and peak memory, and whether they are on the front: a row per dataset and model.

    Figures are means over the seeds. A model is on the front if no other is at least as good in all three and better in
    one; `dominated_by` names the members that are. Neighbours on the front are those next by F1.

    Raises:
        DataError: a run is missing or incomplete, or its memory is of another kind than that of the others.
    """
    rows = scope.trained
    f1 = scope.quantity("f1", settings.stage)
    scores = scope.grid(settings.stage, [f1.source], rows)
    used = pd.concat(scope.grid(stage, [MEMORY.source], rows) for stage in settings.time)
    seconds = scope.totals(MINUTES.source, settings.time, rows)
    frames = []
    for dataset in scope.stages[settings.stage]:
        here = scores[scores["dataset"] == dataset]
        made = [row for row in rows if row in set(here["row"])]
        of_seeds = f1.factor * here.groupby("row")[f1.source].agg(["mean", "std"])
        costs = {MINUTES: seconds[dataset].groupby("row").mean(), MEMORY: _peaks(used[used["dataset"] == dataset])}
        frame = pd.DataFrame({"dataset": dataset, f1.name: of_seeds["mean"]}, index=pd.Index(made, name="model"))
        frame[f"{f1.name}_sd"] = of_seeds["std"]
        if settings.intervals:
            paired = paired_predictions(here)
            ends = interval(paired.resampled_f1(dataset, resamples=settings.resamples), settings.confidence)
            for name, end in zip(ENDS, ends, strict=True):
                frame[name] = pd.Series(f1.factor * end, index=paired.models)
        for each, values in costs.items():
            frame[each.name] = each.factor * values
        frames.append(_with_front(frame, f1.name).reset_index())
    frame = pd.concat(frames, ignore_index=True)
    percent = f"{100 * settings.confidence:g} %"
    columns = {each.name: Column(each.label, each.decimals) for each in (f1, MINUTES, MEMORY)}
    columns |= {"low": Column(f"{percent} interval from", 2), "high": Column("to", 2)} if settings.intervals else {}
    shown = frame.dropna(axis="columns", how="all")  # deviations of a single seed
    return Table(shown[["dataset", *shown.columns.drop("dataset")]], columns, _note(settings))


def _peaks(used: pd.DataFrame) -> pd.Series:
    """Return the largest peak of memory of each row in MiB, the mean over seeds."""
    kinds = used["peak_memory_kind"].unique()
    if len(kinds) > 1:
        odd = ", ".join(used.groupby("peak_memory_kind")["folder"].first())
        raise DataError(
            f"{odd}: peak memory of the kinds {' and '.join(sorted(kinds))}. Expected one kind, since others cannot be "
            "compared. Repeat those runs on the device of the others."
        )
    return used.groupby(["row", "seed"])[MEMORY.source].max().groupby("row").mean()


def _with_front(frame: pd.DataFrame, f1: str) -> pd.DataFrame:
    """Return `frame` with who is on the front, who dominates others, and whose F1 lies in a neighbour's interval."""
    costs = pd.concat([-frame[f1], frame[[MINUTES.name, MEMORY.name]]], axis=1)
    members, dominated = front(costs), dominance(costs)
    frame = frame.assign(
        front=["yes" if model in members else "no" for model in frame.index],
        dominated_by=[", ".join(each for each in members if dominated.loc[model, each]) for model in frame.index],
    )
    if "low" in frame:
        ranks = frame.loc[members, f1].rank(method="first")
        frame["f1_within_interval_of"] = [
            ", ".join(
                each
                for each in members
                if model in members
                and abs(ranks[each] - ranks[model]) == 1
                and frame.loc[each, "low"] <= frame.loc[model, f1] <= frame.loc[each, "high"]
            )
            for model in frame.index
        ]
    return frame


def _note(settings: Parameters) -> str:
    text = (
        "On the front: no other model is at least as good in F1, time and memory together and better in one. Time is "
        f"that of training in {' and '.join(settings.time)}, memory the largest peak there."
    )
    if not settings.intervals:
        return text
    return (
        f"{text} Intervals: {100 * settings.confidence:g} %, {settings.resamples:,} bootstrap resamples of test "
        "documents, and of seeds where there are several. A member whose F1 lies within the interval of its neighbour "
        "on the front, the next one by F1, is not safely told apart from it."
    )
