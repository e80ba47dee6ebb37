"""Raw files to records, streaming, in any format of `lib.reading.formats`.

Texts come out as they are in the file; what to keep of them is decided elsewhere.
"""

import ast
import contextlib
import itertools
import json
import logging
import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, NamedTuple

from lib.core.errors import MOST_OF_VALUE, DataError, cut
from lib.core.labels import IGNORED
from lib.preparing.settings.preparation import LabelSet
from lib.preparing.settings.sources import Dialect
from lib.reading.cells import HALF, MISSING, cell_text, half_found
from lib.reading.formats import class_names, column_names, read_rows
from lib.reading.raw_files import Columns, suffix_of
from lib.reading.same_texts import text_digest
from lib.reading.spans import Span, clean_spans, parse_spans

logger = logging.getLogger(__name__)

_MOST_OF_ID = 4_096


class Record(NamedTuple):
    """One document of a corpus."""

    part: str
    id: str
    text: str
    label: int | float | list[int] | list[Span] | None
    """Number of the class, or those of a set in order, or one per word (-100 = none), or spans, or a number that is no
    class; None where no label was asked for, or the value of the label means that there is none."""
    group: str | None = None
    """Name or number that scores can be grouped by; None if none was requested."""
    fold: Any = None
    """Fold as written in the file; None if no fold column is read."""
    text_pair: str | None = None
    """Second text; None where none was asked for."""


def read_records(
    files: Mapping[str, Sequence[str | Path]],
    *,
    text: str = "text",
    id: str | None = None,
    label: str | None = None,
    labels: Sequence[str] = (),
    label_per: Literal["document", "word", "span"] = "document",
    label_set: LabelSet | None = None,
    group: str | None = None,
    fold: str | None = None,
    ground_truth: Mapping[str, Sequence[str | Path]] | None = None,
    text_pair: str | None = None,
    label_range: tuple[float, float] | None = None,
    unlabelled: Collection[str] = (),
    values: Mapping[str, str | None] | None = None,
    dialect: Dialect | None = None,
    ground_truth_dialect: Dialect | None = None,
) -> Iterator[Record]:
    """Yield the documents of `files`, part by part, in file order.

    A missing text (null) is read as an empty one.

    Args:
        files: raw files, by part.
        text: column of the text (Parquet, CSV, JSONL).
        id: column of the identity; None numbers the documents of a part from 0: `train-0`. The XML has its own.
        label: column of the label; None reads no labels.
        labels: names of the classes, in the order of their numbers. In every format, a label that is written like a
            name is the class of that name; otherwise it is a number from 0 or, of two classes, true or false. Where a
            name is a number, but not that of its class, as in `["1", "0"]` and `["2", "4"]`, labels must be names.
        label_per: what bears a label. Those of words are a list (Parquet, JSONL), each entry by the same rule; null or
            -100 = no label. Spans are cleaned as by `lib.reading.spans.clean_spans`, and the log says how many were.
        label_set: how several labels of a document are written, each by the same rule; None = it has one.
        group: column of a number or a name; None reads none.
        fold: column of the fold; None reads none.
        ground_truth: files by part that hold the labels of that part, by id or, without `id`, in the same order.
        text_pair: column of the second text of each document; None reads none.
        label_range: lowest and highest label, if labels are numbers; None = they are classes.
        unlabelled: parts without labels, whose column of labels is not read.
        values: values of labels that are no names, and the name that each means; None = there is no label.
        dialect: how text files are written; None = as by default.
        ground_truth_dialect: how those of the ground truth are written; None = like the others.

    Raises:
        DataError: a file is missing, damaged, of an unknown format, without a named column, or holds no text at all; a
            label or group is missing or unknown; a span is none, inverted, or outside of its text; an id comes twice;
            a ground truth does not match its articles.
    """
    dialect, ground_truth = dialect or Dialect(), ground_truth or {}
    given_as = None if label_set is None or label is None else label_set.given_as
    classes = _Classes(label, labels, values or {}) if label is not None and label_range is None else None
    seen: dict[str, bytes | None] = {}
    for part, paths in files.items():
        asked = None if part in unlabelled else label
        labelled = _Columned(ground_truth.get(part, ()), asked or "", ground_truth_dialect or dialect)
        own_rows = given_as == "rows" and not labelled.paths
        if asked and own_rows:
            labelled = _Columned(paths, asked, dialect)
        of_truth, several = bool(asked and labelled.paths), given_as == "rows"
        truth = values_by_id(labelled.paths, labelled.own, labelled.dialect, id, part, several) if of_truth else {}
        if of_truth and id is None:
            _refuse_another_order(_Columned(paths, text, dialect), labelled)
        number = itertools.count()
        for path in map(Path, paths):
            rows = blank = dropped = 0
            repaired: Counter[str] = Counter()
            marks = tuple(labels) if asked and given_as == "columns" else None
            columns = Columns(id, text, None if of_truth or marks else asked, group, fold, text_pair, marks)
            if classes is not None and columns.label is not None:
                classes.check_order(class_names(path, columns.label), path)
            for rows, (raw_id, raw_text, raw_label, raw_group, raw_fold, raw_pair, *marked) in enumerate(
                read_rows(path, columns, dialect), start=1
            ):
                where = f"{path}, document {rows}"
                _refuse_half(raw_id, where, id or "id", dialect.encoding)
                identity = f"{part}-{next(number)}"
                if id is not None or raw_id is not None:
                    identity = _identity(raw_id, where, id or "id")
                    digest = text_digest(str(raw_text), str(raw_pair)) if own_rows else None
                    if identity in seen and own_rows and seen[identity] == digest and identity not in truth:
                        continue  # a further label of a document
                    if identity in seen:
                        expected = "with one text" if own_rows else "once"
                        raise DataError(f"{where}: the id {identity!r} comes twice. Expected every id {expected}.")
                    seen[identity] = digest
                body = _body(raw_text, where, text, dialect)
                second = None if text_pair is None else _body(raw_pair, where, text_pair, dialect)
                blank += not body or body.isspace()
                if of_truth:
                    if identity not in truth:
                        raise DataError(f"{where}: {labelled} has no entry for the id {identity!r}. Expected one.")
                    raw_label = truth.pop(identity)
                if any(map(HALF.search, (body, second or ""))):
                    dropped += 1
                    continue
                for value, name in ((raw_label, asked), (raw_group, group), (raw_fold, fold)):
                    _refuse_half(value, where, str(name), dialect.encoding)
                known: int | float | list[int] | list[Span] | None = None
                if asked is None:
                    pass
                elif label_range is not None:
                    known = _number(raw_label, label_range, values or {}, asked, where)
                elif label is not None and label_per == "span":
                    known, counts = _spans(raw_label, label, len(body), f"{where} ({identity!r})")
                    repaired.update(counts)
                elif classes is not None and label_set is not None:
                    known = classes.set_of(marked if marks else raw_label, label_set, where, repaired)
                elif classes is not None:
                    known = (classes.numbers if label_per == "word" else classes.number)(raw_label, where)
                of_group = None if group is None else _group(raw_group, group, where)
                yield Record(part, identity, body, known, of_group, raw_fold, second)
            if dropped:
                logger.warning("%s: dropped %d documents with characters that cannot be decoded", path, dropped)
            if repaired.total():
                found = ", ".join(f"{name} {count}" for name, count in repaired.items())
                spans = "spans that overran their text, touched others or had no character"
                what = spans if label_set is None else "labels that a document has more than once"
                logger.warning("%s: %s: %s", path, what, found)
            if rows == blank and dialect.document == "line":
                what = "holds no document" if rows == 0 else f"all {rows} texts are empty"
                raise DataError(f"{path}: {what}. Expected documents with text in '{text}'.")
        if truth:
            raise DataError(f"{labelled}: {len(truth)} entries have no document, such as {min(truth)!r}. Expected one.")


class _Classes:
    """The classes of a dataset, and the spellings that name them.

    One rule holds for every format. A value is read as text (`cell_text`): 1, 1.0 and "1" are the same, and so are
    true, True and "true". If this text is a name, it is the class of that name; if it is one of the listed values, it
    has the meaning listed there. Otherwise it is a class number from 0 or, of two classes, false for 0 and true for 1.
    Where a name is a number (or a truth value), but not that of its own class, as in `["1", "0"]`, `["-1", "1"]` and
    `["2", "4"]`, or where values are listed (except for missing ones), only names and listed values are understood.
    """

    def __init__(self, column: str, names: Sequence[str], values: Mapping[str, str | None]):
        self._column = column
        self._names = names
        self._by_name = {cell_text(name) or name: number for number, name in enumerate(names)}
        listed = {
            cell_text(value) or MISSING: None if label is None else names.index(label)
            for value, label in values.items()
        }
        truths = {"false": 0, "true": 1} if len(names) == 2 else {}
        own = {name: truths.get(name, _as_number(name)) for name in self._by_name}
        misleading = any(own[name] not in (None, number) for name, number in self._by_name.items())
        self._numbered = not misleading and not listed.keys() - self._by_name.keys() - {MISSING}
        by_number = {str(number): number for number in range(len(names))} | truths if self._numbered else {}
        self._spellings: dict[str, int | None] = {**by_number, **listed, **self._by_name}
        self._unexpected = truths.keys() - self._by_name.keys() - listed.keys()

    def number(self, value: Any, where: str) -> int | None:
        """Return the class of `value`; None if it means that there is no label."""
        text = cell_text(value)
        if text is None or text not in self._spellings:
            known = cut(", ".join(spelling or "an empty value" for spelling in self._spellings), 5 * MOST_OF_VALUE)
            raise DataError(
                f"{where}: the label is {cut(repr(value), MOST_OF_VALUE)}; expected one of {known}. Check 'label: "
                f"{self._column}' and 'labels'; 'values' says what other values mean."
            )
        if text in self._unexpected:
            logger.warning("'label: %s': false is read as %r, true as %r; see 'values'", self._column, *self._names)
            self._unexpected = set()  # one warning is enough
        return self._spellings[text]

    def numbers(self, values: Any, where: str) -> list[int]:
        """Return the classes of a list of labels; `IGNORED` for an entry without a label."""
        if not isinstance(values, list):
            raise DataError(f"{where}: the labels are {values!r}; expected a list in '{self._column}', one per word.")
        no_label = {MISSING, str(IGNORED)} - self._spellings.keys()
        found = [None if cell_text(value) in no_label else self.number(value, where) for value in values]
        return [IGNORED if number is None else number for number in found]

    def set_of(self, value: Any, given: LabelSet, where: str, twice: Counter[str]) -> list[int] | None:
        """Return the classes of a document in order, each once; None = the document has none, or too few of them.

        Args:
            value: its labels, or with `columns` the mark of each class.
            given: how they are written.
            where: the document, for messages.
            twice: counts each further time that the document has a label.
        """
        if given.given_as == "columns":
            found = [self._is_marked(mark, name, where) for name, mark in zip(self._names, value, strict=True)]
            numbers = None if None in found else [number for number, marked in enumerate(found) if marked]
        else:
            if (labels := labels_of(value, given.separator)) is None:
                shown, sign = cut(repr(value), MOST_OF_VALUE), given.separator
                expected = "a list" if sign is None else f"a text with {sign!r} between labels"
                said = f"{where}: '{self._column}' has {shown}; expected {expected}."
                raise DataError(f"{said} 'label_set.separator' names another sign.")
            no_label = {MISSING} - self._spellings.keys()
            every = [self.number(label, where) for label in labels if cell_text(label) not in no_label]
            numbers = sorted({number for number in every if number is not None})
            if more := sum(number is not None for number in every) - len(numbers):
                twice["labels"] += more
        return None if numbers is None or len(numbers) < given.at_least else numbers

    def _is_marked(self, mark: Any, name: str, where: str) -> bool | None:
        """Return whether a mark says that a document has a class; None = that this is unknown."""
        text = cell_text(mark)
        if text in ("0", "1", "false", "true"):
            return text in ("1", "true")
        if text is not None and self._spellings.get(text, 0) is None:
            return None
        raise DataError(f"{where}: '{name}' has {cut(repr(mark), MOST_OF_VALUE)}; expected 0 or 1, or one of 'values'.")

    def check_order(self, names: Sequence[str], path: Path) -> None:
        """Refuse a file that gives a number the name of another class.

        Args:
            names: those of its numbers, in order.
            path: the file.
        """
        for number, name in enumerate(names):
            meant = self._by_name.get(cell_text(name) or name, number)
            if self._numbered and meant != number and str(number) not in self._by_name:
                raise DataError(
                    f"{path}: {number} in '{self._column}' is {name!r}, as its schema says, but 'labels' has it at "
                    f"place {meant}. Expected its order: {json.dumps(list(names), ensure_ascii=False)}."
                )


def labels_of(value: Any, separator: str | None) -> list[Any] | None:
    """Return the labels of a document, a list or a text; None if it is not written as `LabelSet` says.

    Args:
        value: its cell.
        separator: sign between the labels of a text; None = a text is a list.
    """
    if isinstance(value, list) or cell_text(value) == MISSING:
        return value if isinstance(value, list) else []
    with contextlib.suppress(ValueError, SyntaxError, MemoryError, RecursionError):
        if separator is None and isinstance(found := ast.literal_eval(str(value).strip()), list):
            return found
    if separator is not None and isinstance(value, str | int | float):
        return [part for part in str(value).split(separator) if part.strip()]
    return None


def _as_number(name: str) -> float | None:
    try:
        return number if math.isfinite(number := float(name)) else None
    except ValueError:
        return None


def values_by_id(
    paths: Sequence[str | Path],
    column: str,
    dialect: Dialect,
    id: str | None = "id",
    part: str = "",
    several: bool = False,
) -> dict[str, Any]:
    """Return the values of a column by the ids of the documents that they belong to.

    Args:
        paths: files with them, such as labels or folds.
        column: of the values; XML has those of its own.
        dialect: how the files are written.
        id: column of the ids; None = the documents are numbered, as those of `part`.
        part: of the documents.
        several: a document may have several values, which become a list.

    Raises:
        DataError: a file cannot be read, lacks a column, or has an id twice, unless there may be several values.
    """
    found: dict[str, Any] = {}
    number = itertools.count()
    for path in map(Path, paths):
        is_xml = suffix_of(path) == ".xml"
        columns = Columns(id, "" if is_xml else column, None)
        for row, (raw_id, value, hyperpartisan, *_) in enumerate(read_rows(path, columns, dialect), start=1):
            where = f"{path}, entry {row}"
            for cell, name in ((raw_id, id or "id"), (value, column)):
                _refuse_half(cell, where, name, dialect.encoding)
            named = is_xml or id is not None
            identity = _identity(raw_id, where, id or "id") if named else f"{part}-{next(number)}"
            if several:
                found.setdefault(identity, []).append(value)
                continue
            if identity in found:
                raise DataError(f"{where}: the id {identity!r} comes twice. Expected one entry for each document.")
            found[identity] = hyperpartisan if is_xml else value
    return found


class _Columned(NamedTuple):
    """Files with columns, and the column that is read in any case."""

    paths: Sequence[str | Path]
    own: str
    dialect: Dialect

    def __str__(self) -> str:
        return ", ".join(map(str, self.paths))

    def names(self) -> list[str]:
        """Return the other columns that all files have."""
        first, *others = [column_names(Path(path), self.dialect) for path in self.paths]
        return [name for name in first if name != self.own and all(name in names for names in others)]

    def values(self, name: str) -> list[str | None]:
        """Return the values of a column as texts."""
        columns = Columns(name, self.own, None)
        return [cell_text(row[0]) for path in self.paths for row in read_rows(Path(path), columns, self.dialect)]


def _refuse_another_order(texts: _Columned, labels: _Columned) -> None:
    """Refuse labels that would go to texts by their order, where a column that both have shows that it differs.

    Other values in another order are no sign of it, unless a column has every value once, as an identity does.
    """
    for name in (name for name in texts.names() if name in labels.names()):
        own, theirs = texts.values(name), labels.values(name)
        differ = next((row for row, values in enumerate(zip(own, theirs, strict=False), 1) if len({*values}) > 1), None)
        identity = len({*own}) == len(own) and len({*theirs}) == len(theirs)
        if differ is not None and (identity or Counter(own) == Counter(theirs)):
            values = [cut(repr(each[differ - 1]), MOST_OF_VALUE) for each in (theirs, own)]
            raise DataError(
                f"{labels}: without 'id', label n goes to text n, but in row {differ} {name!r} is {values[0]} here and "
                f"{values[1]} in {texts}. Set 'id: {name}' to join them by it, or rename this column."
            )


def _identity(value: Any, where: str, column: str) -> str:
    is_name = cell_text(value) not in (None, MISSING) and not isinstance(value, bool)
    if not is_name or len(name := str(value)) > _MOST_OF_ID:
        shown = cut(repr(value), MOST_OF_VALUE)
        raise DataError(f"{where}: the id is {shown}; expected 1 to {_MOST_OF_ID} characters in '{column}'.")
    return name


def _spans(value: Any, column: str, characters: int, where: str) -> tuple[list[Span], Counter[str]]:
    try:
        spans = parse_spans(value)
    except ValueError as error:
        raise DataError(f"{where}: {error}. Expected spans such as [[0, 12]] in '{column}'.") from error
    return clean_spans(spans, characters, where)


def _number(
    value: Any, limits: tuple[float, float], values: Mapping[str, str | None], column: str, where: str
) -> float | None:
    low, high = limits
    if cell_text(value) in map(cell_text, values):
        return None
    # A text that looks like a number is one, since CSV has only text; NaN is within no limits.
    with contextlib.suppress(ValueError):
        is_number = isinstance(value, int | float | Decimal | str) and not isinstance(value, bool)
        if is_number and "_" not in str(value) and low <= float(value) <= high:  # Python reads 1_5 as 15
            return float(value)
    expected = f"a number from {low:g} to {high:g} in '{column}', or one of 'values'"
    raise DataError(f"{where}: the label is {value!r}; expected {expected}.")


def _group(value: Any, column: str, where: str) -> str:
    if not (name := cell_text(value)):
        shown = cut(repr(value), MOST_OF_VALUE)
        raise DataError(f"{where}: the group is {shown}; expected a number or a name in '{column}'.")
    return name


def _body(value: Any, where: str, column: str, dialect: Dialect) -> str:
    """Return a text; only `encoding_errors: drop` leaves lone surrogates in it."""
    if value is None or value != value:  # NaN
        return ""
    if not isinstance(value, str):
        raise DataError(f"{where}: '{column}' has {cut(repr(value), MOST_OF_VALUE)}; expected a text.")
    if dialect.encoding_errors == "drop" or value.isascii() or not HALF.search(value):
        return value
    if dialect.encoding_errors == "replace":
        return HALF.sub("\ufffd", value)
    raise DataError(f"{where}: '{column}' {half_found(value, dialect.encoding)}; or set 'dialect.encoding_errors'.")


def _refuse_half(value: Any, where: str, column: str, encoding: str) -> None:
    """Refuse half of a character outside of a text: in an id, a label or a group."""
    if isinstance(value, str) and HALF.search(value):
        raise DataError(f"{where}: '{column}' {half_found(value, encoding)}.")
