"""Whether results meet the requirements that the study set beforehand: a row per model and dataset."""

from collections.abc import Iterator, Mapping
from math import isnan, nan
from typing import Any, ClassVar, Literal

import pandas as pd
from pydantic import Field

from lib.core.settings import BaseSettings, Few, NonNegativeFloat, PositiveFloat
from lib.results.costs import relative_cost
from lib.results.predictions import without_copies
from lib.results.scope import Scope
from lib.results.settings import TableSettings, Topic
from lib.results.table import Column, Table, number

WORDS: Mapping[Any, str] = {True: "met", False: "not met", pd.NA: "not to be told"}


class Saving(BaseSettings):
    """How far a model's cost should be below that of the reference."""

    time: PositiveFloat
    """Time of training, in per cent."""
    memory: PositiveFloat
    """Peak memory, in per cent."""


class Margin(BaseSettings):
    """How far a model's score should be above that of the baseline."""

    reference: NonNegativeFloat = 5
    """Required lead of the reference, in points."""
    others: NonNegativeFloat = 3
    """Required lead of the other models, in points."""


class RequirementsTable(TableSettings):
    """One row per model and dataset: quality, cost and stability, each met, not met, or without a verdict."""

    about: ClassVar[Topic] = "differences"
    compares_with: ClassVar[tuple[Literal["reference"], Literal["baseline"]]] = ("reference", "baseline")
    leaves_out_baseline: ClassVar[bool] = True
    needs_lead: ClassVar[bool] = True
    adds_costs: ClassVar[bool] = True

    kind: Literal["requirements"]
    stage: str
    """Stage whose score counts."""
    column: Literal["f1", "accuracy", "sequence_accuracy"] = "f1"
    """The score."""
    time: list[str] = Field(min_length=1)
    """Stages whose training times are added up, and whose largest peak of memory counts."""
    savings: dict[str, Saving] = Field(default_factory=dict)
    """Required savings by family of models (`lsh`, `favor`), compared with the reference: at least one of time and
    memory must be lower by this much. Other families need no saving."""
    above_baseline: Margin = Field(default_factory=Margin)
    """Required lead over the baseline."""
    loss: NonNegativeFloat = 1
    """Points that a model may lie below the reference, for the criteria of quality and of cost."""
    spread: NonNegativeFloat = 1
    """Maximum points between the best and the worst seed."""
    seeds: Few = Field(3, ge=2)
    """Minimum number of seeds to show stability."""

    def make(self, scope: Scope) -> Table:
        """Return the figures of each model on each dataset, with a verdict on quality, cost and stability.

        Scores are means over the seeds, and verdicts count figures as they are printed. There is no verdict where
        records do not suffice: without a baseline or costs to compare (see `relative_cost`), or with too few seeds,
        unless these lie too far apart already. A dataset that a model is not made for has no row.

        Source:
            Requirements WNF-1 and WNF-2 of the study (sections 1.6.1 and 1.6.2).
        """
        score, trained = scope.quantity(self.column, self.stage), scope.trained
        reference, baseline = scope.reference, scope.baseline
        rows_read = list(dict.fromkeys([*trained, *filter(None, [reference, baseline])]))
        grid = scope.grid(self.stage, [score.source], rows_read)
        cells = without_copies(grid).groupby(["row", "dataset"])[score.source]
        scores = (score.factor * cells.agg(["mean", "max", "min"]).astype(float)).assign(seeds=cells.size())
        others = [model for model in trained if model != reference]
        priced = (("time", "total_minutes"), ("memory", "memory"))
        costs = {name: relative_cost(scope, each, self.time, others, self.stage).unstack() for name, each in priced}
        than_baseline, than_reference = f"against {baseline}", f"against {reference}"
        columns = {
            "score": Column(score.label, score.decimals),
            "above_baseline": Column(score.difference_label(than_baseline), score.decimals, signed=True),
            "above_reference": Column(score.difference_label(than_reference), score.decimals, signed=True),
            "time": Column(f"time {than_reference} [%]", 1, signed=True),
            "memory": Column(f"memory {than_reference} [%]", 1, signed=True),
            "spread": Column(score.difference_label("spread"), score.decimals),
            "seeds": Column("seeds", 0),
        }
        rows = []
        for place in [(model, dataset) for model in trained for dataset in scope.made_for(self.stage, model)]:
            own, is_reference = scores.loc[place], place[0] == reference
            above = {name: own["mean"] - scores["mean"].get((name, place[1]), nan) for name in (baseline, reference)}
            figures = {
                "score": own["mean"],
                "above_baseline": above[baseline],
                "above_reference": nan if is_reference else above[reference],
                **{name: values.get(place, nan) for name, values in costs.items()},
                "spread": own["max"] - own["min"] if own["seeds"] > 1 else nan,
                "seeds": int(own["seeds"]),
            }
            printed = {name: float(number(value, columns[name].decimals)) for name, value in figures.items()}
            verdicts = self._verdicts(printed, is_reference, self.savings.get(scope.families[place[0]]))
            rows.append({"model": place[0], "dataset": place[1], **figures, **verdicts})
        frame = pd.DataFrame(rows)
        return Table(frame if baseline else frame.drop(columns="above_baseline"), columns, " ".join(self._note(scope)))

    def _verdicts(self, figures: Mapping[str, float], is_reference: bool, saving: Saving | None) -> dict[str, str]:
        """Return in words whether each requirement is met by the figures of a model on a dataset."""
        lead = self.above_baseline.reference if is_reference else self.above_baseline.others
        near = is_reference or _at_least(figures["above_reference"], -self.loss)
        close = _at_least(-figures["spread"], -self.spread)
        if close is True and figures["seeds"] < self.seeds:
            close = pd.NA
        cost = "not asked"
        if saving and not is_reference:
            lower = _at_least(-figures["time"], saving.time) | _at_least(-figures["memory"], saving.memory)
            cost = WORDS[lower & near]
        quality = WORDS[_at_least(figures["above_baseline"], lead) & near]
        return {"quality": quality, "cost": cost, "stability": WORDS[close]}

    def _note(self, scope: Scope) -> Iterator[str]:
        """Yield the requirements in words."""
        reference, baseline, margins = scope.reference, scope.baseline or "a baseline", self.above_baseline
        savings = ", ".join(f"{name} {each.time:g} % or {each.memory:g} %" for name, each in self.savings.items())
        cost = f"time of training ({' + '.join(self.time)}) or peak memory below {reference} by at least: {savings}"
        near = f"at most {self.loss:g} below {reference}"
        yield f"Limits in points, of figures as printed. Quality: at least {margins.reference:g} above {baseline} for"
        yield f"{reference}, and {margins.others:g} for the others, these {near}."
        if savings:
            yield f"Cost: {cost}; {near}."
        yield f"Stability: best and worst of at least {self.seeds} seeds at most {self.spread:g} apart."


def _at_least(value: float, limit: float) -> Any:
    """Return whether a value reaches a limit; `pandas.NA`, whose logic has three values, where it is not known."""
    return pd.NA if isnan(value) else value >= limit
