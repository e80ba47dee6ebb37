"""What a table or figure is about: whose runs, on what data. The workflow passes it on; see `Plan.scope`."""

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from lib.core.search_space import Setting, variant_name
from lib.results.quantities import STATE, Quantity, quantity
from lib.results.records import load_geometries, load_histories, load_runs, select_grid


@dataclass(frozen=True)
class Scope:
    """The models, stages and datasets of a table or figure, with the files that it is made from."""

    models: Sequence[str]
    """Rows, in order."""
    stages: Mapping[str, Sequence[str]]
    """Datasets of each stage, in order."""
    owners: Mapping[str, Mapping[str, str | Mapping[str, str]]]
    """By stage and row the model that names the runs, since models that are the same up to a stage share them: one for
    all datasets, or one by dataset. A row that does not pass a stage is left out there, and so is a dataset on which it
    has no run. Reference and baseline are there even if they are no rows."""
    families: Mapping[str, str] = field(default_factory=dict)
    """What colours each row in figures."""
    groups: Mapping[str, str] = field(default_factory=dict)
    """What the groups of a dataset's documents are called."""
    group_names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """What each group is called, by its number from 0, where numbers are names and no quantities."""
    state_bytes: Mapping[str, Mapping[str, Mapping[str, int]]] = field(default_factory=dict)
    """Bytes that a row keeps of a text as long as a dataset's longest, by stage, dataset and row (`lib.backbones`)."""
    variants: Mapping[str, Sequence[Mapping[str, Setting]]] = field(default_factory=dict)
    """Settings of the variants of each stage that has some, in order."""
    reference: str | None = None
    """Row that the others are compared with."""
    baseline: str | None = None
    """Model without a training loop that all others should surpass, if it passes the stages that are shown."""
    published: str | None = None
    """Study whose printed values are put beside ours."""
    tokenised: Sequence[tuple[str, str]] = ()
    """Corpus and tokeniser of each of `files`, if these are statistics of tokenised texts."""
    documents: Sequence[tuple[str, Sequence[str]]] = ()
    """Dataset and names of its classes for each of `files`, if these are test documents."""
    word_vectors: Sequence[tuple[str, int | None]] = ()
    """Name and seed of the word vectors in each of `files`, if these are folders of such; no seed = of a file."""
    texts: Sequence[str] = ()
    """Dataset of each of the last of `files`, if these describe texts."""
    files: Sequence[str | Path] = ()
    """The record of every run, statistics of tokenised texts, documents, or word vectors; then descriptions of
    texts."""

    @functools.cached_property
    def runs(self) -> pd.DataFrame:
        """All runs, as `lib.results.records.load_runs` gives them."""
        return load_runs(Path(file).parent for file in self.files[: len(self.files) - len(self.texts)])

    @property
    def descriptions(self) -> dict[str, str | Path]:
        """The description of each dataset's texts (`lib.results.texts`)."""
        return dict(zip(self.texts, self.files[len(self.files) - len(self.texts) :], strict=True))

    @functools.cached_property
    def histories(self) -> pd.DataFrame:
        """One row per epoch of every run, as `lib.results.records.load_histories` gives them."""
        return load_histories(self.runs)

    @functools.cached_property
    def geometries(self) -> pd.DataFrame:
        """What the runs measured of attention, as `lib.results.records.load_geometries` gives it."""
        return load_geometries(self.runs)

    @property
    def trained(self) -> list[str]:
        """The rows without the baseline."""
        return [model for model in self.models if model != self.baseline]

    def quantity(self, column: str, stage: str) -> Quantity:
        """Return what tables call `column`, as it is of the runs of a stage: F1 may be that of characters."""
        runs = self.runs
        scores = set(runs.loc[runs["stage"] == stage, "score"].dropna()) if "score" in runs else set()
        return quantity(column).of(scores.pop() if len(scores) == 1 else "f1_macro")

    def grid(self, stage: str, columns: Iterable[str] = (), models: Sequence[str] | None = None) -> pd.DataFrame:
        """Return the runs of a stage for every row, dataset, variant and seed, with the row under `row`.

        A row that is not made for a dataset has no runs there.

        Args:
            stage: name of the stage.
            columns: columns that each run needs a value in, unless it has no training loop; the state size of its
                model, which is in no record, is there if the scope knows it.
            models: rows; None = all that pass the stage.

        Raises:
            DataError: runs are missing, lack a value, or exist twice; all of them are named.
        """
        cells = [
            (row, dataset, owner)
            for row in models or self.models
            for dataset, owner in self.made_for(stage, row).items()
        ]
        rows = pd.DataFrame(cells, columns=["row", "dataset", "model"])
        wanted = {dataset: rows["model"][rows["dataset"] == dataset].unique() for dataset in self.stages[stage]}
        variants = [variant_name(settings) for settings in self.variants.get(stage, [{}])]
        found = select_grid(self.runs, stage, wanted, [each for each in columns if each != STATE], variants)
        grid = rows.merge(found, on=["dataset", "model"])
        if stage in self.state_bytes:
            sizes, places = self.state_bytes[stage], zip(grid["dataset"], grid["row"], strict=True)
            grid[STATE] = [sizes[dataset][row] for dataset, row in places]
        return grid

    def made_for(self, stage: str, row: str) -> dict[str, str]:
        """Return the shown datasets on which a row has runs of a stage, each with the model that names them."""
        owners = self.owners[stage].get(row, {})
        return {
            dataset: owner
            for dataset in self.stages[stage]
            if (owner := owners if isinstance(owners, str) else owners.get(dataset)) is not None
        }

    def totals(
        self,
        column: str,
        stages: Sequence[str],
        models: Sequence[str] | None = None,
        how: Literal["sum", "max"] = "sum",
    ) -> pd.Series:
        """Return a column over stages as one; a stage that a row does not pass, or without a dataset, adds nothing.

        Seeds are those of the last stage. An earlier one that lacks a seed adds its first one, as the runs of the later
        stage start from it.

        Args:
            column: a column of the runs.
            stages: names of the stages.
            models: rows; None = all.
            how: what becomes of the values of several stages: times add up, of peaks the greatest counts.

        Returns:
            Sums, or greatest values, by `dataset`, `row` and `seed`; NaN where no stage has a value.
        """
        cells = pd.concat(self.grid(stage, [column], models) for stage in stages).groupby(["dataset", "row"])
        together = {place: _together(runs, column, how) for place, runs in cells}
        return pd.concat(together, names=["dataset", "row", "seed"])


def scope(fields: Mapping[str, Any], files: Sequence[str | Path]) -> Scope:
    """Return the scope of `fields` from JSON, which keeps no order of keys: `stages` are pairs, in order.

    So are the settings of each variant.
    """
    ordered = {row: fields["families"][row] for row in fields["models"]} if "families" in fields else {}
    variants = {stage: [*map(dict, settings)] for stage, settings in fields.get("variants", {}).items()}
    stages = dict(fields["stages"])
    return Scope(**{**fields, "stages": stages, "families": ordered, "variants": variants, "files": files})


def _together(runs: pd.DataFrame, column: str, how: Literal["sum", "max"]) -> pd.Series:
    """Return a column over the stages of one row and dataset as one, by the seeds of the last stage."""
    of_stages = [stage.set_index("seed")[column] for _, stage in runs.groupby("stage", sort=False)]
    seeds = of_stages[-1].index
    values = pd.DataFrame([[each.get(seed, each.iloc[0]) for each in of_stages] for seed in seeds], index=seeds)
    return values.sum(axis=1, min_count=1) if how == "sum" else values.max(axis=1)
