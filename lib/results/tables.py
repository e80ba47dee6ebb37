"""The tables of a study, from run records alone. Each is one frame, written as CSV and as Markdown."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from lib.core.errors import DataError
from lib.core.files import read_mapping, write_text
from lib.core.record import CONFIG, PREDICTIONS
from lib.evaluation.metrics import class_report
from lib.results.groups import accuracy_by_group
from lib.results.published import NOTE, published
from lib.results.records import select_grid

SCORES = {"precision": "precision", "recall": "recall", "f1": "F1"}
STATISTICS = ("documents", "mean", "std", "median", "min", "max")


@dataclass(frozen=True)
class Column:
    """How a column of numbers is printed."""

    label: str
    decimals: int


@dataclass(frozen=True)
class Table:
    """A table: unrounded numbers, and how they are printed."""

    frame: pd.DataFrame
    """Columns that are not in `columns` are text, or the standard deviation (`<column>_sd`) of another."""
    columns: Mapping[str, Column]
    note: str | None = None
    """Sentence under the Markdown table."""

    def write(self, csv: str | Path, markdown: str | Path) -> None:
        """Write the table to the two files, each atomically."""
        write_text(csv, self.to_csv())
        write_text(markdown, self.to_markdown())

    def to_csv(self) -> str:
        """Return the table as CSV, rounded as printed, with a standard deviation in a column of its own."""
        text = {
            name: self._printed(name, name.removesuffix("_sd") if self._is_deviation(name) else name, missing="")
            for name in self.frame
        }
        return pd.DataFrame(text).to_csv(index=False, lineterminator="\n")

    def to_markdown(self) -> str:
        """Return the table as Markdown, a standard deviation behind its mean."""
        shown = [name for name in self.frame if not self._is_deviation(name)]
        text = {}
        for name in shown:
            cells = self._printed(name, name, missing="-")
            if f"{name}_sd" in self.frame:
                deviations = self._printed(f"{name}_sd", name, missing="")
                cells = [f"{cell} ± {sd}" if sd else cell for cell, sd in zip(cells, deviations, strict=True)]
            text[self.columns[name].label if name in self.columns else name.replace("_", " ")] = cells
        alignment = ["right" if name in self.columns else "left" for name in shown]
        lines = pd.DataFrame(text).to_markdown(index=False, disable_numparse=True, colalign=alignment)
        return f"{lines}\n" + (f"\n{self.note}\n" if self.note else "")

    def _is_deviation(self, name: str) -> bool:
        return name not in self.columns and name.removesuffix("_sd") in self.columns

    def _printed(self, name: str, format_of: str, missing: str) -> list[str]:
        if format_of not in self.columns:
            return self.frame[name].tolist()
        decimals = self.columns[format_of].decimals
        return [missing if pd.isna(value) else f"{value:.{decimals}f}" for value in self.frame[name]]


@dataclass(frozen=True)
class Quantity:
    """A number of every run, as the tables show it."""

    source: str
    """Column of the run records."""
    name: str
    """Column of the tables and of the published values."""
    label: str
    factor: float
    decimals: int
    printed: int
    """Decimals that the study printed."""
    score: bool = False
    """Whether it is a result, whose spread over seeds is of interest."""


QUANTITIES = {
    "memory": Quantity("peak_memory_mb", "peak_memory_gib", "memory [GiB]", 1 / 1024, 2, 2),
    "minutes": Quantity("seconds_per_epoch", "minutes_per_epoch", "time [min/epoch]", 1 / 60, 3, 2),
    "total_minutes": Quantity("training_seconds", "minutes", "time [min]", 1 / 60, 2, 2),
    "loss": Quantity("train_loss", "loss", "loss", 1, 3, 3, score=True),
    "f1": Quantity("test_f1_macro", "f1_macro_percent", "F1 [%]", 100, 2, 2, score=True),
    "accuracy": Quantity("test_accuracy", "accuracy_percent", "accuracy [%]", 100, 2, 2, score=True),
    "sequence_accuracy": Quantity(
        "test_sequence_accuracy", "sequence_accuracy_percent", "sequence accuracy [%]", 100, 2, 2, score=True
    ),
    "parameters": Quantity("parameters_total", "parameters", "parameters", 1, 0, 0),
}


def quantity(column: str) -> Quantity:
    """Return the quantity called `column`: one of `QUANTITIES`, or a metric of the run records as it is."""
    return QUANTITIES.get(column) or Quantity(column, column, column.replace("_", " "), 1, 4, 4, score=True)


def token_lengths_table(lengths: Mapping[tuple[str, str], str | Path]) -> Table:
    """Return one row per split, or part of one cut to its own length: documents, and statistics of their tokens.

    Args:
        lengths: JSON file by corpus and tokeniser: `{split: {documents, mean, std, median, min, max}}`, where the
            statistics of no documents are null. With a single tokeniser, its name is left out.

    Raises:
        DataError: a file is missing or lacks a figure.
    """
    rows = []
    for (corpus, tokenizer), path in lengths.items():
        try:
            rows += [
                {"corpus": corpus, "tokenizer": tokenizer, "split": split} | {name: entry[name] for name in STATISTICS}
                for split, entry in json.loads(Path(path).read_text(encoding="utf-8")).items()
            ]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path}: not token lengths ({error!r}). Tokenise {corpus} again.") from error
    columns = {name: Column(name, 1 if name in ("mean", "std", "median") else 0) for name in STATISTICS}
    frame = pd.DataFrame(rows, columns=["corpus", "tokenizer", "split", *STATISTICS])
    return Table(frame if frame["tokenizer"].nunique() > 1 else frame.drop(columns="tokenizer"), columns)


def stage_table(
    runs: pd.DataFrame,
    stages: Mapping[str, Sequence[str]],
    columns: Sequence[str],
    models: Sequence[str],
    *,
    owners: Mapping[str, Mapping[str, str]] | None = None,
    show_published: bool = False,
) -> Table:
    """Return one row per model: for each stage and dataset the quantities asked for.

    Figures are means over the seeds; scores have a standard deviation beside them when there is more than one seed.
    Beside memory, `memory_kind` says what kind was measured, `gpu` or `resident`. Columns bear the names of datasets
    (one stage), of stages (several, each with one dataset) or of both; with several quantities, theirs as well.

    Args:
        runs: frame of `lib.results.records.load_runs`.
        stages: datasets of each stage: groups of columns, in order.
        columns: quantities, see `quantity`.
        models: rows, in order.
        owners: for each stage and model the model that names the runs, since models that are the same up to a stage
            share them; None = each model its own.
        show_published: put the study's printed values beside ours.

    Raises:
        DataError: a run is missing, incomplete or there twice.
    """
    quantities = [quantity(column) for column in columns]
    grid = _grid(runs, stages, models, owners, [each.source for each in quantities])
    cells = grid.groupby(["row", "stage", "dataset"])
    several_seeds = cells.size().max() > 1
    frame, printed = pd.DataFrame({"model": models}), {}
    for stage, dataset in [(stage, dataset) for stage, datasets in stages.items() for dataset in datasets]:
        place, place_label = _place(stage, dataset, stages)
        rows = pd.MultiIndex.from_product([models, [stage], [dataset]])
        for each in quantities:
            name = place if len(quantities) == 1 else f"{place}_{each.name}"
            label = f"{place_label} {each.label}"
            values = cells[each.source]
            frame[name] = values.mean().reindex(rows).to_numpy() * each.factor
            printed[name] = Column(label, each.decimals)
            if each.score and several_seeds:
                frame[f"{name}_sd"] = values.std().reindex(rows).to_numpy() * each.factor
            if show_published and f"{each.name}_published" in grid:
                frame[f"{name}_published"] = cells[f"{each.name}_published"].first().reindex(rows).to_numpy()
                printed[f"{name}_published"] = Column(f"{label}, published", each.printed)
    if QUANTITIES["memory"] in quantities:
        kinds = grid.groupby("row")["peak_memory_kind"].agg(lambda kind: ", ".join(sorted(set(kind))))
        frame["memory_kind"] = kinds.reindex(models).to_numpy()
    return Table(frame, printed, NOTE if show_published and QUANTITIES["minutes"] in quantities else None)


def groups_table(runs: pd.DataFrame, stage: str, models: Sequence[str], dataset: str, group: str) -> Table:
    """Return accuracy on test in percent: one row per model, one column per group of documents, ascending.

    With more than one seed these are means, with a standard deviation beside them.

    Args:
        runs: frame of `lib.results.records.load_runs`.
        stage: name of the stage.
        models: rows, in order.
        dataset: name of the dataset.
        group: what the groups are called: `distance` gives `distance_16`, `distance_32`.

    Raises:
        DataError: a run is missing or there twice, or has no predictions by group.
    """
    scores = accuracy_by_group(runs, stage, models, dataset)
    frame, columns = pd.DataFrame({"model": models}), {}
    for number, each in scores.groupby("group"):
        name = f"{group}_{number}"
        of_models = each.droplevel("group").reindex(models)
        frame[name] = of_models["mean"].to_numpy()
        columns[name] = Column(f"{group} {number} [%]", 2)
        if scores["std"].notna().any():
            frame[f"{name}_sd"] = of_models["std"].to_numpy()
    return Table(frame, columns)


def classes_table(folders: Sequence[str | Path]) -> Table:
    """Return precision, recall and F1 on test in percent: one row per class, then accuracy and macro average.

    Args:
        folders: runs of one model on one dataset, of which the means over the seeds are shown.

    Raises:
        DataError: a run has no predictions, or no names of classes.
    """
    reports = [_class_scores(Path(folder)) for folder in folders]
    frame = pd.concat(reports).groupby("label", sort=False).mean().reset_index()
    columns = {name: Column(f"{label} [%]", 2) for name, label in SCORES.items()}
    frame[list(columns)] *= 100
    return Table(frame[["label", *columns, "support"]], {**columns, "support": Column("support", 0)})


def _class_scores(folder: Path) -> pd.DataFrame:
    path = folder / PREDICTIONS
    try:
        names = read_mapping(folder / CONFIG)["labels"]
        predictions = pd.read_parquet(path).query("split == 'test'")
        classes = pd.DataFrame(class_report(predictions["label"], predictions["prediction"], names))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}: no predictions of classes ({error!r}). Repeat the run.") from error
    support = classes["support"].sum()
    accuracy = (predictions["label"] == predictions["prediction"]).mean()
    macro = classes[list(SCORES)].mean().to_dict()
    summary = [
        # Over all documents, precision, recall and F1 of a single-label classification are all the accuracy.
        {"label": "accuracy", **dict.fromkeys(SCORES, accuracy), "support": support},
        {"label": "macro average", **macro, "support": support},
    ]
    return pd.concat([classes, pd.DataFrame(summary)], ignore_index=True)


def _grid(
    runs: pd.DataFrame,
    stages: Mapping[str, Sequence[str]],
    models: Sequence[str],
    owners: Mapping[str, Mapping[str, str]] | None,
    columns: Sequence[str],
) -> pd.DataFrame:
    """Return the runs of every row and stage, the row under `row`, the published values under `<name>_published`."""
    parts = []
    for stage, datasets in stages.items():
        rows = pd.DataFrame({"row": models, "model": [owners[stage][model] if owners else model for model in models]})
        parts.append(rows.merge(select_grid(runs, stage, rows["model"].unique(), datasets, columns), on="model"))
    key = ["stage", "model", "dataset"]
    printed = published().set_index(key).add_suffix("_published")
    return pd.concat(parts).join(printed, on=key)


def _place(stage: str, dataset: str, stages: Mapping[str, Sequence[str]]) -> tuple[str, str]:
    """Return what a group of columns is called: in the CSV, and in the Markdown table."""
    if len(stages) == 1:
        return dataset, dataset
    if all(len(datasets) == 1 for datasets in stages.values()):
        return stage, stage
    return f"{stage}_{dataset}", f"{stage}/{dataset}"
