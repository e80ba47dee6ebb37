"""Which models are worth their cost: a row per dataset and model, with its score, time and memory."""

from collections.abc import Collection, Iterator, Mapping
from typing import ClassVar, Literal

import pandas as pd
from pydantic import Field

from lib.core.errors import DataError
from lib.core.settings import PositiveFloat
from lib.evaluation.statistics import Paired
from lib.results.costs import CONFIDENCE, TOLERANCE, dominance, front, measured, tolerance, without_time
from lib.results.predictions import interval_notes, paired_predictions, without_copies
from lib.results.quantities import QUANTITIES
from lib.results.scope import Scope
from lib.results.settings import TableSettings
from lib.results.table import Column, Table

MINUTES, MEMORY = QUANTITIES["total_minutes"], QUANTITIES["memory"]
ENDS = ("low", "high")


class ParetoTable(TableSettings):
    """Models with a training loop, by dataset: macro-F1 on test, time and memory, and which are on the Pareto front."""

    compares_with: ClassVar[tuple[Literal["baseline"]]] = ("baseline",)
    leaves_out_baseline: ClassVar[bool] = True
    adds_costs: ClassVar[bool] = True
    has_intervals: ClassVar[bool] = True

    kind: Literal["pareto"]
    stage: str = Field(description="Stage whose macro-F1 counts.")
    time: list[str] = Field(
        min_length=1, description="Stages whose training times are added up, and whose largest peak of memory counts."
    )
    intervals: bool = Field(
        True,
        description="Show intervals of F1, and mark neighbours on the front whose difference in F1 has an interval "
        "with 0; needs predictions.",
    )
    confidence: float = Field(CONFIDENCE, gt=0.5, lt=1, description="Confidence of the intervals.")
    time_tolerance: PositiveFloat | None = Field(None, description=TOLERANCE)
    memory_tolerance: PositiveFloat | None = Field(None, description="The same of memory.")

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
        of_seeds = {
            MINUTES: scope.totals(MINUTES.source, self.time, rows, "sum", self.stage),
            MEMORY: scope.totals(MEMORY.source, self.time, rows, "max", self.stage),
        }
        costs = {each: values.groupby(["dataset", "row"]).mean() for each, values in of_seeds.items()}
        timed = costs[MINUTES].dropna().index
        scores, used = (each[pd.MultiIndex.from_frame(each[["dataset", "row"]]).isin(timed)] for each in (grid, used))
        if scores.empty:
            raise DataError(without_time(self.stage, rows, self.time))
        frames, ways, apart = [], {}, []
        for dataset in [dataset for dataset in scope.stages[self.stage] if dataset in set(scores["dataset"])]:
            here = scores[scores["dataset"] == dataset]
            made = [row for row in rows if row in set(here["row"])]
            f1_here = f1.factor * without_copies(here).groupby("row")[f1.source].agg(["mean", "std"])
            _check_kinds(used[used["dataset"] == dataset])
            frame = pd.DataFrame({"dataset": dataset, f1.name: f1_here["mean"]}, index=pd.Index(made, name="model"))
            frame[f"{f1.name}_sd"] = f1_here["std"]
            paired = paired_predictions(here) if self.intervals else None
            if paired:
                ends = [paired.score(model).score_interval(self.confidence) for model in range(len(paired.models))]
                frame[list(ENDS)] = f1.factor * pd.DataFrame(ends, paired.models, ENDS)
            for each, values in costs.items():
                frame[each.name] = each.factor * values.reindex([(dataset, row) for row in made]).to_numpy()
            of_own = {MINUTES: self.time_tolerance, MEMORY: self.memory_tolerance}
            tolerances = {
                each.name: tolerance(here.drop_duplicates("folder").set_index("row")[each.source], own, self.confidence)
                for each, own in of_own.items()
            }
            if measured(used[used["dataset"] == dataset], "machine").nunique() > 1:
                tolerances[MINUTES.name] = None
                apart.append(dataset)
            ways[dataset] = tolerances
            runs = here.groupby("row")["folder"].first()
            frames.append(_with_front(frame, f1.name, runs, tolerances, paired, self).reset_index())
        frame = pd.concat(frames, ignore_index=True)
        percent = f"{100 * self.confidence:g} %"
        columns = {each.name: Column(each.label, each.decimals) for each in (f1, MINUTES, MEMORY)}
        columns |= {"low": Column(f"{percent} interval from", 2), "high": Column("to", 2)} if self.intervals else {}
        shown = frame.dropna(axis="columns", how="all")  # deviations of a single seed
        notes = interval_notes(scores, self.confidence) if self.intervals else []
        note = " ".join([*_note(self, ways, apart), *notes])
        return Table(shown[["dataset", *shown.columns.drop("dataset")]], columns, note)


def _check_kinds(used: pd.DataFrame) -> None:
    """Refuse runs whose memory was measured in different ways."""
    kinds = used["peak_memory_kind"].unique()
    if len(kinds) > 1:
        odd = ", ".join(used.groupby("peak_memory_kind")["folder"].first())
        raise DataError(
            f"{odd}: peak memory of the kinds {' and '.join(sorted(kinds))}. Expected one kind, since others cannot be "
            "compared. Repeat those runs on the device of the others."
        )


def _with_front(
    frame: pd.DataFrame,
    f1: str,
    runs: pd.Series,
    tolerances: Mapping[str, float | None],
    paired: Paired | None,
    settings: ParetoTable,
) -> pd.DataFrame:
    """Return `frame` with the front, who dominates others, and neighbours without a significant difference in F1.

    Models with the same run, as `runs` has it by model, have one place among the neighbours.
    """
    deciding = {name: factor for name, factor in tolerances.items() if factor is not None}
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
            low, high = difference.difference_interval(settings.confidence)
            return low > 0 or high < 0

        frame["f1_no_significant_difference_from"] = [
            ", ".join(
                each
                for each in members
                if model in members and abs(ranks[each] - ranks[model]) == 1 and not differs(model, each)
            )
            for model in frame.index
        ]
    return frame


def _note(
    settings: ParetoTable, ways: Mapping[str, Mapping[str, float | None]], apart: Collection[str]
) -> Iterator[str]:
    """Yield the meaning of the columns, and what decides: by `ways`, but no time on the datasets in `apart`."""
    yield (
        "On the front: no other model is at least as good in F1, time and memory together and better in one. Time is "
        f"that of training in {' and '.join(settings.time)}, memory the largest peak there."
    )
    if apart:
        yield f"Trainings on {', '.join(apart)} ran on different hardware: time is shown and does not decide there."
    for each, noun in ((MINUTES, "time"), (MEMORY, "memory")):
        factors = {dataset: factors[each.name] for dataset, factors in ways.items()}
        unknown = [dataset for dataset, factor in factors.items() if factor is None]
        if absent := [dataset for dataset in unknown if each != MINUTES or dataset not in apart]:
            yield (
                f"No model's {noun} is repeated on {', '.join(absent)}, and `{noun}_tolerance` is not set: it is shown "
                "and does not decide there."
            )
        if known := [f"{dataset} {100 * factor - 100:.1f} %" for dataset, factor in factors.items() if factor]:
            yield f"Differences in {noun} that count as none: {', '.join(known)}."
    if settings.intervals:
        yield (
            "No significant difference in F1 from: the neighbour on the front, the next one by F1, where the interval "
            "of the paired difference includes 0."
        )
