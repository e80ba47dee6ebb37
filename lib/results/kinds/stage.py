"""Costs and scores of the runs of one or several stages: a row per model."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Literal

import pandas as pd
from pydantic import Field

from lib.core.settings import check, repeats
from lib.results.costs import COSTS, relative_cost
from lib.results.predictions import repetitions
from lib.results.printed_values import note, published_runs
from lib.results.quantities import QUANTITIES, Quantity, quantity
from lib.results.scope import Scope
from lib.results.settings import MODEL, TableSettings, Topic
from lib.results.table import Column, Key, Table

KIND = "memory_kind"
PUBLISHED = "published"
GAPS = (
    "A dash under `against`: the same runs, no training, times on other hardware or memory of another kind, or a "
    "dataset that the model is not made for."
)
PRINTED_DIFFERENCES = {
    ("memory", "sdpa"): "memory_delta_percent",
    ("total_minutes", "sdpa"): "time_delta_percent",
    ("f1", "sdpa"): "f1_delta_reference",
    ("f1", "tfidf"): "f1_delta_baseline",
}
"""What the grid's study calls the difference of a column from that of a model, which it printed."""


class StageTable(TableSettings):
    """One row per model, columns by dataset, or by stage and dataset."""

    kind: Literal["stage"] = "stage"
    stage: str | list[str | Annotated[list[str], Field(min_length=1)]] = Field(min_length=1)
    """Stage whose runs it shows, or several, side by side, for models that pass them all: `[pretrain, [tapt,
    finetune]]`. Stages in a list of their own count together, on the datasets of the last one: what its runs cost with
    those that they start from. Times add up, and the largest memory counts."""
    columns: list[str] | dict[str, list[str]] = Field(min_length=1)
    """What it shows of each run, or of the runs of each stage: `memory`, `minutes` (of an epoch), `total_minutes`,
    `hours`, `lora_rank`, `loss`, `f1` (macro-F1; of spans, that of characters; of sets of classes, micro-F1 or
    macro-F1, as the `average` of their task says), `validation_f1`, `accuracy`,
    `validation_accuracy`, `sequence_accuracy`, `matthews`, of numbers `pearson` and `spearman` (each of these three
    also as `validation_...`), `parameters` (weights in all; those of a part are `parameters_embeddings`, `_attention`,
    `_feed_forward`, `_recurrence`, `_norms`, `_other`, `_backbone`, `_head`, and `_trainable` those with adapters; a
    part that no model has makes no column),
    `trained` (weights), `trained_share`, `epochs`, `approximated` (training documents longer than the mechanism reads
    exactly), `state_size` (what a model keeps of a text), or a metric of the record."""
    against: list[Literal["reference", "baseline"]] = Field([])
    """Models of the report whose difference stands next to each number: of scores in points, between runs of the same
    seed; of `memory`, `total_minutes` and `parameters` in per cent."""

    @property
    def compares_with(self) -> tuple[Literal["reference", "baseline"], ...]:  # type: ignore[override]
        """See the base: here it depends on a setting."""
        return tuple(self.against)

    @property
    def adds_costs(self) -> bool:  # type: ignore[override]  # as above
        """See the base."""
        return any(len(group) > 1 for group in self.groups)

    @property
    def groups(self) -> list[list[str]]:
        """The stages that count together."""
        stages = [self.stage] if isinstance(self.stage, str) else self.stage
        return [[group] if isinstance(group, str) else list(dict.fromkeys(group)) for group in stages]

    def stages_passed(self) -> list[str]:
        """See the base."""
        return list(dict.fromkeys(stage for group in self.groups for stage in group))

    @check
    def _stages_are_distinct(self) -> Iterator[str]:
        yield from repeats("stage", [" + ".join(group) for group in self.groups])

    @check
    def _columns_are_of_its_stages(self) -> Iterator[str]:
        if isinstance(self.columns, dict) and set(self.columns) != set(stages := self.stages_passed()):
            yield f"columns are of {', '.join(self.columns)}, not of {', '.join(stages)}. Give each stage its columns"

    @check
    def _columns_can_be_compared(self) -> Iterator[str]:
        lists = self.columns.values() if isinstance(self.columns, dict) else [self.columns]
        for column in dict.fromkeys(column for columns in lists for column in columns):
            if column not in COSTS and (self.adds_costs or (self.against and not quantity(column).score)):
                yield f"columns: '{column}' cannot be {'added up' if self.adds_costs else 'compared'}. Leave it out"

    def places(self, stages: Mapping[str, Sequence[str]]) -> Iterator[tuple[tuple[str, ...], list[str], str]]:
        """Yield the names that columns have, the stages that count together, and the dataset, in order."""
        alone = all(len(stages[group[-1]]) == 1 for group in self.groups)
        for group in self.groups:
            for dataset in stages[group[-1]]:
                stage = "+".join(group)
                several = (stage,) if alone else (stage, dataset)
                yield (dataset,) if len(self.groups) == 1 else several, group, dataset

    @property
    def topic(self) -> Topic:
        """Scores or their differences, or without any score, costs; see the base."""
        columns = [column for stage in self.stages_passed() for column in self.columns_shown(stage)]
        if all(column == "loss" or not quantity(column).score for column in columns):
            return "training" if "loss" in columns else "cost"
        return "differences" if self.against else "scores"

    def make(self, scope: Scope) -> Table:
        """Return one row per model: for each stage and dataset the quantities asked for.

        Figures are means over the seeds; scores have a standard deviation when there is more than one seed, and so have
        their differences, which are between runs of the same seed. Costs are compared by their means. The difference
        of two rows with the same runs is left empty. With memory, `memory_kind` says what kind was measured, `gpu` or
        `resident`; next to what the study published stands its value, if the report asks for it. Columns bear the names
        of datasets (one stage), of stages (several, each with one dataset) or of both; with several quantities, theirs
        as well.
        """
        shown = {stage: [scope.quantity(each, stage) for each in self.columns_shown(stage)] for stage in scope.stages}
        quantities = list({each.name: each for of_stage in shown.values() for each in of_stage}.values())
        grids = {stage: _runs(scope, stage, of_stage) for stage, of_stage in shown.items()}
        grid = pd.concat(grids.values())
        several = (repetitions(grid, ["stage", "dataset", "row"]) > 1).any()
        published = published_runs(scope.published) if scope.published else pd.DataFrame()
        frame, printed, notes, beside_ours = pd.DataFrame({MODEL: scope.models}), {}, [], False
        for place, group, dataset in self.places(scope.stages):
            runs = grids[group[-1]][grids[group[-1]]["dataset"] == dataset].set_index(["row", "seed"])
            for column in self.columns_shown(group[-1]):
                each = scope.quantity(column, group[-1], dataset)
                for other, values, form in self._numbers(scope, column, each, group, dataset, runs):
                    key = Key(place if len(quantities) == 1 else (*place, each.name))
                    of_rows, name, decimals = values.reindex(scope.models), each.name, each.printed
                    if column.startswith("parameters_") and of_rows.isna().all(axis=None):
                        continue  # a part of the weights that no model has
                    if other is not None:
                        key, decimals = Key((*key.parts, "against", other)), form.decimals
                        name = PRINTED_DIFFERENCES.get((column, other), "")
                    frame[key] = of_rows.mean(axis=1).to_numpy()
                    printed[key] = replace(form, label=f"{'/'.join(place)} {form.label}")
                    if each.score and several:
                        frame[key.sd] = of_rows.std(axis=1).to_numpy()
                    if other and frame[key][frame[MODEL] != other].isna().any():
                        notes = [GAPS]
                    if name in published:
                        rows = pd.MultiIndex.from_product([["+".join(group)], scope.models, [dataset]])
                        if (theirs := published[name].reindex(rows)).notna().any():
                            beside = Key((*key.parts, PUBLISHED))
                            frame[beside], beside_ours = theirs.to_numpy(), True
                            printed[beside] = Column(f"{printed[key].label}, published", decimals)
        if QUANTITIES["memory"] in quantities:
            kinds = grid.groupby("row")["peak_memory_kind"].agg(lambda kind: ", ".join(sorted(set(kind))))
            frame[KIND] = kinds.reindex(scope.models).to_numpy()
        if beside_ours:
            notes.append(note(str(scope.published), grid, [each.name for each in quantities]))
        return Table(frame, printed, " ".join(notes) or None)

    def _numbers(
        self, scope: Scope, column: str, each: Quantity, group: Sequence[str], dataset: str, runs: pd.DataFrame
    ) -> Iterator[tuple[str | None, pd.DataFrame, Column]]:
        """Yield the numbers of a quantity by row and seed, then their differences from other models, with these."""
        made = runs["original"].unstack("seed")
        owners = {row: scope.owner(group[-1], row, dataset) for row in made.index}
        values = each.factor * runs[each.source].astype(float).unstack("seed")
        if len(group) > 1:
            totals = scope.totals(each.source, group, list(owners), COSTS[column].how, group[-1])
            values = each.factor * totals.loc[dataset].unstack("seed")
        yield None, _once(values, made) if each.score else values, Column(each.label, each.decimals)
        for other in [row for row in dict.fromkeys([scope.reference, scope.baseline]) if row in owners]:
            apart = [row for row in owners if owners[row] != owners[other]]
            if each.score:
                form = Column(each.difference_label(f"against {other}"), each.decimals, signed=True)
                yield other, _once(values.loc[apart] - values.loc[other], made + made.loc[other]), form
            else:
                form = Column(f"{each.label.partition(' [')[0]} against {other} [%]", 1, signed=True)
                yield other, relative_cost(scope, column, group, apart, group[-1], other).loc[dataset].to_frame(), form


def _runs(scope: Scope, stage: str, quantities: Sequence[Quantity]) -> pd.DataFrame:
    """Return the runs of a stage, also of those that others are compared with; parts of a model need not be there."""
    compared = [row for row in (scope.reference, scope.baseline) if row in scope.owners[stage]]
    rows = list(dict.fromkeys([*scope.models, *filter(None, compared)]))
    grid = scope.grid(stage, [each.source for each in quantities if not each.of_part], rows)
    return grid.reindex(columns=list(dict.fromkeys([*grid, *(each.source for each in quantities)])))


def _once(values: pd.DataFrame, made: pd.DataFrame) -> pd.DataFrame:
    """Return values by row and seed without repetitions of the same evaluation."""
    return values.mask(made.apply(pd.Series.duplicated, axis=1))
