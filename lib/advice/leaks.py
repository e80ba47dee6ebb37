"""Columns whose values leak: documents of one author are alike, so random folds promise a score for known authors."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lib.advice.columns import OwnColumns
from lib.advice.preparing import OwnTexts
from lib.advice.quick import FOLDS, Fall, fall_of
from lib.reading.cells import MISSING, cell_text
from lib.reading.formats import column_names, read_rows
from lib.reading.raw_files import Columns
from lib.reading.same_texts import text_digest

LEVEL = 0.05
"""Level of all columns together."""

DRAWN, HALF, SPREAD = 4000, 0.5, 50
"""Documents that are scored, at most; share of documents whose value comes again, at least, and of those with the same
value, at most; and values that a sample has, at least, if there are so many."""

DECIDED, RARE = 0.9, 0.1
"""Share of documents with the usual label of their value, at least, if the column may be a form of the label; and share
of documents whose class may have few values."""


def find_leaks(
    files: Sequence[Path], columns: OwnColumns, own: OwnTexts, ngrams: Any, seconds: float, by: str | None
) -> tuple[dict[str, Fall], list[str]]:
    """Score TF-IDF in random folds and where no value is in two folds, for each column whose values come again.

    Both are of the same documents, drawn by value, without copies. The interval of the difference is that of the
    jackknife over values, at a level corrected for the number of columns (Bonferroni).

    Args:
        files: the files.
        columns: those of text and label.
        own: the texts as they are prepared.
        ngrams: settings of TF-IDF that differ from the defaults; None = it finds nothing.
        seconds: about as long as it may take.
        by: the only column that is scored, whatever it holds; None = all that may leak.

    Returns:
        The columns that were scored, those that leak first, and of these the one with the largest fall; and sentences
        about others that may leak.
    """
    end, taken = time.monotonic() + seconds, (columns.text, columns.label)
    headers = [column_names(path, columns.dialect) for path in files]
    names = [name for name in headers[0] if name not in taken and all(each.count(name) == 1 for each in headers)]
    if not names or ngrams is None or own.set_sizes or not own.labelled or by not in (None, *names):
        return {}, ["No column was scored for leaks, since documents have several labels."] * bool(own.set_sizes)
    cells = (hash(cell) for row in _rows(files, columns, names) for cell in row[2:])
    values = pd.DataFrame(np.fromiter(cells, np.int64).reshape(-1, len(names)), columns=names)
    drawn, skipped = {}, {}
    falls: dict[str, Fall] = {}
    for name in names if by is None else [by]:
        sizes = values[name].map(values[name].value_counts())
        may = values[name].nunique() >= FOLDS and (sizes > 1).mean() >= HALF and sizes.max() <= HALF * len(sizes)
        if may and (values[name] == hash(MISSING)).any():
            skipped[name] = "documents lack a value"
        elif may or by:
            drawn[name] = _drawn(values[name])
    wanted, known = {*np.concatenate([[], *drawn.values()])}, own.settings["labels"]
    rows = {place: row for place, row in enumerate(_rows(files, columns, [*drawn])) if place in wanted}
    every = pd.DataFrame.from_dict(rows, orient="index", columns=["text", "label", *(f"of {name}" for name in drawn)])
    every = every[~every["text"].map(text_digest).duplicated() & every["label"].isin(known)]
    for name in sorted(drawn, key=lambda name: values[name].nunique()):  # of many documents each, most can be learnt
        table = every[every.index.isin(drawn[name])].assign(value=every[f"of {name}"])
        if by is None and (table.empty or _is_form(table)):
            skipped[name] = "it may be another form of the label"
        elif time.monotonic() > end:
            skipped[name] = "time is short"
        elif fall := fall_of(table, ngrams, LEVEL / len(drawn)):
            falls[name] = fall
    said = [f"`{name}` was not scored for leaks: {why}." for name, why in skipped.items()]
    return dict(sorted(falls.items(), key=lambda each: (each[1].leaks, each[1].lost), reverse=True)), said


def _rows(files: Sequence[Path], columns: OwnColumns, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Yield text, label and the values of other columns, of each document."""
    wanted = Columns(None, columns.text, str(columns.label), marks=tuple(names))
    for path in files if names else ():
        for row in read_rows(path, wanted, columns.dialect):
            yield row[1] or "", *(cell_text(cell) or MISSING for cell in (row[2], *row[6:]))


def _drawn(values: pd.Series) -> np.ndarray:
    """Return the documents of a sample: all of some values, or some of each if few values have many documents."""
    shuffled = pd.Series(pd.factorize(values)[0]).sample(frac=1, random_state=0)
    kept = shuffled[shuffled.groupby(shuffled).cumcount() < max(2, DRAWN // min(shuffled.max() + 1, SPREAD))]
    place = np.random.default_rng(0).permutation(shuffled.max() + 1)[kept]
    return kept.index[np.argsort(place, kind="stable")][:DRAWN].to_numpy()


def _is_form(table: pd.DataFrame) -> bool:
    """Return whether the values may be another form of the label, such as stars or finer classes.

    Many documents have the usual label of their value, and values of a class are few, or numbers between others.
    """
    counts = pd.crosstab(table["value"], table["label"])
    usual, numbers = counts.idxmax(axis=1), pd.to_numeric(counts.index, errors="coerce")
    decided, ordered = counts.max(axis=1).sum() >= DECIDED * len(table), usual.iloc[np.argsort(numbers)]
    divided = not np.isnan(numbers).any() and (ordered != ordered.shift()).sum() <= counts.shape[1]
    values = table["label"].map(usual.value_counts() / 2 if decided else (counts > 0).sum()).fillna(0)
    return bool((decided and divided) or (values < FOLDS).mean() > RARE)
