"""Tables in CSV and TSV, as a dialect reads them. One that another dialect reads as well is refused."""

import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from lib.core.errors import MOST_OF_VALUE, DataError, cut
from lib.data.cells import HALF
from lib.data.raw_files import DAMAGE, MOST_CHARACTERS, Columns, check_columns, opened, suffix_of, text_lines
from lib.data.settings.sources import Dialect

# The csv module refuses fields above 128 KiB, which a long document exceeds.
csv.field_size_limit(MOST_CHARACTERS)


def read_table(stream: IO[bytes], path: Path, columns: Columns, dialect: Dialect) -> Iterator[tuple[Any, ...]]:
    """Yield the values of the columns of each row.

    Raises:
        DataError: a column is missing, a row has more or fewer fields, or the table can be read in two ways.
    """
    reader = _parsed(text_lines(stream, path, dialect, newline=""), path, dialect)
    rows = _with_one_meaning(_without_hint(reader), path, columns, dialect)
    header = dialect.columns or next(rows, [])
    if not _has(header, columns) or any(name and HALF.search(name) for name in columns):
        check_columns(header, columns, str(path), other_dialects(path, columns, dialect), dialect.encoding)
    places = [None if name is None else header.index(name) for name in columns]
    names = list(header) if len(header) > 1 else None  # a single column may hold a text like its name
    for row in rows:
        if not row:
            continue
        if [row[0].removeprefix("\ufeff"), *row[1:]] == names:
            given = "Joined files have them in the middle; remove this line."
            if dialect.columns is not None:
                given = "If the file has a header, leave out 'dialect.columns'; otherwise remove this line."
            raise DataError(
                f"{path}, line {reader.line_num}: has the names of the columns. Expected a document. {given}"
            )
        if len(row) != len(header):
            expected = "the header" if dialect.columns is None else "dialect.columns"
            raise DataError(
                f"{path}, line {reader.line_num}: has {len(row)} fields; expected {len(header)} as in {expected}. "
                f"Repair the file.{other_dialects(path, columns, dialect)}"
            )
        yield tuple(None if place is None else row[place] for place in places)


def _parsed(lines: Iterator[str], path: Path, dialect: Dialect) -> Any:
    return csv.reader(
        lines,
        delimiter=_delimiter(path, dialect),
        quoting=csv.QUOTE_MINIMAL if _quoted(path, dialect) else csv.QUOTE_NONE,
        escapechar="\\" if dialect.escape == "backslash" else None,
        strict=True,
    )


def _without_hint(rows: Iterator[list[str]]) -> Iterator[list[str]]:
    """Yield rows but for a first line such as `sep=;`, which tells spreadsheets the delimiter and is no header."""
    for number, row in enumerate(rows):
        if number or not row or row[1:] not in ([], [""]) or not _HINT.fullmatch(row[0]):
            yield row


_HINT = re.compile("sep=.?", re.IGNORECASE)


def _delimiter(path: Path, dialect: Dialect) -> str:
    return dialect.delimiter or ("\t" if suffix_of(path) == ".tsv" else ",")


def _quoted(path: Path, dialect: Dialect) -> bool:
    return dialect.quotes if dialect.quotes is not None else _delimiter(path, dialect) != "\t"


def _has(header: Sequence[str], columns: Columns) -> bool:
    return all(name is None or header.count(name) == 1 for name in columns)


def _with_one_meaning(rows: Iterator[list[str]], path: Path, columns: Columns, dialect: Dialect) -> Iterator[list[str]]:
    """Yield rows until one has the sign of a dialect that reads the table as well.

    The signs are a quotation mark that may enclose a field, a line feed that may be the end of a row, and a backslash
    that may escape the end of a field.
    """
    quoted = _quoted(path, dialect)
    signs: dict[str, Callable[[str], bool]] = {}
    if dialect.quotes is None and not (quoted and dialect.escape):  # an escape is one of a quotation mark
        signs["quotes"] = (lambda field: "\n" in field) if quoted else (lambda field: field.startswith('"'))
    if dialect.escape is None:
        signs["escape"] = lambda field: field.endswith("\\") or (quoted and '\\"' in field)
    for row in rows:
        for key in [key for key, sign in signs.items() if any(map(sign, row))]:
            del signs[key]  # one look at the whole file is enough
            own = {"quotes": quoted} if key == "quotes" else {"escape": "none"}
            known = _ALSO_READ_BY[key, quoted] if len(row) > 1 or not quoted else ()  # lines of one field always fit
            others = [each for each in known if all(getattr(dialect, name) is None for name in each)]
            # A quotation mark without another one may be where a file was cut.
            may_be_cut = key == "quotes" and not quoted
            other = next((each for each in others if _fits(path, columns, dialect, each, may_be_cut=may_be_cut)), None)
            if other is not None:
                fitting = [each for each in (own, other) if each == other or _fits(path, columns, dialect, each)]
                raise DataError(
                    f"{path}: quotation marks or backslashes in {cut(repr(row), MOST_OF_VALUE)} may be part of the "
                    f"text or of the table. Expected a setting that decides.{_readable_with(dialect, fitting)}"
                )
        yield row


_ALSO_READ_BY: dict[tuple[str, bool], tuple[dict[str, Any], ...]] = {
    ("quotes", False): ({"quotes": True}, {"quotes": True, "escape": "backslash"}),
    ("quotes", True): ({"quotes": False},),
    ("escape", False): ({"escape": "backslash"},),
    ("escape", True): ({"escape": "backslash"},),
}
"""Other dialects that are possible, by the setting whose sign a row shows and whether quotation marks enclose."""
DELIMITERS = ",;\t|"
"""Signs that may divide the fields of a table whose delimiter is not given."""
_OF_FIELDS: tuple[dict[str, Any], ...] = (
    {"quotes": True},
    {"quotes": False},
    {"escape": "backslash"},
    {"quotes": True, "escape": "backslash"},
)
_CHANGES: tuple[dict[str, Any], ...] = (
    *_OF_FIELDS,
    *({"delimiter": delimiter} for delimiter in DELIMITERS),
    *({"delimiter": delimiter} | change for delimiter in DELIMITERS for change in _OF_FIELDS),
)
"""Changes of a dialect, in the order of trial."""


def other_dialects(path: Path, columns: Columns, dialect: Dialect) -> str:
    """Return a sentence about other dialects that read a table; nothing if there are none."""
    return _readable_with(dialect, fitting_changes(path, columns, dialect))


def only_dialect(path: Path, columns: Columns, dialect: Dialect) -> Dialect | None:
    """Return the only dialect that reads a table, if `dialect` does not read it; None if there are none or several."""
    if suffix_of(path) not in (".csv", ".tsv") or _fits(path, columns, dialect, {}):
        return None
    fitting = fitting_changes(path, columns, dialect)
    return dialect.model_copy(update=fitting[0]) if len(fitting) == 1 else None


def fitting_changes(path: Path, columns: Columns, dialect: Dialect) -> list[dict[str, Any]]:
    """Return changes of a dialect that give a table the columns, and every row one field for each.

    No change gives it a single column if another one gives several, or if the name of that column shows a delimiter.
    Where a change is enough, it is not proposed again together with others.
    """
    readings = {_reading(path, dialect)}
    fitting: list[dict[str, Any]] = []
    for change in _CHANGES:
        reading = _reading(path, dialect.model_copy(update=change))
        enough = any(each.items() < change.items() for each in fitting)
        if reading not in readings and not enough and _fits(path, columns, dialect, change):
            fitting.append(change)
        readings.add(reading)
    names = [_names(path, dialect.model_copy(update=change)) for change in fitting]
    several = [change for change, found in zip(fitting, names, strict=True) if len(found) > 1]
    return several or [change for change, found in zip(fitting, names, strict=True) if not shown_delimiter(found)]


def shown_delimiter(names: Sequence[str]) -> str | None:
    """Return the delimiter that the name of a table's only column holds, so that it may have several; else None."""
    return next((sign for sign in DELIMITERS if len(names) == 1 and sign in names[0]), None)


def dialects(path: Path, given: Dialect | None = None) -> list[Dialect]:
    """Return the dialects that a table may have, the default first; of a file of another format a single one.

    Args:
        path: the table.
        given: dialect whose settings hold in all of them, as far as they are set.
    """
    given = given or Dialect()
    if suffix_of(path) not in (".csv", ".tsv"):
        return [given]
    readings: dict[tuple[str, bool, bool], Dialect] = {}
    for change in ({}, *_CHANGES):
        dialect = Dialect(**change | given.model_dump(exclude_unset=True))
        readings.setdefault(_reading(path, dialect), dialect)
    return list(readings.values())


def _names(path: Path, dialect: Dialect) -> list[str]:
    with opened(path) as (_, stream):
        return table_header(stream, path, dialect)


def table_header(stream: IO[bytes], path: Path, dialect: Dialect) -> list[str]:
    """Return the names of the columns of a table."""
    rows = _parsed(text_lines(stream, path, dialect, newline=""), path, dialect)
    return list(dialect.columns or next(_without_hint(rows), []))


def _reading(path: Path, dialect: Dialect) -> tuple[str, bool, bool]:
    return _delimiter(path, dialect), _quoted(path, dialect), dialect.escape == "backslash"


def _readable_with(dialect: Dialect, changes: Sequence[dict[str, Any]]) -> str:
    given = dialect.model_dump(exclude_defaults=True)
    found = " or ".join(f"'dialect: {_as_yaml(given | change)}'" for change in changes)
    return f" It can be read with {found}." if changes else ""


def _fits(
    path: Path, columns: Columns, dialect: Dialect, change: Mapping[str, Any], *, may_be_cut: bool = False
) -> bool:
    """Return whether a table has the columns, and every row one field for each, by a dialect with a change.

    Args:
        path: the table.
        columns: the columns to read.
        dialect: how to read it.
        change: settings of the dialect to replace.
        may_be_cut: whether it also fits if only its last line breaks the rules.
    """
    dialect = dialect.model_copy(update=dict(change))
    with opened(path) as (_, stream):
        lines = text_lines(stream, path, dialect, newline="")
        rows = _without_hint(_parsed(lines, path, dialect))
        try:
            header = dialect.columns or next(rows, [])
            return _has(header, columns) and all(len(row) in (0, len(header)) for row in rows)
        except csv.Error:
            return may_be_cut and next(lines, None) is None
        except DAMAGE:
            return False


def _as_yaml(settings: Mapping[str, Any]) -> str:
    return f"{{{', '.join(f'{key}: {json.dumps(value)}' for key, value in settings.items())}}}"
