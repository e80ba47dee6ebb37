"""Whether results meet the requirements that the study set beforehand: a row per model and dataset."""

from collections.abc import Mapping
from typing import ClassVar, Literal

import pandas as pd
from pydantic import Field

from lib.core.settings import BaseSettings, Few, NonNegativeFloat, PositiveFloat
from lib.results.costs import relative_cost
from lib.results.predictions import without_copies
from lib.results.quantities import Quantity
from lib.results.scope import Scope
from lib.results.settings import TableSettings, Topic
from lib.results.table import Column, Table, number

EVERYWHERE = "all"
WORDS = {True: "met", False: "not met"}
UNKNOWN = "not to be told"


class Saving(BaseSettings):
    """How far a model's cost should be below that of the reference."""

    time: PositiveFloat = Field(description="Time of training, in per cent.")
    memory: PositiveFloat = Field(description="Peak memory, in per cent.")


class Margin(BaseSettings):
    """How far a model's score should be above that of the baseline."""

    reference: NonNegativeFloat = Field(5, description="Required lead of the reference, in points.")
    others: NonNegativeFloat = Field(3, description="Required lead of the other models, in points.")


class RequirementsTable(TableSettings):
    """One row per model and dataset: quality, cost and stability, each met, not met, or without a verdict."""

    about: ClassVar[Topic] = "differences"
    compares_with: ClassVar[tuple[Literal["reference"], Literal["baseline"]]] = ("reference", "baseline")
    leaves_out_baseline: ClassVar[bool] = True
    needs_lead: ClassVar[bool] = True
    adds_costs: ClassVar[bool] = True
    own_rows: ClassVar[Mapping[Literal["models", "datasets"], str]] = {"datasets": EVERYWHERE}

    kind: Literal["requirements"]
    stage: str = Field(description="Stage whose score counts.")
    column: Literal["f1", "accuracy", "sequence_accuracy"] = Field("f1", description="The score.")
    time: list[str] = Field(
        min_length=1, description="Stages whose training times are added up, and whose largest peak of memory counts."
    )
    savings: dict[str, Saving] = Field(
        default_factory=dict,
        description="Required savings by family of models (`lsh`, `favor`), compared with the reference: at least "
        "one of time and memory must be lower by this much. Other families need no saving.",
    )
    above_baseline: Margin = Field(default_factory=Margin, description="Required lead over the baseline.")
    loss: NonNegativeFloat = Field(
        1, description="Points that a model may lie below the reference, for the criteria of quality and of cost."
    )
    spread: NonNegativeFloat = Field(1, description="Maximum points between the best and the worst seed.")
    seeds: Few = Field(3, ge=2, description="Minimum number of seeds to show stability.")

    def make(self, scope: Scope) -> Table:
        """Return the figures of each model on each dataset, with a verdict on quality, cost and stability.

        Scores are means over the seeds, and verdicts count figures as they are printed. Where there are several
        datasets, a row `all` says what is met on every one. There is no verdict where records do not suffice: without a
        baseline or costs to compare (see `relative_cost`), or with too few seeds, unless these lie too far apart
        already.

        Source:
            Requirements WNF-1 and WNF-2 of the study (sections 1.6.1 and 1.6.2).
        """
        score, figures = scope.quantity(self.column, self.stage), _figures(self, scope)
        columns = _columns(scope, score)
        printed = {name: [float(number(each, columns[name].decimals)) for each in figures[name]] for name in columns}
        met = _verdicts(self, scope, figures.assign(**printed))
        models, datasets = scope.trained, list(scope.stages[self.stage])
        words = met.apply(lambda verdicts: verdicts.astype(object).map(WORDS).fillna(UNKNOWN))
        if len(datasets) > 1:
            everywhere = met.groupby("model").agg(_everywhere).assign(dataset=EVERYWHERE)
            words = pd.concat([words, everywhere.set_index("dataset", append=True)])
            datasets.append(EVERYWHERE)
        order = pd.MultiIndex.from_product([models, datasets], names=["model", "dataset"])
        words = words.reindex(order[order.isin(words.index)])
        asked = [scope.families[model] in self.savings and model != scope.reference for model, _ in words.index]
        words["cost"] = words["cost"].where(asked, "not asked")
        frame = figures.reindex(words.index).join(words)
        if scope.baseline is None:
            frame = frame.drop(columns="above_baseline")
        return Table(frame.reset_index(), columns, _note(self, scope))


def _columns(scope: Scope, score: Quantity) -> dict[str, Column]:
    against = {"baseline": f"against {scope.baseline}", "reference": f"against {scope.reference}"}
    return {
        "score": Column(score.label, score.decimals),
        "above_baseline": Column(score.difference_label(against["baseline"]), score.decimals, signed=True),
        "above_reference": Column(score.difference_label(against["reference"]), score.decimals, signed=True),
        "time": Column(f"time {against['reference']} [%]", 1, signed=True),
        "memory": Column(f"memory {against['reference']} [%]", 1, signed=True),
        "spread": Column(score.difference_label("spread"), score.decimals),
        "seeds": Column("seeds", 0),
    }


def _figures(settings: RequirementsTable, scope: Scope) -> pd.DataFrame:
    """Return the figures that verdicts rest on, by `model` and `dataset`; NaN where the records do not suffice.

    A dataset that a model is not made for is left out.
    """
    assert scope.reference is not None  # the study was checked
    score, models = scope.quantity(settings.column, settings.stage), scope.trained
    compared = [model for model in models if model != scope.reference]
    rows = dict.fromkeys([*models, scope.reference, *filter(None, [scope.baseline])])
    grid = without_copies(scope.grid(settings.stage, [score.source], list(rows)))
    values = score.factor * grid[score.source].astype(float)
    over_seeds = values.groupby([grid["dataset"], grid["row"]])
    scores, counts = over_seeds.mean().unstack("row"), over_seeds.size().unstack("row")
    baseline = scores.get(scope.baseline, pd.Series(float("nan"), scores.index))
    above_reference = scores.sub(scores[scope.reference], axis=0)
    above_reference[scope.reference] = float("nan")
    figures = {
        "score": scores,
        "above_baseline": scores.sub(baseline, axis=0),
        "above_reference": above_reference,
        "time": relative_cost(scope, "total_minutes", settings.time, compared, settings.stage),
        "memory": relative_cost(scope, "memory", settings.time, compared, settings.stage),
        "spread": (over_seeds.max() - over_seeds.min()).unstack("row").where(counts > 1),
        "seeds": counts,
    }
    datasets = pd.Index(scope.stages[settings.stage], name="dataset")
    by_model = {
        name: each.reindex(datasets).reindex(columns=pd.Index(models, name="model")) for name, each in figures.items()
    }
    return pd.DataFrame({name: each.unstack() for name, each in by_model.items()}).dropna(subset="seeds")


def _verdicts(settings: RequirementsTable, scope: Scope, figures: pd.DataFrame) -> pd.DataFrame:
    """Return whether each requirement is met, missing where the records do not suffice; by `model` and `dataset`."""
    models = figures.index.get_level_values("model")
    is_reference = pd.Series(models == scope.reference, figures.index)
    margins = settings.above_baseline
    margin = is_reference.map({True: margins.reference, False: margins.others})
    savings = [settings.savings.get(scope.families[model]) for model in models]
    lower = {
        name: _at_least(
            -figures[name], pd.Series([getattr(each, name, None) for each in savings], figures.index, float)
        )
        for name in ("time", "memory")
    }
    near = _at_least(figures["above_reference"], -settings.loss) | is_reference
    close_seeds = _at_least(-figures["spread"], -settings.spread)
    return pd.DataFrame(
        {
            "quality": _at_least(figures["above_baseline"], margin) & near,
            "cost": (lower["time"] | lower["memory"]) & near,
            "stability": close_seeds.mask(close_seeds & (figures["seeds"] < settings.seeds)),
        }
    )


def _at_least(values: pd.Series, limit: pd.Series | float) -> pd.Series:
    """Return whether values reach a limit; missing where a value is."""
    return (values >= limit).astype("boolean").mask(values.isna())


def _everywhere(verdicts: pd.Series) -> str:
    """Return the verdict on all datasets in words."""
    met = verdicts.all(skipna=False)
    if met is pd.NA:
        return UNKNOWN
    return WORDS[True] if met else f"{WORDS[False]} (on {(~verdicts).sum()} of {len(verdicts)})"


def _note(settings: RequirementsTable, scope: Scope) -> str:
    """Return the requirements in words."""
    reference, baseline, margins = scope.reference, scope.baseline or "a baseline", settings.above_baseline
    savings = ", ".join(f"{name} {each.time:g} % or {each.memory:g} %" for name, each in settings.savings.items())
    cost = f"time of training ({' + '.join(settings.time)}) or peak memory below {reference} by at least: {savings}"
    near = f"at most {settings.loss:g} below {reference}"
    return (
        f"Limits in points, of figures as printed. Quality: at least {margins.reference:g} above {baseline} for "
        f"{reference}, and {margins.others:g} for the others, these {near}. "
        + (f"Cost: {cost}; {near}. " if savings else "")
        + f"Stability: best and worst of at least {settings.seeds} seeds at most {settings.spread:g} apart."
    )
