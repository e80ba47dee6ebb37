"""Raw files to records, streaming, in any format of `lib.data.formats`.

Texts come out as they are in the file; what to keep of them is decided elsewhere.
"""

import contextlib
import itertools
import logging
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from lib.core.errors import MOST_OF_VALUE, DataError, cut
from lib.data.formats import Columns, named, read_rows
from lib.data.labels import IGNORED
from lib.data.spans import Span, clean_spans, parse_spans

logger = logging.getLogger(__name__)

_PROGRESS_ROWS = 100_000
_MOST_OF_ID = 4_096


class Record(NamedTuple):
    """One document of a corpus."""

    part: str
    id: str
    text: str
    label: int | float | list[int] | list[Span] | None
    """Number of the class, or one per word (-100 = none), or spans, or a number that is no class; None where no label
    was asked for."""
    group: int | None = None
    """Number that scores can be grouped by; None if none was requested."""
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
    group: str | None = None,
    fold: str | None = None,
    ground_truth: Mapping[str, Sequence[str | Path]] | None = None,
    text_pair: str | None = None,
    label_range: tuple[float, float] | None = None,
    unlabelled: Collection[str] = (),
) -> Iterator[Record]:
    """Yield the documents of `files`, part by part, in file order.

    A missing text (null) is read as an empty one.

    Args:
        files: raw files, by part.
        text: column of the text (Parquet, CSV, JSONL).
        id: column of the identity; None numbers the documents of a part from 0: `train-0`. The XML has its own.
        label: column of the label; None reads no labels.
        labels: names of the classes, in the order of their numbers. In every format, a label that is written like a
            name is the class of that name; otherwise it is a number from 0 or, of two classes, true or false.
            Where a name is the number of another class, as in `["1", "0"]`, labels must be names.
        label_per: what bears a label. Those of words are a list (Parquet, JSONL), each entry by the same rule; null or
            -100 = no label. Spans are cleaned as by `lib.data.spans.clean_spans`, and the log says how many were.
        group: column of a whole number; None reads none.
        fold: column of the fold; None reads none.
        ground_truth: ground-truth XML files by part; they label the XML articles of that part.
        text_pair: column of the second text of each document; None reads none.
        label_range: lowest and highest label, if labels are numbers; None = they are classes.
        unlabelled: parts without labels, whose column of labels is not read.

    Raises:
        DataError: a file is missing, damaged, of an unknown format, without a named column, or holds no text at all; a
            label or group is missing or unknown; a span is none, inverted, or outside of its text; an id comes twice;
            a ground truth does not match its articles.
    """
    classes = _Classes(label, labels) if label is not None and label_range is None else None
    seen: set[str] = set()
    for part, paths in files.items():
        truth = _Truth(list((ground_truth or {}).get(part, ())), classes)
        asked = None if part in unlabelled else label
        if truth.paths and label_per != "document":
            raise DataError(
                f"{truth.paths}: labels whole articles, but label_per is '{label_per}'. Set it to 'document', or "
                "leave the ground truth out."
            )
        number = itertools.count()
        for path in map(Path, paths):
            rows = blank = 0
            repaired: Counter[str] = Counter()
            columns = Columns(id, text, None if truth.paths else asked, group, fold, text_pair)
            for rows, (raw_id, raw_text, raw_label, raw_group, raw_fold, *raw_pair) in enumerate(
                read_rows(path, columns), start=1
            ):
                where = f"{path}, document {rows}"
                identity = f"{part}-{next(number)}"
                if id is not None or raw_id is not None:
                    identity = _identity(raw_id, where, id)
                    if identity in seen:
                        raise DataError(
                            f"{where}: the id {identity!r} comes twice. Expected every id once, or the splits would "
                            "leak. Remove one, or set 'id' to another column or to null."
                        )
                    seen.add(identity)
                body = _body(raw_text, where)
                second = None if text_pair is None else _body(raw_pair[0], where)
                blank += not body or body.isspace()
                known: int | float | list[int] | list[Span] | None = None
                if asked is None:
                    pass
                elif label_range is not None:
                    known = _number(raw_label, label_range, asked, where)
                elif classes is not None and truth.paths:
                    known = truth.label(identity, where)
                elif label is not None and label_per == "span":
                    known, counts = _spans(raw_label, label, len(body), f"{where} ({identity!r})")
                    repaired.update(counts)
                elif classes is not None:
                    known = (classes.numbers if label_per == "word" else classes.number)(raw_label, where)
                if rows % _PROGRESS_ROWS == 0:
                    logger.info("%s: %d documents", path, rows)
                number_of_group = None if group is None else _group(raw_group, group, where)
                yield Record(part, identity, body, known, number_of_group, raw_fold, second)
            if repaired.total():
                logger.warning(
                    "%s: spans: clipped %d that overran their text, dropped %d without a character, united %d with the "
                    "one that they overlap or touch",
                    path,
                    *(repaired[name] for name in ("clipped", "empty", "united")),
                )
            if rows == blank:
                what = "holds no document" if rows == 0 else f"all {rows} texts are empty"
                raise DataError(f"{path}: {what}. Expected documents with text; check the file and 'text: {text}'.")
        truth.check_spent()


class _Classes:
    """The classes of a dataset, and the spellings that name them.

    One rule holds for every format. A value is read as text: 1 and "1" are the same, and so are true, True and "true".
    If this text is a name, it is the class of that name. Otherwise it is a class number from 0 or, of two
    classes, false for 0 and true for 1. Where a name is itself the number (or the truth value) of another class, as in
    `["1", "0"]` and `["1", "2"]`, numbers could mean two things, so only names are understood.
    """

    def __init__(self, column: str, names: Sequence[str]):
        self._column = column
        self._names = list(names)
        truths = {"false": 0, "true": 1} if len(names) == 2 else {}
        by_name = {_as_text(name): number for number, name in enumerate(names)}
        numbers = {name: truths.get(name, _as_number(name)) for name in by_name}
        of_classes = set(range(len(names)))  # a range looks through all of its numbers for one that is a float
        self._misleading = [n for n, number in numbers.items() if number in of_classes and number != by_name[n]]
        by_number = {} if self._misleading else {str(number): number for number in range(len(names))} | truths
        self._spellings: dict[str, int] = by_number | by_name

    def number(self, value: Any, where: str) -> int:
        """Return the class of `value`."""
        found = self._spellings.get(_as_text(value)) if isinstance(value, bool | int | str) else None
        if found is None:
            raise DataError(
                f"{where}: the label is {value!r}; expected {self._expectation()}. Check the file, "
                f"'label: {self._column}', 'labels' and 'values'."
            )
        return found

    def numbers(self, values: Any, where: str) -> list[int]:
        """Return the classes of a list of labels; `IGNORED` for an entry without a label."""
        if not isinstance(values, list):
            raise DataError(
                f"{where}: the labels are {values!r}; expected a list with an entry per word. Check the file (Parquet "
                f"and JSONL hold lists) and 'label: {self._column}', or set 'label_per' to document."
            )
        return [IGNORED if value in (None, IGNORED) else self.number(value, where) for value in values]

    def _expectation(self) -> str:
        names = ", ".join(self._names)
        if self._misleading:
            return f"one of the names {names} (no class number: {self._misleading[0]!r} is the name of another class)"
        truth = ", true or false" if len(self._names) == 2 else ""
        return f"a number from 0 to {len(self._names) - 1}, one of {names}{truth}"


def _as_text(value: bool | int | str) -> str:
    text = str(value).strip()
    return text.lower() if text in ("True", "False") else text


def _as_number(name: str) -> float | None:
    try:
        return float(name)
    except ValueError:
        return None


class _Truth:
    """The ground truth of one part: a label for every article, each used once."""

    def __init__(self, paths: Sequence[str | Path], classes: _Classes | None):
        self.paths = ", ".join(map(str, paths))
        self._labels: dict[str, int] = {}
        self._used: set[str] = set()
        if classes is None:
            return
        for path in map(Path, paths):
            for row, (identity, _, hyperpartisan, *_) in enumerate(read_rows(path, Columns(None, "", None)), start=1):
                where = f"{path}, entry {row}"
                identity = _identity(identity, where)
                if identity in self._labels:
                    raise DataError(f"{where}: the id {identity!r} comes twice. Expected one entry for each article.")
                if hyperpartisan not in ("true", "false"):
                    raise DataError(
                        f"{where}: hyperpartisan is {hyperpartisan!r}; expected 'true' or 'false'. Check that "
                        "'ground_truth' names a ground-truth file."
                    )
                self._labels[identity] = classes.number(hyperpartisan, where)

    def label(self, identity: str, where: str) -> int:
        """Return the label of the article."""
        if identity not in self._labels:
            raise DataError(
                f"{where}: the ground truth ({self.paths}) has no entry for the id {identity!r}. Expected one for each "
                "article; check that both files belong together."
            )
        self._used.add(identity)
        return self._labels[identity]

    def check_spent(self) -> None:
        """Refuse entries without an article."""
        if extra := self._labels.keys() - self._used:
            raise DataError(
                f"{self.paths}: {len(extra)} entries have no article, such as {min(extra)!r}. Expected one article for "
                "each entry; check that both files belong together."
            )


def _identity(value: Any, where: str, column: str | None = None) -> str:
    if value is None or (isinstance(value, str) and not value.strip()):
        raise DataError(f"{where}: has no id. Expected one for each document; repair the file or set 'id' to null.")
    name = named(value)
    if name is None or len(name) > _MOST_OF_ID:
        raise DataError(
            f"{where}: the id is {cut(repr(value), MOST_OF_VALUE)}; expected a text of at most {_MOST_OF_ID} "
            f"characters, or a number. Repair the file, or set 'id: {column}' to another column or to null."
        )
    return name


def _spans(value: Any, column: str, characters: int, where: str) -> tuple[list[Span], Counter[str]]:
    try:
        spans = parse_spans(value)
    except ValueError as error:
        raise DataError(
            f"{where}: {error}. Expected spans such as [[0, 12], [27, 46]], in characters. Check the file and "
            f"'label: {column}'."
        ) from error
    return clean_spans(spans, characters, where)


def _number(value: Any, limits: tuple[float, float], column: str, where: str) -> float:
    low, high = limits
    # A text that looks like a number is one, since CSV has only text; NaN is within no limits.
    with contextlib.suppress(ValueError):
        if isinstance(value, int | float | str) and not isinstance(value, bool) and low <= float(value) <= high:
            return float(value)
    raise DataError(
        f"{where}: the label is {value!r}; expected a number from {low:g} to {high:g}. Check the file, "
        f"'label: {column}' and 'label_range'."
    )


def _group(value: Any, column: str, where: str) -> int:
    # A text that looks like an integer is one, since CSV has only text.
    with contextlib.suppress(ValueError):
        if isinstance(value, int | str) and not isinstance(value, bool) and abs(number := int(value)) < 2**63:
            return number
    raise DataError(
        f"{where}: the group is {value!r}; expected a whole number. Check the file and 'group: {column}', or set it to "
        "null."
    )


def _body(value: Any, where: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise DataError(f"{where}: the text is a {type(value).__name__}; expected a string. Check 'text'.")
    return value
