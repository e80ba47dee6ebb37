"""Costs and scores of the runs of one or several stages: a row per model."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal

import pandas as pd
from pydantic import Field

from lib.core.settings import check
from lib.results.predictions import without_copies
from lib.results.printed_values import note, published_runs
from lib.results.quantities import QUANTITIES, Quantity, quantity
from lib.results.scope import Scope
from lib.results.settings import MODEL, TableSettings, Topic
from lib.results.table import Column, Key, Table

KIND = "memory_kind"
PUBLISHED = "published"


class StageTable(TableSettings):
    """One row per model, columns by dataset, or by stage and dataset."""

    kind: Literal["stage"] = "stage"
    stage: str | list[str] = Field(
        min_length=1, description="Stage whose runs it shows, or several, side by side, for models that pass them all."
    )
    columns: list[str] | dict[str, list[str]] = Field(
        min_length=1,
        description="What it shows of each run, or of the runs of each stage: `memory`, `minutes` (of an epoch), "
        "`total_minutes`, `hours`, `lora_rank`, `loss`, `f1` (macro-F1; of spans, that of characters), "
        "`validation_f1`, `accuracy`, `validation_accuracy`, `sequence_accuracy`, `matthews`, of numbers `pearson` and "
        "`spearman` (each of these three also as `validation_...`), `parameters`, `trained` (weights), "
        "`trained_share`, `epochs`, `approximated` (training documents longer than the mechanism reads exactly), "
        "`state_size` (what a model keeps of a text), or a metric of the record.",
    )

    @check
    def _stages_are_distinct(self) -> Iterator[str]:
        if len(set(stages := self.stages_passed())) < len(stages):
            yield f"stage = {self.stage} names a stage twice. Name each once"

    @check
    def _columns_are_of_its_stages(self) -> Iterator[str]:
        if isinstance(self.columns, dict) and set(self.columns) != set(stages := self.stages_passed()):
            yield f"columns are of {', '.join(self.columns)}, not of {', '.join(stages)}. Give each stage its columns"

    @property
    def topic(self) -> Topic:
        """Scores, or without any, costs; see the base."""
        columns = [column for stage in self.stages_passed() for column in self.columns_shown(stage)]
        if all(column == "loss" or not quantity(column).score for column in columns):
            return "training" if "loss" in columns else "cost"
        return "scores"

    @property
    def needs_state(self) -> bool:
        """See the base."""
        return any("state_size" in self.columns_shown(stage) for stage in self.stages_passed())

    def make(self, scope: Scope) -> Table:
        """Return one row per model: for each stage and dataset the quantities asked for.

        Figures are means over the seeds; scores have a standard deviation when there is more than one seed.
        With memory, `memory_kind` says what kind was measured, `gpu` or `resident`; next to what the study published
        stands its value, if the report asks for it. Columns bear the names of datasets (one stage), of stages (several,
        each with one dataset) or of both; with several quantities, theirs as well.
        """
        shown = {stage: [scope.quantity(each, stage) for each in self.columns_shown(stage)] for stage in scope.stages}
        quantities = list({each.name: each for of_stage in shown.values() for each in of_stage}.values())
        grid = pd.concat(scope.grid(stage, [each.source for each in of_stage]) for stage, of_stage in shown.items())
        cell = ["row", "stage", "dataset"]
        costs, scores = grid.groupby(cell), without_copies(grid).groupby(cell)
        published = pd.DataFrame()
        if scope.published:
            published = published_runs(scope.published).reorder_levels(["model", "stage", "dataset"])
        frame, printed = pd.DataFrame({MODEL: scope.models}), {}
        for stage, dataset in [(stage, dataset) for stage, datasets in scope.stages.items() for dataset in datasets]:
            place = _place(stage, dataset, scope.stages)
            rows = pd.MultiIndex.from_product([scope.models, [stage], [dataset]])
            for each in [scope.quantity(column, stage, dataset) for column in self.columns_shown(stage)]:
                key, label = _key(place, each, quantities), f"{'/'.join(place)} {each.label}"
                values = (scores if each.score else costs)[each.source]
                frame[key] = values.mean().reindex(rows).to_numpy() * each.factor
                printed[key] = Column(label, each.decimals)
                if each.score and (scores.size() > 1).any():
                    frame[key.sd] = values.std().reindex(rows).to_numpy() * each.factor
                if each.name in published:
                    values = published[each.name].reindex(rows)
                    if values.notna().any():
                        frame[_published(key)] = values.to_numpy()
                        printed[_published(key)] = Column(f"{label}, published", each.printed)
        if QUANTITIES["memory"] in quantities:
            kinds = grid.groupby("row")["peak_memory_kind"].agg(lambda kind: ", ".join(sorted(set(kind))))
            frame[KIND] = kinds.reindex(scope.models).to_numpy()
        footnote = None
        if scope.published and any(key.parts[-1] == PUBLISHED for key in printed):
            footnote = note(scope.published, grid, [each.name for each in quantities])
        return Table(frame, printed, footnote)


def _place(stage: str, dataset: str, stages: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return the names that the columns of a stage on a dataset have."""
    if len(stages) == 1:
        return (dataset,)
    if all(len(datasets) == 1 for datasets in stages.values()):
        return (stage,)
    return stage, dataset


def _key(place: tuple[str, ...], shown: Quantity, quantities: Collection[Quantity]) -> Key:
    """Return the label of the column of a quantity, one of those that the table shows."""
    return Key(place if len(quantities) == 1 else (*place, shown.name))


def _published(key: Key) -> Key:
    """Return the label of the column of the published values."""
    return Key((*key.parts, PUBLISHED))
