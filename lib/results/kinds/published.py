"""Every number that the reproduced study printed and that the runs at hand give, too."""

from collections.abc import Sequence
from typing import ClassVar, Literal, TypeAlias

import pandas as pd
from pydantic import Field

from lib.results.costs import dominance
from lib.results.predictions import without_copies
from lib.results.printed_values import MACHINE, NOTES, note, published
from lib.results.quantities import MACRO, QUANTITIES, Quantity
from lib.results.scope import Scope
from lib.results.settings import TableSettings
from lib.results.table import Column, Table
from lib.results.variants import EQUAL_DECIMALS

PLACE = ["stage", "dataset", "model", "item", "quantity"]
"""What says which number it is."""
MEASURED = ["memory", "minutes", "total_minutes", "loss", "f1", "accuracy"]
"""Quantities of every run that the study printed."""
TOGETHER = ("tapt", "finetune")
"""Stages whose costs the study takes together."""
COSTS: tuple[tuple[Quantity, Literal["sum", "max"]], ...] = (
    (QUANTITIES["memory"], "max"),
    (QUANTITIES["total_minutes"], "sum"),
)
"""What stages cost that are taken together, and how their values become one."""
Facts: TypeAlias = pd.DataFrame
"""A row per number: the columns of `PLACE`, `value` and `hardware`."""
NOTHING = pd.DataFrame(columns=[*PLACE, "value", "hardware"])


class PublishedTable(TableSettings):
    """One row per printed number: its place, our number, difference and ratio."""

    compares_with: ClassVar[tuple[Literal["reference"], Literal["baseline"]]] = ("reference", "baseline")
    takes_variants: ClassVar[Literal["none", "any", "needed"]] = "any"
    needs_published: ClassVar[bool] = True

    kind: Literal["published"]
    stages: list[str] = Field(min_length=1, description="Stages whose runs are compared, named as in the full grid.")

    def stages_added(self) -> list[str]:
        """See the base."""
        return self.stages

    def make(self, scope: Scope) -> Table:
        """Return a row for every printed number of the study that the runs give as well.

        Ours are means over the seeds. `agrees` says whether ours is the printed number when it is rounded as that.
        Where it depends on the machine and ours is not of the study's kind, there is neither that nor a difference or
        ratio.
        """
        study = scope.published
        assert study is not None  # the report was checked
        ours = _ours(scope)
        ours = ours.dropna(subset="value").astype({"value": float})
        known = published(study).merge(ours, on=PLACE, suffixes=("_printed", ""))
        alike = ~known["quantity"].isin(MACHINE)
        if (hardware := NOTES[study].hardware) is not None:
            alike |= known["hardware"].str.contains(hardware, na=False)
        decimals = known["printed"].str.partition(".")[2].str.len()
        rounded = [f"{value:.{places}f}" for value, places in zip(known["value"], decimals, strict=True)]
        agrees = pd.Series(rounded, dtype=object).where(lambda each: each != known["printed"], "yes")
        agrees = agrees.where(agrees == "yes", "no").where(alike, "-")
        frame = pd.DataFrame(
            {
                "table": known["table"],
                "page": known["page"].astype(object).where(known["page"].notna(), "-"),
                "stage": known["stage"],
                "dataset": known["dataset"],
                "model": known["model"],
                "item": known["item"].fillna(""),
                "quantity": known["quantity"],
                "published": known["printed"],
                "ours": known["value"],
                "difference": (known["value"] - known["value_printed"]).where(alike),
                "ratio": (known["value"] / known["value_printed"]).where(alike & (known["value_printed"] != 0)),
                "agrees": agrees,
                "hardware": known["hardware"].fillna("unknown"),
            }
        )
        columns = {"ours": Column("ours", 3), "difference": Column("difference", 3), "ratio": Column("ratio", 4)}
        compared = agrees != "-"
        said = [f"{(agrees == 'yes').sum()} of {compared.sum()} numbers agree to the last printed digit."]
        if not compared.all():
            said.append(
                f"The {(~compared).sum()} without an answer depend on the machine, and ours is not of the study's "
                "kind, so they reproduce nothing."
            )
        return Table(frame, columns, " ".join([*said, note(study, scope.runs, known["quantity"])]))


def _ours(scope: Scope) -> Facts:
    """Return our numbers, called as the study's."""
    cells = [
        (stage, row, dataset, owner)
        for stage, rows in scope.owners.items()
        for row in rows
        for dataset, owner in scope.made_for(stage, row).items()
    ]
    grid = pd.DataFrame(cells, columns=["stage", "row", "dataset", "model"])
    grid = grid.merge(scope.runs, on=["stage", "dataset", "model"])
    grid = grid.drop(columns="model").rename(columns={"row": "model"})
    grid["hardware"] = grid["hardware"].fillna("unknown")
    searched = grid["variant"] != ""
    by_score = grid[~searched].groupby(grid["score"].fillna(MACRO), sort=False)
    shown = [(runs, QUANTITIES[name].of(score)) for name in MEASURED for score, runs in by_score]
    measured = [_facts(runs, each.name, each.source, each.factor) for runs, each in shown]
    totals = pd.concat([NOTHING, *measured], ignore_index=True)
    return pd.concat(
        [
            totals,
            *_compared(totals, scope),
            _front(totals, scope),
            *_classes(grid[~searched]),
            *_search(without_copies(grid[searched])),
        ],
        ignore_index=True,
    )


def _facts(grid: pd.DataFrame, quantity: str, source: str, factor: float, item: str | None = None) -> Facts:
    """Return the mean over the seeds of a column of the runs; nothing where no run has a value."""
    if source not in grid:
        return NOTHING
    cells = grid.groupby(["stage", "dataset", "model"])
    facts = pd.DataFrame({"value": factor * cells[source].mean(), "hardware": cells["hardware"].agg(_all)})
    return facts.reset_index().assign(item=item, quantity=quantity)


def _all(names: pd.Series) -> str:
    return "; ".join(sorted(set(names)))


def _scores(totals: Facts) -> pd.DataFrame:
    """Return F1 after finetuning, by dataset, one column per model."""
    chosen = totals[(totals["quantity"] == "f1_macro_percent") & (totals["stage"] == "finetune")]
    return chosen.set_index(["dataset", "model"])["value"].unstack("model")


def _tidy(values: pd.DataFrame, totals: Facts, stage: str, quantity: str) -> Facts:
    if values.empty:
        return NOTHING
    hardware = totals.groupby(["dataset", "model"])["hardware"].agg(_all).rename("hardware")
    tidy = values.rename_axis(columns="model").stack().rename("value").reset_index()
    return tidy.join(hardware, on=["dataset", "model"]).assign(stage=stage, item=None, quantity=quantity)


def _costs(scope: Scope, stages: Sequence[str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return peak memory and minutes of stages taken together, by dataset, one column per model that passes all."""
    if any(stage not in scope.stages or stage in scope.variants for stage in stages):
        return pd.DataFrame(), pd.DataFrame()
    made = [
        (dataset, row)
        for row in scope.owners[stages[-1]]
        for dataset in scope.stages[stages[-1]]
        if all(scope.owner(stage, row, dataset) for stage in stages)
    ]
    if not made:
        return pd.DataFrame(), pd.DataFrame()
    rows = list(dict.fromkeys(row for _, row in made))
    memory, minutes = (each.factor * scope.totals(each.source, stages, rows, how, stages[-1]) for each, how in COSTS)
    places = pd.MultiIndex.from_tuples(made, names=["dataset", "row"])
    of_memory, of_minutes = (each.groupby(["dataset", "row"]).mean().reindex(places) for each in (memory, minutes))
    return of_memory.unstack("row"), of_minutes.unstack("row")


def _compared(totals: Facts, scope: Scope) -> list[Facts]:
    """Return costs in per cent of the reference's, and scores in points above the reference's and the baseline's."""
    found = []
    for stages in (("pretrain",), TOGETHER):
        for quantity, costs in zip(("memory_delta_percent", "time_delta_percent"), _costs(scope, stages), strict=True):
            if scope.reference in costs:
                delta = 100 * (costs.div(costs[scope.reference], axis=0) - 1).drop(columns=scope.reference)
                found.append(_tidy(delta, totals, "+".join(stages), quantity))
    scores = _scores(totals)
    for name, other in (("reference", scope.reference), ("baseline", scope.baseline)):
        if other in scores:
            delta = scores.sub(scores[other], axis=0).drop(columns=other)
            found.append(_tidy(delta, totals, "finetune", f"f1_delta_{name}"))
    return found


def _front(totals: Facts, scope: Scope) -> Facts:
    """Return whether a model is on the front: no other is as good in score, time and memory, and better in one."""
    scores = _scores(totals)
    memory, minutes = _costs(scope, TOGETHER)
    front = {}
    for dataset in memory.index.intersection(scores.index):
        points = pd.DataFrame(
            {"score": -scores.loc[dataset], "memory": memory.loc[dataset], "time": minutes.loc[dataset]}
        )
        front[dataset] = (~dominance(points.dropna()).any(axis=1)).astype(float)
    values = pd.DataFrame(front).T.rename_axis("dataset")
    return _tidy(values, totals, "+".join(TOGETHER), "on_front")


def _classes(grid: pd.DataFrame) -> list[Facts]:
    """Return precision, recall and F1 of each class on test, and their means."""
    found = []
    for score in ("precision", "recall", "f1"):
        prefix = f"test_{score}_class_"
        # The studies have no class called as the mean over classes.
        for column in [each for each in grid if each.startswith(prefix) and each != f"{prefix}macro average"]:
            found.append(_facts(grid, f"{score}_percent", column, 100, column.removeprefix(prefix)))
        found.append(_facts(grid, f"{score}_percent", f"test_{score}_macro", 100, "macro average"))
    return found


def _search(grid: pd.DataFrame) -> list[Facts]:
    """Return the score on validation of every variant of a search, which is best, and how far seeds lie apart."""
    if grid.empty:
        return []
    place = ["stage", "dataset", "model", "item"]
    grid = grid.assign(item=grid["variant"], score=100 * grid["eval_f1_macro"])
    cells = grid.groupby(place, sort=False)
    scores = cells["score"].agg(["mean", "max", "min", "count"])
    several = scores["count"] > 1
    best = scores["mean"].round(EQUAL_DECIMALS).groupby(place[:3]).idxmax()  # the first of equal ones, as in a search
    chosen = pd.Series(scores.index.isin(best), scores.index, float)
    values = {
        "validation_f1_macro_percent": scores["mean"],
        "chosen": chosen,
        "validation_f1_macro_highest": scores["max"].where(several),
        "validation_f1_macro_lowest": scores["min"].where(several),
        "validation_f1_macro_spread": (scores["max"] - scores["min"]).where(several),
    }
    hardware = cells["hardware"].agg(_all)
    return [
        pd.DataFrame({"value": value, "hardware": hardware}).reset_index().assign(quantity=quantity)
        for quantity, value in values.items()
    ]
