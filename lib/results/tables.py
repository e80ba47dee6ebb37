"""The tables of the comparison, from run records alone. Each is one frame, written as CSV and as Markdown."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from lib.core.errors import DataError
from lib.core.files import write_text
from lib.results.published import NOTE, published
from lib.results.records import BASELINE, baseline_scores, select_grid

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


MEMORY = Quantity("peak_memory_mb", "peak_memory_gib", "memory [GiB]", 1 / 1024, 2, 2)
MINUTES = Quantity("seconds_per_epoch", "minutes_per_epoch", "time [min/epoch]", 1 / 60, 3, 2)
LOSS = Quantity("train_loss", "loss", "loss", 1, 3, 3, score=True)
F1 = Quantity("test_f1_macro", "f1_macro_percent", "F1 [%]", 100, 2, 2, score=True)


def token_lengths_table(lengths: Mapping[str, str | Path]) -> Table:
    """Return a row a split, or a part of one cut to its own length: documents, and statistics of their tokens.

    Args:
        lengths: JSON file of each corpus: `{split: {documents, mean, std, median, min, max}}`, where the statistics of
            no documents are null.

    Raises:
        DataError: a file is missing or lacks a figure.
    """
    rows = []
    for corpus, path in lengths.items():
        try:
            rows += [
                {"corpus": corpus, "split": split} | {name: entry[name] for name in STATISTICS}
                for split, entry in json.loads(Path(path).read_text(encoding="utf-8")).items()
            ]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path}: not token lengths ({error!r}). Tokenise {corpus} again.") from error
    columns = {name: Column(name, 1 if name in ("mean", "std", "median") else 0) for name in STATISTICS}
    return Table(pd.DataFrame(rows, columns=["corpus", "split", *STATISTICS]), columns)


def stage_table(
    runs: pd.DataFrame, stage: str, models: Sequence[str], datasets: Sequence[str], *, show_published: bool = False
) -> Table:
    """Return a row a model: for each dataset peak memory, minutes per epoch, and loss or macro-F1.

    Figures are means over the seeds; loss and F1 have a standard deviation beside them when there is more than one.
    `memory_kind` says what kind of memory was measured, `gpu` or `resident`.

    Args:
        runs: frame of `lib.results.records.load_runs`.
        stage: `pretrain`, `tapt` or `finetune`.
        models: rows, in order.
        datasets: groups of columns, in order.
        show_published: put the study's printed values beside ours.

    Raises:
        DataError: a run is missing, incomplete or there twice.
    """
    quantities = (MEMORY, MINUTES, F1 if stage == "finetune" else LOSS)
    grid = select_grid(runs, stage, models, datasets, [quantity.source for quantity in quantities])
    table = _grid_table(grid, stage, models, datasets, quantities, show_published)
    kinds = grid.groupby("model")["peak_memory_kind"].agg(lambda kind: ", ".join(sorted(set(kind))))
    return Table(table.frame.assign(memory_kind=kinds.reindex(models).to_numpy()), table.columns, table.note)


def f1_table(
    runs: pd.DataFrame,
    baselines: Mapping[str, Mapping],
    models: Sequence[str],
    datasets: Sequence[str],
    *,
    show_published: bool = False,
) -> Table:
    """Return test macro-F1 in percent: a row a model, the baseline first, and a column a dataset.

    Args:
        runs: frame of `lib.results.records.load_runs`.
        baselines: reports of `lib.results.records.load_baselines`.
        models: rows after the baseline, in order.
        datasets: columns, in order.
        show_published: put the study's printed values beside ours.

    Raises:
        DataError: a run or a baseline is missing, incomplete or there twice.
    """
    grid = select_grid(runs, "finetune", models, datasets, [F1.source])
    scores = baseline_scores(baselines, datasets)
    rows = [{"model": BASELINE, "dataset": dataset, F1.source: score} for dataset, score in scores.items()]
    grid = pd.concat([pd.DataFrame(rows), grid], ignore_index=True)
    return _grid_table(grid, "finetune", [BASELINE, *models], datasets, [F1], show_published)


def baseline_table(report: Mapping) -> Table:
    """Return the baseline's precision, recall and F1 in percent: a row a class, then accuracy and macro average.

    Args:
        report: one of `lib.results.records.load_baselines`.
    """
    frame = pd.DataFrame(report["classes"])
    metrics, support = report["metrics"], frame["support"].sum()
    macro = {name: metrics[f"test_{name}_macro"] for name in SCORES}
    summary = [
        # Over all documents, precision, recall and F1 of a single-label classification are all the accuracy.
        {"label": "accuracy", **dict.fromkeys(SCORES, metrics["test_accuracy"]), "support": support},
        {"label": "macro average", **macro, "support": support},
    ]
    frame = pd.concat([frame, pd.DataFrame(summary)], ignore_index=True)
    scores = {name: Column(f"{label} [%]", 2) for name, label in SCORES.items()}
    frame[list(scores)] *= 100
    return Table(frame[["label", *scores, "support"]], {**scores, "support": Column("support", 0)})


def _grid_table(
    grid: pd.DataFrame,
    stage: str,
    models: Sequence[str],
    datasets: Sequence[str],
    quantities: Sequence[Quantity],
    show_published: bool,
) -> Table:
    frame, columns = pd.DataFrame({"model": models}), {}
    cells = grid.groupby(["model", "dataset"])
    printed = published().query("stage == @stage").set_index(["model", "dataset"])
    for dataset in datasets:
        places = pd.MultiIndex.from_product([models, [dataset]])
        for quantity in quantities:
            name = dataset if len(quantities) == 1 else f"{dataset}_{quantity.name}"
            label = f"{dataset} {quantity.label}"
            values = cells[quantity.source]
            frame[name] = values.mean().reindex(places).to_numpy() * quantity.factor
            columns[name] = Column(label, quantity.decimals)
            if quantity.score and values.size().max() > 1:
                frame[f"{name}_sd"] = values.std().reindex(places).to_numpy() * quantity.factor
            if show_published:
                frame[f"{name}_published"] = printed[quantity.name].reindex(places).to_numpy()
                columns[f"{name}_published"] = Column(f"{label}, published", quantity.printed)
    return Table(frame, columns, NOTE if show_published and MINUTES in quantities else None)
