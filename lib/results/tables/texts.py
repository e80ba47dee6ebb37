"""What the texts of each split are like: classes, words, repetitions, near copies of training texts."""

from typing import Any, ClassVar, Literal

import pandas as pd

from lib.results.predictions import printed_classes
from lib.results.scope import Scope
from lib.results.settings import TableSettings, Topic
from lib.results.table import Column, Table
from lib.results.texts import load_texts, near_copies_explained

COPIES = "near copies of training texts"


class Settings(TableSettings):
    """One row per dataset and split."""

    about: ClassVar[Topic] = "texts"
    reads: ClassVar[Literal["texts"]] = "texts"

    kind: Literal["texts"]


def make(settings: Settings, scope: Scope) -> Table:
    """Return for each split its documents, the share of each class, words, repeated texts and near copies.

    `words_p95` is the number that 95 % of the documents do not exceed. `repeated` counts documents with the same text
    as an earlier one of their split; `near_copies` is the share with a near copy in training.
    """
    descriptions = {dataset: load_texts(file) for dataset, file in scope.descriptions.items()}
    rows = [
        {"dataset": dataset, "split": split} | _row(documents)
        for dataset, texts in descriptions.items()
        for split, documents in texts.groupby("split", sort=False, observed=True)
    ]
    classes = list(dict.fromkeys(label for texts in descriptions.values() for label in _classes(texts)))
    printed = dict(zip(classes, printed_classes(classes, [COPIES]), strict=True))
    columns = {
        "documents": Column("documents", 0),
        **{f"class_{label}": Column(f"{printed[label]} [%]", 1) for label in classes},
        "words_median": Column("words, median", 1),
        "words_p95": Column("words, 95 %", 0),
        "words_max": Column("words, most", 0),
        "repeated": Column("repeated", 0),
        "near_copies": Column(f"{COPIES} [%]", 2),
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
    }
