"""Properties of texts (classes, words, languages, copies), and the error rates of models by property."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import matplotlib.style
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import Field

from lib.core.errors import DataError
from lib.core.settings import Fraction
from lib.results.predictions import load_items, printed_classes, without_copies
from lib.results.scope import Scope
from lib.results.settings import FigureSettings, TableSettings, Topic
from lib.results.style import PANEL_INCHES, STYLE, draw_histogram, label_histogram, panel_grid
from lib.results.table import Column, Table

COLUMNS = ["split", "id", "label", "words", "language", "repeated", "near_copy", "featureless"]
NEAR_COPIES = b"near_copies"


def load_texts(file: str | Path) -> pd.DataFrame:
    """Return the description of a dataset's texts, with the columns `COLUMNS`.

    Raises:
        DataError: it cannot be read, or lacks a column or all documents.
    """
    try:
        texts = pd.read_parquet(file, columns=COLUMNS)
    except (OSError, ValueError, KeyError) as error:
        raise _damaged(file, error) from error
    if texts.empty:
        raise _damaged(file, "no documents")
    return texts


def main_languages(languages: pd.Series, threshold: float) -> pd.Series:
    """Return languages with those whose share is below `threshold` as `other`."""
    shares = languages.value_counts(normalize=True)
    return languages.astype(object).where(languages.map(shares).astype(float) >= threshold, "other")


def near_copies_explained(files: Iterable[str | Path]) -> str:
    """Return what near copies are in descriptions of texts, as a sentence for each way of telling.

    Raises:
        DataError: a description cannot be read, or does not say.
    """
    return " ".join(dict.fromkeys(_explained(_settings(file)) for file in files))


def _settings(file: str | Path) -> Mapping[str, Any]:
    try:
        return json.loads((pq.read_schema(file).metadata or {})[NEAR_COPIES])
    except (OSError, ValueError, KeyError) as error:
        raise _damaged(file, error) from error


def _explained(settings: Mapping[str, Any]) -> str:
    unit = settings["unit"] if settings["size"] > 1 else settings["unit"].removesuffix("s")
    return (
        f"A near copy shares at least {settings['threshold']:.0%} of the runs of {settings['size']} {unit} that both "
        f"texts have (Jaccard similarity); of those that are just so near, {settings['recall']:.1%} are expected to be "
        "found, and no others are counted."
    )


def _damaged(file: str | Path, reason: Exception | str) -> DataError:
    return DataError(f"{file}: describes no texts ({reason!r}). Delete it, and make it again.")


COPIES = "near copies of training texts"
FEATURELESS = "without a word for TF-IDF"


class TextsTable(TableSettings):
    """One row per dataset and split."""

    about: ClassVar[Topic] = "texts"
    reads: ClassVar[Literal["texts"]] = "texts"

    kind: Literal["texts"]

    def make(self, scope: Scope) -> Table:
        """Return for each split its documents, the share of each class, words, repeated texts and near copies.

        `words_p95` is the number that 95 % of the documents do not exceed. `repeated` counts documents with the same
        text as an earlier one of their split; `near_copies` is the share with a near copy in training, and
        `featureless` the share without a word that two training documents have.
        """
        descriptions = {dataset: load_texts(file) for dataset, file in scope.descriptions.items()}
        rows = [
            {"dataset": dataset, "split": split} | _row(documents)
            for dataset, texts in descriptions.items()
            for split, documents in texts.groupby("split", sort=False, observed=True)
        ]
        classes = list(dict.fromkeys(label for texts in descriptions.values() for label in _classes(texts)))
        printed = dict(zip(classes, printed_classes(classes, [COPIES, FEATURELESS]), strict=True))
        columns = {
            "documents": Column("documents", 0),
            **{f"class_{label}": Column(f"{printed[label]} [%]", 1) for label in classes},
            "words_median": Column("words, median", 1),
            "words_p95": Column("words, 95 %", 0),
            "words_max": Column("words, most", 0),
            "repeated": Column("repeated", 0),
            "near_copies": Column(f"{COPIES} [%]", 2),
            "featureless": Column(f"{FEATURELESS} [%]", 1),
        }
        frame = pd.DataFrame(rows, columns=["dataset", "split", *columns])
        return Table(frame, columns, note=near_copies_explained(scope.files))


def _classes(texts: pd.DataFrame) -> list[str]:
    return sorted(texts["label"].dropna().unique())


def _row(documents: pd.DataFrame) -> dict[str, Any]:
    words, shares = documents["words"], documents["label"].value_counts(normalize=True)
    return {
        "documents": len(documents),
        **{f"class_{label}": 100 * share for label, share in shares.items()},
        "words_median": words.median(),
        "words_p95": words.quantile(0.95, interpolation="higher"),
        "words_max": words.max(),
        "repeated": documents["repeated"].sum(),
        "near_copies": 100 * documents["near_copy"].astype(float).mean(),  # of training there is none
        "featureless": 100 * documents["featureless"].mean(),
    }


class ErrorsTable(TableSettings):
    """One table per dataset: a row per model, its error rate on test by properties of the texts."""

    divided: ClassVar[Literal["if_several"]] = "if_several"
    needs_predictions: ClassVar[bool] = True
    needs_classes: ClassVar[bool] = True
    needs_texts: ClassVar[bool] = True

    kind: Literal["errors"]
    stage: str
    """Stage whose runs it shows."""
    by: Literal["words", "near_copy", "language"] = "words"
    """Property that groups the test documents: their length, in quarters; whether training has a near copy; their
    language."""
    threshold: Fraction = 0.01
    """Share below which languages are summed up as `other`."""

    def make(self, scope: Scope) -> Table:
        """Return error rates on test in percent: one row per model, one column per part of the documents.

        With more than one seed these are means with a standard deviation. A rate is the share of wrong ones
        among the labelled items of all documents of a part: the documents themselves, or their labelled words.

        Raises:
            DataError: a run or a description is missing or duplicated, or the two do not fit each other.
        """
        ((dataset, file),) = scope.descriptions.items()
        texts = load_texts(file)
        parts = _parts(texts[texts["split"] == "test"].set_index("id"), self)
        runs = without_copies(scope.grid(self.stage))
        rates = {(run.row, run.seed): _rates(run.folder, parts, dataset) for run in runs.itertuples()}
        of_models = (100 * pd.concat(rates, names=["row", "seed"])).unstack("part").groupby("row")
        means, deviations = (each.loc[[*scope.models]] for each in (of_models.mean(), of_models.std()))
        frame, columns = pd.DataFrame({"model": scope.models}), {}
        for part, documents in parts.value_counts(sort=False).items():
            frame[part] = means[part].to_numpy()
            columns[part] = Column(f"{part} (n = {documents:,}) [%]", 2)
            if deviations.notna().any(axis=None):
                frame[f"{part}_sd"] = deviations[part].to_numpy()
        return Table(frame, columns, note=near_copies_explained([file]) if self.by == "near_copy" else None)


def _parts(texts: pd.DataFrame, settings: ErrorsTable) -> pd.Series:
    """Return the part that each document is in, in order, by its identity."""
    if settings.by == "language":
        parts = main_languages(texts["language"], settings.threshold)
        return parts.astype(pd.CategoricalDtype(parts.value_counts().index))
    if settings.by == "near_copy":
        numbers = texts["near_copy"].astype(int)
        names = {0: "no near copy in training", 1: "near copy in training"}
    else:
        words = texts["words"]
        numbers = pd.Series(np.searchsorted(words.quantile([0.25, 0.5, 0.75]).unique(), words), words.index)
        limits = words.groupby(numbers).agg(["min", "max"]).itertuples()
        names = {number: f"{low} to {high} words" if low < high else f"{low} words" for number, low, high in limits}
    there = [name for number, name in names.items() if (numbers == number).any()]
    return numbers.map(names).astype(pd.CategoricalDtype(there))


def _rates(folder: str, parts: pd.Series, dataset: str) -> pd.Series:
    """Return the share of wrong labelled items by part."""
    items = load_items(folder, ["id"])
    of_items = parts.reindex(items["id"].to_numpy()).set_axis(items.index).rename("part")
    if of_items.isna().any():
        raise DataError(
            f"{folder}: predicts document {items.loc[of_items.isna(), 'id'].iloc[0]}, which the description of the "
            f"texts of {dataset} lacks. Make both from the same data."
        )
    return (items["label"] != items["prediction"]).groupby(of_items, observed=False).mean()


BINS = 40


class WordsFigure(FigureSettings):
    """Histograms of the documents' words, one line per split, one panel per dataset."""

    about: ClassVar[Topic] = "texts"
    reads: ClassVar[Literal["texts"]] = "texts"

    kind: Literal["words"]
    share: Annotated[float, Field(gt=0, le=1)] = 0.99
    """Share of a dataset's documents, the shortest first, that the axis shows."""

    @matplotlib.style.context(STYLE)
    def draw(self, scope: Scope) -> Figure:
        """Draw which share of the documents of each split has how many words."""
        figure, panels = panel_grid(len(scope.descriptions), PANEL_INCHES)
        for axes, (dataset, file) in zip(panels, scope.descriptions.items(), strict=True):
            axes.set_title(scope.title(dataset))
            _draw_splits(axes, load_texts(file), self.share)
        return figure


def _draw_splits(axes: Axes, texts: pd.DataFrame, share: float) -> None:
    longest = int(texts["words"].quantile(share, interpolation="higher"))
    width = -(-(longest + 1) // BINS)
    edges = np.arange(-0.5, longest + width + 0.5, width)
    for place, (split, words) in enumerate(texts.groupby("split", sort=False, observed=True)["words"]):
        beyond = (words > edges[-1]).sum()
        label = f"{split}: {len(words):,} documents" + (f", {beyond:,} longer" if beyond else "")
        draw_histogram(axes, words, edges, place, str(split), label)
    label_histogram(axes, "words", "word", width)


class LanguagesFigure(FigureSettings):
    """Shares of the identified languages as bars, the most frequent first, one panel per dataset."""

    about: ClassVar[Topic] = "texts"
    reads: ClassVar[Literal["texts"]] = "texts"

    kind: Literal["languages"]
    threshold: Fraction = 0.01
    """Share below which languages are summed up as `other`."""

    @matplotlib.style.context(STYLE)
    def draw(self, scope: Scope) -> Figure:
        """Draw the share of each language (ISO 639) among the documents of all splits."""
        figure, panels = panel_grid(len(scope.descriptions), PANEL_INCHES)
        for axes, (dataset, file) in zip(panels, scope.descriptions.items(), strict=True):
            axes.set_title(scope.title(dataset))
            _draw_shares(axes, main_languages(load_texts(file)["language"], self.threshold))
        return figure


def _draw_shares(axes: Axes, languages: pd.Series) -> None:
    shares = 100 * languages.value_counts(normalize=True)
    shares = shares.sort_index(key=lambda names: names == "other", kind="stable")  # which stands last
    bars = axes.barh(list(map(str, shares.index)), shares, color="C0")
    axes.bar_label(bars, [f"{share:.1f}" for share in shares], padding=2, fontsize=7)
    axes.invert_yaxis()
    axes.set(xlabel="documents [%]", ylabel="language", xlim=(0, 112))  # the longest bar has room for its number
