"""Tables in CSV and TSV, as a dialect reads them. One that another dialect reads as well is refused."""

import csv
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from lib.core.errors import MOST_OF_VALUE, DataError, cut
from lib.preparing.settings.sources import Dialect
from lib.reading.raw_files import DAMAGE, MOST_CHARACTERS, Columns, check_columns, opened, suffix_of, text_lines

# The csv module refuses fields above 128 KiB, which a long document exceeds.
csv.field_size_limit(MOST_CHARACTERS)

WRITTEN = " If it is written in another way, say so under 'dialect'."
"""End of a message about a table."""


def read_table(stream: IO[bytes], path: Path, columns: Columns, dialect: Dialect) -> Iterator[tuple[Any, ...]]:
    """Yield the values of the columns of each row.

    Raises:
        DataError: a column is missing, a row has more or fewer fields, or the table can be read in two ways.
    """
    table = _Rows(text_lines(stream, path, dialect, newline=""), path, dialect)
    rows = iter(table)
    quoted = _quoted(path, dialect)
    header = dialect.columns or next(rows, [])
    check_columns(header, columns, str(path), dialect.encoding)
    places = [None if name is None else header.index(name) for name in columns.names]
    names = list(header) if len(header) > 1 else None  # a single column may hold a text like its name
    # Who says how marks are escaped, or which ones there are, says that there are some.
    said = dialect.quotes is not None or dialect.quotechar or (quoted and dialect.escape)
    unsaid: dict[str, bool | str] = {} if said else {"quotes": not quoted}
    unsaid |= {"escape": "backslash"} if dialect.escape is None else {}
    for row in rows:
        if not row:
            continue
        where = f"{path}, line {table.line}"
        if [row[0].removeprefix("\ufeff"), *row[1:]] == names:
            raise DataError(f"{where}: has the names of the columns. Expected a document; remove this line.")
        if len(row) != len(header):
            raise DataError(f"{where}: has {len(row)} fields; expected {len(header)}, as there are columns.{WRITTEN}")
        for key in [key for key in unsaid if any(_is_sign(key, field, quoted, dialect) for field in row)]:
            other = dialect.model_copy(update={key: unsaid.pop(key)})  # one look at the whole file is enough
            # The lines of a table with one column fit without quotation marks, whatever they hold.
            may_be_cut = key == "quotes" and not quoted
            if (len(header) > 1 or not quoted) and _fits(path, columns, other, may_be_cut=may_be_cut):
                shown = cut(repr(row), MOST_OF_VALUE)
                raise DataError(
                    f"{where}: marks in {shown} may be part of the text or of the table; set 'dialect.{key}'."
                )
        yield tuple(None if place is None else row[place] for place in places)


def _is_sign(key: str, field: str, quoted: bool, dialect: Dialect) -> bool:
    """Return whether a field may be another one if quotation marks, or backslashes, have the other meaning.

    These are a quotation mark that may enclose a field, a line feed that may be the end of a row, and a backslash that
    may escape the end of a field.
    """
    mark = dialect.quotechar or '"'
    if key == "escape":
        return field.endswith("\\") or (quoted and f"\\{mark}" in field)
    return "\n" in field if quoted else field.startswith(mark)


def _fits(path: Path, columns: Columns, dialect: Dialect, *, may_be_cut: bool) -> bool:
    """Return whether a table has the columns, and every row one field for each, by a dialect.

    If it may be cut, an open quotation mark in its last line fits, too.
    """
    with opened(path) as (_, stream):
        lines = text_lines(stream, path, dialect, newline="")
        rows = iter(_Rows(lines, path, dialect))
        try:
            header = dialect.columns or next(rows, [])
            return {*columns.names} - {None} <= {*header} and all(len(row) in (0, len(header)) for row in rows)
        except csv.Error:
            return may_be_cut and next(lines, None) is None
        except DAMAGE:
            return False


class _Rows:
    """The rows of a table, without the lines that are none.

    These are the first `skiprows` lines, comments, and a first line such as `sep=;`, which tells spreadsheets the
    delimiter. `line` is the number of the last line that was read.
    """

    def __init__(self, lines: Iterator[str], path: Path, dialect: Dialect) -> None:
        self.line = 0
        self._within_row = False
        self._reader = csv.reader(
            self._kept(lines, dialect),
            delimiter=_delimiter(path, dialect),
            quotechar=dialect.quotechar or '"',
            quoting=csv.QUOTE_MINIMAL if _quoted(path, dialect) else csv.QUOTE_NONE,
            escapechar="\\" if dialect.escape == "backslash" else None,
            strict=True,
        )

    def _kept(self, lines: Iterator[str], dialect: Dialect) -> Iterator[str]:
        for self.line, line in enumerate(lines, start=1):
            is_comment = dialect.comment is not None and line.startswith(dialect.comment) and not self._within_row
            if self.line > (dialect.skiprows or 0) and not is_comment:
                self._within_row = True
                yield line

    def __iter__(self) -> Iterator[list[str]]:
        for number, row in enumerate(self._reader):
            self._within_row = False
            if number or not row or row[1:] not in ([], [""]) or not _HINT.fullmatch(row[0]):
                yield row


_HINT = re.compile("sep=.?", re.IGNORECASE)


def _delimiter(path: Path, dialect: Dialect) -> str:
    return dialect.delimiter or ("\t" if suffix_of(path) == ".tsv" else ",")


def _quoted(path: Path, dialect: Dialect) -> bool:
    if dialect.quotes is not None:
        return dialect.quotes
    return dialect.quotechar is not None or _delimiter(path, dialect) != "\t"


DELIMITERS = ",;\t|"
"""Signs that may divide the fields of a table whose delimiter is not given."""


def shown_delimiter(names: Sequence[str]) -> str | None:
    """Return the delimiter that the name of a table's only column holds, so that it may have several; else None."""
    return next((sign for sign in DELIMITERS if len(names) == 1 and sign in names[0]), None)


def dialects(path: Path, given: Dialect | None = None) -> list[Dialect]:
    """Return the given dialect of a file and, if it is a table without a given delimiter, others with each delimiter.

    Args:
        path: the file.
        given: its dialect as far as it is known; None = as by default.
    """
    given = given or Dialect()
    others = DELIMITERS.replace(_delimiter(path, given), "") if suffix_of(path) in (".csv", ".tsv") else ""
    return [given, *(given.model_copy(update={"delimiter": sign}) for sign in others if given.delimiter is None)]


def table_header(stream: IO[bytes], path: Path, dialect: Dialect) -> list[str]:
    """Return the names of the columns of a table."""
    rows = _Rows(text_lines(stream, path, dialect, newline=""), path, dialect)
    return list(dialect.columns or next(iter(rows), []))
