"""The runs and data that a table or figure shows, as `lib.workflow.planning.report.Report` collects them."""

import functools
from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from lib.core import program
from lib.core.kinds import Axis
from lib.core.record import HISTORY
from lib.core.search_space import Setting, variant_name
from lib.results.quantities import STATE, Quantity, quantity
from lib.results.records import load_runs, load_tables, pooled, select_grid

How = Literal["sum", "max"]
"""What becomes of the values of several stages: times add up, of peaks the greatest counts."""


@dataclass(frozen=True)
class Scope:
    """The models, stages and datasets of a table or figure, with the files that it is made from."""

    models: Sequence[str]
    """Rows, in order."""
    stages: Mapping[str, Sequence[str]]
    """Datasets of each stage, in order."""
    owners: Mapping[str, Mapping[str, Mapping[str, str]]]
    """The model that names the runs, by stage, row and dataset, since models that are the same up to a stage share
    them. A row that does not pass a stage is left out there, and so is a dataset on which it has no run. Reference and
    baseline are there even if they are no rows."""
    row_of: Mapping[str, str] = field(default_factory=dict)
    """The row of each model that has the same runs as an earlier one: that model's row."""
    origins: Mapping[str, Mapping[str, Mapping[str, Mapping[str, Sequence[Any]]]]] = field(default_factory=dict)
    """Runs of shown stages that those of a row start from, directly or not, by stage, row, dataset and their own stage:
    the model that names them, the entry of its `data`, and pairs of the later seed and theirs where these differ."""
    one_start: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)
    """Datasets where seeds of a row start from the same weights, directly or not, by stage and row: fewer runs than
    seeds at an earlier stage, or published weights."""
    families: Mapping[str, str] = field(default_factory=dict)
    """Family of each row, which sets its colour in figures."""
    groups: Mapping[str, str] = field(default_factory=dict)
    """Name of the groups of documents, by dataset."""
    group_names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Names of the groups by their numbers from 0, where numbers are no quantities, by dataset."""
    state_bytes: Mapping[str, Mapping[str, Mapping[str, int]]] = field(default_factory=dict)
    """Bytes that a row keeps of a text as long as a dataset's longest, by stage, dataset and row (`lib.backbones`)."""
    folds: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Datasets whose runs are joined as those of one dataset, by its name, under which `stages` and `owners` have it.
    """
    variants: Mapping[str, Sequence[Mapping[str, Setting]]] = field(default_factory=dict)
    """Settings of the variants of each stage that has some, in order."""
    reference: str | None = None
    """Row that the others are compared with."""
    baseline: str | None = None
    """Model without a training loop that all others should surpass, if it passes the stages that are shown."""
    published: str | None = None
    """Study whose printed values are compared with ours."""
    tokenised: Sequence[tuple[str, str]] = ()
    """Corpus and tokeniser of each of `files`, if these are statistics of tokenised texts."""
    documents: Sequence[tuple[str, Sequence[str], str]] = ()
    """Dataset, names of its classes, and split for each of `files`, if these are documents."""
    word_vectors: Sequence[tuple[str, int | None]] = ()
    """Name and seed of the word vectors in each of `files`, if these are folders of such; no seed = of a file."""
    explained: Mapping[str, str] = field(default_factory=dict)
    """Meaning of the names of rows, for those that the study describes."""
    generated: Sequence[str] = ()
    """Corpora and datasets whose texts are generated, whatever their names say."""
    texts: Sequence[str] = ()
    """Dataset of each of the last of `files`, if these describe texts."""
    written: Sequence[str] = ()
    """Dataset of each of the last of `files`, if these are test documents in addition to the runs."""
    files: Sequence[str | Path] = ()
    """The record of every run, statistics of tokenised texts, documents, or word vectors; then descriptions of
    texts, or test documents."""

    @functools.cached_property
    def runs(self) -> pd.DataFrame:
        """All runs, as `lib.results.records.load_runs` gives them, those of folds joined."""
        records = self.files[: len(self.files) - len(self.texts or self.written)]
        return pooled(load_runs(Path(file).parent for file in records), self.folds)

    @property
    def descriptions(self) -> dict[str, str | Path]:
        """The description of each dataset's texts (`studies.hate_speech.results.kinds.texts`)."""
        return dict(zip(self.texts, self.files[len(self.files) - len(self.texts) :], strict=True))

    @functools.cached_property
    def histories(self) -> pd.DataFrame:
        """One row per evaluation of every run, as `lib.results.records.load_tables` gives them."""
        return load_tables(self.runs, HISTORY)

    @property
    def trained(self) -> list[str]:
        """The rows without the baseline."""
        return [model for model in self.models if model != self.baseline]

    def quantity(self, column: str, stage: str, dataset: str | None = None) -> Quantity:
        """Return what tables call `column`, as it is of the runs of a stage: F1 may be one of several metrics.

        Args:
            column: as in the settings of tables.
            stage: name of the stage.
            dataset: the only one whose runs count; None = all that are shown. If their F1 are several metrics, the
                label names each with its datasets.
        """
        if "score" not in self.runs:
            return quantity(column)
        shown = self.stages[stage] if dataset is None else [dataset]
        runs = self.runs[(self.runs["stage"] == stage) & self.runs["dataset"].isin(shown)]
        return quantity(column).of(runs.dropna(subset="score").set_index("dataset")["score"].to_dict())

    def grid(self, stage: str, columns: Iterable[str] = (), models: Sequence[str] | None = None) -> pd.DataFrame:
        """Return the runs of a stage for every row, dataset, variant and seed, with the row under `row`.

        A row that is not made for a dataset has no runs there. `one_start`: whether seeds of the row share a start.

        Args:
            stage: name of the stage.
            columns: columns that each run needs a value in, unless it has no training loop; the state size of its
                model, which is in no record, is there if the scope knows it.
            models: rows; None = all that pass the stage.

        Raises:
            DataError: runs are missing, lack a value, or exist twice; all of them are named.
        """
        shown = self.models if models is None else models
        cells = [(row, dataset, owner) for row in shown for dataset, owner in self.made_for(stage, row).items()]
        rows = pd.DataFrame(cells, columns=["row", "dataset", "model"])
        wanted = {dataset: rows["model"][rows["dataset"] == dataset].unique() for dataset in self.stages[stage]}
        variants = [variant_name(settings) for settings in self.variants.get(stage, [{}])]
        found = select_grid(self.runs, stage, wanted, [each for each in columns if each != STATE], variants)
        grid = rows.merge(found, on=["dataset", "model"])
        places, shared = list(zip(grid["dataset"], grid["row"], strict=True)), self.one_start.get(stage, {})
        grid["one_start"] = pd.Series([dataset in shared.get(row, ()) for dataset, row in places], dtype=bool)
        if stage in self.state_bytes:
            grid[STATE] = [self.state_bytes[stage][dataset][row] for dataset, row in places]
        return grid

    def made_for(self, stage: str, row: str) -> dict[str, str]:
        """Return the shown datasets where a row has runs of a stage, each with the model that names them."""
        owners = {dataset: self.owner(stage, row, dataset) for dataset in self.stages[stage]}
        return {dataset: owner for dataset, owner in owners.items() if owner is not None}

    def row(self, model: str) -> str:
        """Return the row of a model: its own, or that of the model that shares all its runs."""
        return self.row_of.get(model, model)

    @property
    def note(self) -> str | None:
        """Sentences on generated texts, folds, names of rows, and models without a row; None if there are none."""
        same = [f"{model} (as {row})" for model, row in self.row_of.items()]
        rows = f"Models without a row, since they have the same runs as another: {', '.join(same)}." if same else None
        names = "; ".join(f"{row}: {text}" for row, text in self.explained.items())
        parts = [generated_note(self.generated), *map(self._folds_note, self.folds), names and f"{names}.", rows]
        return " ".join(filter(None, parts)) or None

    def _folds_note(self, dataset: str) -> str:
        """Return a sentence on the folds of a dataset."""
        said = f"{dataset}: the test documents of {len(self.folds[dataset])} folds, each once, as predicted by the run"
        return f"{said} that did not learn from it. Intervals leave out that these runs share training documents."

    def title(self, dataset: str) -> str:
        """Return the title of the panel of a dataset."""
        return f"{dataset} (generated)" if dataset in self.generated else dataset

    def owner(self, stage: str, row: str, dataset: str) -> str | None:
        """Return the model that names the runs of a row at a stage on a dataset; None = it has none there."""
        return self.owners[stage].get(row, {}).get(dataset)

    def trainings(self, column: str, stages: Sequence[str], models: Sequence[str], of: str) -> pd.DataFrame:
        """Return the runs whose costs add up to those of each row on each dataset.

        At every one of `stages` that is the run from which the row's run starts, directly or not, such as a pretraining
        on a corpus; or else the row's own run of that stage on the same dataset: that of the same seed, or of its
        first one.

        Args:
            column: column that each run with a training loop needs a value in.
            stages: names of the stages.
            models: rows.
            of: stage whose runs are priced.

        Returns:
            The columns of the runs, with `row`, and with `dataset` and `seed` of the run that is priced.

        Raises:
            DataError: see `grid`.
        """
        counted = []
        for row in models:
            for dataset, owner in self.made_for(of, row).items():
                behind = [found for stage in stages if (found := self._behind(of, row, dataset, stage))]
                counted += [(row, dataset, (of, owner, dataset), *found) for found in behind]
        wanted: dict[str, dict[str, list[str]]] = {}
        for *_, priced_run, run, _ in counted:
            for stage, owner, entry in (priced_run, run):
                wanted.setdefault(stage, {}).setdefault(entry, []).append(owner)
        cells = {
            (stage, *place): cell.set_index("seed", drop=False)
            for stage, owners in wanted.items()
            for place, cell in select_grid(self.runs, stage, owners, [column]).groupby(["model", "dataset"])
        }
        parts = [self.runs.iloc[:0].assign(row=[])]
        for row, dataset, priced_run, run, seeds in counted:
            later, cell = cells[priced_run].index, cells[run]
            chosen = [seeds.get(seed, seed if seed in cell.index else cell.index[0]) for seed in later]
            parts.append(cell.loc[chosen].assign(row=row, dataset=dataset, seed=later.to_numpy()))
        return pd.concat(parts, ignore_index=True)

    def totals(self, column: str, stages: Sequence[str], models: Sequence[str], how: How, of: str) -> pd.Series:
        """Return a column over stages as one, of the runs that `trainings` returns.

        Args:
            column: see `trainings`, as of `stages`, `models` and `of`.
            stages: names of the stages.
            models: rows.
            how: what becomes of the values of several stages.
            of: stage whose runs are priced.

        Returns:
            Sums, or greatest values, by `dataset`, `row` and `seed`; NaN where no stage has a value.
        """
        cells = self.trainings(column, stages, models, of).groupby(["dataset", "row", "seed"], sort=False)[column]
        return cells.sum(min_count=1) if how == "sum" else cells.max()

    def _behind(self, of: str, row: str, dataset: str, stage: str) -> tuple[tuple[str, ...], dict[int, int]] | None:
        """Return the runs of a stage behind those of a row at the stage that is priced.

        Returns:
            Stage, model and entry of these runs; and by seed of the priced run their seed, where it is another one.
        """
        if origin := self.origins.get(of, {}).get(row, {}).get(dataset, {}).get(stage):
            owner, entry, seeds = origin
            return (stage, owner, entry), dict(seeds)
        made = self.made_for(stage, row)
        return ((stage, made[dataset], dataset), {}) if dataset in made else None


def generated_note(names: Sequence[str]) -> str | None:
    """Return a sentence on data whose texts are generated; None if there are none."""
    return f"Generated texts, not published corpora: {', '.join(names)}." if names else None


def scope(fields: Mapping[str, Any], files: Sequence[str | Path]) -> Scope:
    """Return the scope of `fields` from JSON, which keeps no order of keys: `stages` are pairs, in order.

    So are the settings of each variant.
    """
    ordered = {row: fields["families"][row] for row in fields["models"]} if "families" in fields else {}
    variants = {stage: [*map(dict, settings)] for stage, settings in fields.get("variants", {}).items()}
    stages = dict(fields["stages"])
    return Scope(**{**fields, "stages": stages, "families": ordered, "variants": variants, "files": files})


def result_arguments(axis: Axis[Any], noun: str, documentation: str | None, argv: Sequence[str] | None) -> Namespace:
    """Return the arguments of a program that makes one result from the records of runs.

    Args:
        axis: of the result's kinds.
        noun: `table` or `figure`, also the name of the option that describes it.
        documentation: of the program.
        argv: its arguments; None = those of the command line.

    Returns:
        `settings` (typed), `scope`, `records` and `out` (paths).
    """
    parser = program.parser(documentation)
    files: dict[str, Any] = {"required": True, "nargs": "+", "metavar": "FILE"}
    parser.add_argument(f"--{noun}", required=True, type=program.json_value, metavar="JSON", help="what it shows")
    parser.add_argument("--records", **files, help="run.json of each run, or files on texts")
    parser.add_argument("--out", **files, help="files to write, in the format that each suffix names")
    arguments = parser.parse_args(argv)
    shown = getattr(arguments, noun)
    arguments.settings = axis.parse(shown["settings"])
    arguments.scope = scope(shown["scope"], arguments.records)
    return arguments
