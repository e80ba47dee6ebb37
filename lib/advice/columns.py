"""Columns of a user's files: which one has the texts, and which one the labels."""

import json
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from lib.advice import seen
from lib.advice.preparing import MOST_CLASSES, OPTIONS, PER_CLASS
from lib.core.errors import DataError
from lib.core.settings import FEW
from lib.preparing.settings.sources import Dialect
from lib.reading.cells import HALF, MISSING, cell_text, half_found
from lib.reading.formats import column_names, read_rows
from lib.reading.raw_files import Columns, suffix_of
from lib.reading.tables import dialects, shown_delimiter

TEXT, LABEL = "text", "label"
"""Names of columns that are taken whatever they hold."""

LONGER = 2.0
"""How often the mean length of texts must hold that of any other column."""

SAMPLE = 1000
"""Number of first rows whose columns are all read."""


@dataclass(frozen=True)
class OwnColumns:
    """Columns of files that have texts and, if there are any, labels."""

    text: str
    label: str | None
    notes: tuple[str, ...] = ()
    """Sentences about columns that nobody named."""


def find_columns(
    files: Sequence[Path], text: str | None, label: str | None, dialect: Dialect | None, *, labelled: bool = True
) -> OwnColumns:
    """Return the columns of texts and labels, from what they hold if they are not given.

    A column called `text` has the texts, else the one whose values are the longest by far. A column called `label` has
    the labels, else the only one with few different values.

    Args:
        files: files in any format of `lib.reading.formats`, with the same columns.
        text: column of the text; None = it is found.
        label: column of the label; None = it is found, if there is one.
        dialect: how text files are written; None = as by default, but for the delimiter, which is found.
        labelled: whether there may be labels.

    Raises:
        DataError: a file cannot be read, or several columns may be meant.
    """
    if text is not None and (label is not None or not labelled):
        return OwnColumns(text, label)
    found, names = _readable(files[0], dialect)
    if text is None and (sign := shown_delimiter(names)):
        raise DataError(
            f"{files[0]}: has a single column, {names[0]!r}, whose name shows that there may be several. Expected a "
            "table whose rows all have the number of fields of the first one. Say how it is written, for instance with "
            f"--dialect '{{delimiter: {json.dumps(sign)}}}', or, if it has one column, name that with --column."
        )
    if found.document == "file" and labelled and len({path.parent.name for path in files}) > 1:
        return OwnColumns(text or TEXT, label or LABEL, ("The labels are the names of the folders.",))
    unknown = label is None and labelled
    if unknown and not names:
        seen.check_names(files)
    try:
        sample = {n: [*islice(_values(files[0], n, found), SAMPLE)] for n in names or [TEXT] if names.count(n) < 2}
    except DataError as error:
        raise DataError(f"{error} {OPTIONS}") from error
    header = bool(names) and found.columns is None and suffix_of(files[0]) in (".csv", ".tsv", ".txt")
    seen.check_documents(files[0], sample, header=header, labelled=unknown)
    if not names:
        none = ("The format has no columns, so the texts have no labels.",) if unknown else ()
        return OwnColumns(text or TEXT, label, none)
    notes = []
    if text is None:
        sample.pop(label or "", None)
        text = TEXT if TEXT in sample else _longest(files[0], sample, names)
        notes.append(f"`{text}` was taken as the column of the text (`--column` names another one).")
    if unknown:
        sample.pop(text, None)
        label = LABEL if LABEL in sample else _few(files, sample, names, found)
        if label is None:
            seen.check_names(files)
        others = ", ".join(f"`{name}`" for name in names if name not in (text, label))
        notes.append(
            f"No other column has 2 to {MOST_CLASSES} values with {PER_CLASS} documents each, so the texts have no "
            f"labels ({f'`--label` names a column: {others}' if others else 'the file has one column'})."
            if label is None
            else f"`{label}` was taken as the column of the label (`--label` names another one, `--unlabelled` none)."
        )
    return OwnColumns(text, label, tuple(notes))


def _readable(path: Path, dialect: Dialect | None) -> tuple[Dialect, list[str]]:
    """Return the first dialect that reads the whole file with several columns, else the given one, and its columns.

    Settings that are given hold in all of these dialects.
    """
    for reading in dialects(path, dialect):
        try:
            names = column_names(path, reading)
            own = next((name for name in names if names.count(name) == 1), None)
            if len(names) > 1 and own is not None and deque(_values(path, own, reading), maxlen=1):
                return reading, names
        except DataError:
            continue
    reading = dialect or Dialect()
    return reading, column_names(path, reading)


def _values(path: Path, name: str, dialect: Dialect) -> Iterator[Any]:
    return (row[1] for row in read_rows(path, Columns(None, name, None), dialect))


def _longest(path: Path, columns: Mapping[str, Sequence[Any]], names: Sequence[str]) -> str:
    lengths: dict[str, float] = {
        name: sum(len(value) for value in values if isinstance(value, str)) / max(1, len(values))
        for name, values in columns.items()
    }
    if not lengths:
        raise DataError(
            f"{path}: no column is left for the texts. Expected one besides that of the label, with a name of its own; "
            f"the columns are {_named(names)}."
        )
    first, *others = sorted(lengths, key=lambda name: -lengths[name])
    near = [first, *(name for name in others if LONGER * lengths[name] > lengths[first])]
    if len(near) > 1 or not lengths[first]:
        raise DataError(
            f"{path}: {_named(near)} may have the texts, with {', '.join(f'{lengths[name]:.0f}' for name in near)} "
            f"characters on average. Expected one column; name it with --column. The columns are {_named(names)}."
        )
    return first


def _few(
    files: Sequence[Path], columns: Mapping[str, Sequence[Any]], names: Sequence[str], dialect: Dialect
) -> str | None:
    """Return the only column that may have labels; None if there is none."""
    near = [
        name
        for name, values in columns.items()
        if _count(values, name, dialect) is not None and _is_label(files, name, dialect)
    ]
    if len(near) > 1:
        raise DataError(
            f"{files[0]}: {_named(near)} may have the labels, with few different values. Expected one column; name it "
            f"with --label, or say with --unlabelled that there is none. The columns are {_named(names)}."
        )
    return next(iter(near), None)


def _is_label(files: Sequence[Path], name: str, dialect: Dialect) -> bool:
    counts = _count((value for path in files for value in _values(path, name, dialect)), name, dialect)
    return counts is not None and len(counts) > 1 and counts.total() >= PER_CLASS * len(counts)


def _count(values: Iterable[Any], column: str, dialect: Dialect) -> Counter[str] | None:
    """Return how often there is each value; None if they do not name at most `MOST_CLASSES` classes.

    Raises:
        DataError: a value has half of a character, as with another encoding.
    """
    found: Counter[str] = Counter()
    for value in values:
        if isinstance(value, str) and HALF.search(value[:FEW]):
            raise DataError(f"'{column}' {half_found(value, dialect.encoding)}.")
        name = cell_text(value)
        if name is None or len(name) > FEW:
            return None
        found[name] += int(name != MISSING)
        if len(+found) > MOST_CLASSES:
            return None
    return +found


def _named(names: Any) -> str:
    return ", ".join(repr(name) for name in names)
