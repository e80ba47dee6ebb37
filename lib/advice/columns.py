"""Columns of a user's files: which one has the texts, and which one the labels."""

import contextlib
import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from lib.advice import seen
from lib.advice.preparing import MOST_CLASSES, OPTIONS, PER_CLASS, Labels, own_labels
from lib.core.errors import DataError
from lib.preparing.settings.sources import Dialect
from lib.reading.cells import HALF, MISSING, half_found
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
    """Columns of files that have texts and, if there are any, labels; and how the files are written."""

    text: str
    label: Labels
    dialect: Dialect
    """How the files are written."""
    notes: tuple[str, ...] = ()
    """Sentences about columns that nobody named."""


def find_columns(
    files: Sequence[Path], text: str | None, label: Labels, dialect: Dialect | None, *, labelled: bool = True
) -> OwnColumns:
    """Return the columns of texts and labels, from their values if they are not given.

    A column called `text` has the texts, else the one whose values are the longest by far. A column called `label` has
    the labels, else the only one with few different values, or several that hold 0 and 1 alone.

    Args:
        files: files in any format of `lib.reading.formats`, with the same columns.
        text: column of the text; None = it is found.
        label: column of the label; None = it is found, if there is one.
        dialect: how text files are written; None = as by default, but for the delimiter, which is found.
        labelled: whether there may be labels.

    Raises:
        DataError: a file cannot be read, or several columns may be meant.
    """
    found, names = _readable(files[0], text, dialect)
    if text is not None and (label is not None or not labelled):
        return OwnColumns(text, label, found)
    if text is None and (sign := shown_delimiter(names)):
        raise DataError(
            f"{files[0]}: has a single column, {names[0]!r}, whose name shows that there may be several. Say how it is "
            f"written, for instance with --dialect '{{delimiter: {json.dumps(sign)}}}', or name it with --column."
        )
    if found.document == "file" and labelled and len({path.parent.name for path in files}) > 1:
        return OwnColumns(text or TEXT, label or LABEL, found, ("The labels are the names of the folders.",))
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
        return OwnColumns(text or TEXT, label, found, none)
    notes = []
    if text is None:
        sample.pop(str(label or ""), None)
        text = TEXT if TEXT in sample else _longest(files[0], sample, names)
        notes.append(f"`{text}` was taken as the column of the text (`--column` names another one).")
    if unknown:
        sample.pop(text, None)
        label = LABEL if LABEL in sample else _classes(files, text, sample, names, found)
        if label is None:
            seen.check_names(files)
        others = ", ".join(f"`{name}`" for name in names if name not in (text, label))
        notes.append(
            f"{_named(label)} hold 0 and 1 alone, and were taken as a class each (`--label` names a column of labels, "
            "`--unlabelled` none)."
            if isinstance(label, tuple)
            else f"No other column has 2 to {MOST_CLASSES} values with {PER_CLASS} documents each, so the texts have "
            f"no labels ({f'`--label` names a column: {others}' if others else 'the file has one column'})."
            if label is None
            else f"`{label}` was taken as the column of the label (`--label` names another one, `--unlabelled` none)."
        )
    return OwnColumns(text, label, found, tuple(notes))


def _readable(path: Path, text: str | None, dialect: Dialect | None) -> tuple[Dialect, list[str]]:
    """Return the first dialect that reads the whole file, else the given one, and its columns.

    The file then has the column of the text that is given, or else several columns.

    Settings that are given hold in all of these dialects.
    """
    for reading in dialects(path, dialect):
        try:
            names = column_names(path, reading)
            own = text or next((name for name in names if names.count(name) == 1 < len(names)), None)
            if own in names and deque(_values(path, own, reading), maxlen=1):
                return reading, names
        except DataError:
            continue
    reading = dialect or Dialect()
    return reading, column_names(path, reading)


def _values(path: Path, name: str, dialect: Dialect) -> Iterator[Any]:
    """Yield the values of a column; one with half of a character, as with another encoding, is refused."""
    for _, value, *_ in read_rows(path, Columns(None, name, None), dialect):
        if isinstance(value, str) and HALF.search(value):
            raise DataError(f"{path}: '{name}' {half_found(value, dialect.encoding)}.")
        yield value


def _longest(path: Path, columns: Mapping[str, Sequence[Any]], names: Sequence[str]) -> str:
    """Return the column with the longest values by far."""
    texts = {name: [len(value) if isinstance(value, str) else 0 for value in each] for name, each in columns.items()}
    lengths = {name: sum(each) / max(1, len(each)) for name, each in texts.items()}
    most = max(lengths.values(), default=0.0)
    near = sorted((name for name in lengths if LONGER * lengths[name] > most), key=lambda name: -lengths[name])
    if len(near) != 1:
        found = ", ".join(f"{name!r} ({lengths[name]:.0f} characters on average)" for name in near) or "no column"
        raise DataError(f"{path}: {found} may have the texts. Name one with --column. The columns are {_named(names)}.")
    return near[0]


def _classes(files: Sequence[Path], text: str, left: Iterable[str], names: Sequence[str], dialect: Dialect) -> Labels:
    """Return the only one of the columns that are left that may have labels, or those that mark a class each.

    Labels are of 2 to `MOST_CLASSES` classes with `PER_CLASS` documents each; other columns have none.
    """
    near = {}
    for name in left:
        with contextlib.suppress(DataError):
            found, _ = own_labels(files, Columns(None, text, name), dialect)
            classes = len(found.keys() - {MISSING})
            if 2 <= classes <= MOST_CLASSES and found.total() - found[MISSING] >= PER_CLASS * classes:
                near[name] = {*found}
    if len(near) > 1 and not all(found <= {"0", "1", "false", "true"} for found in near.values()):
        several = f"{files[0]}: {_named(near)} may have the labels, with few different values."
        raise DataError(f"{several} Name one with --label, or say --unlabelled. The columns are {_named(names)}.")
    return tuple(near) if len(near) > 1 else next(iter(near), None)


def _named(names: Any) -> str:
    return ", ".join(repr(name) for name in names)
