"""File formats, read as a stream of rows: Parquet, CSV, JSONL, plain text and the XML of SemEval-2019 task 4.

Each file may be plain, gzipped, or the single member of a .zip. The suffix decides the format.
"""

import contextlib
import csv
import functools
import gzip
import io
import itertools
import json
import math
import tempfile
import xml.sax
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import defusedxml.sax
import pyarrow as pa
import pyarrow.parquet as pq
from defusedxml import DefusedXmlException

from lib.core.errors import MOST_OF_VALUE, DataError, cut
from lib.core.inputs import format_of, unknown_format

_BATCH_ROWS = 16
"""Rows of Parquet read at a time. A long text that is stored once for many rows is copied for each row."""
_BUFFER_BYTES = 1 << 18

_MOST_CHARACTERS = 2**28
"""Longest line or field, in characters. A file of a few MB can unpack to one that exceeds memory."""

_UNPACKED_BYTES, _UNPACKED_TIMES = 2**30, 100
"""Bounds of an unpacked file: bytes, or times its own size if that is more. Texts rarely reach 20 times."""

# The csv module refuses fields above 128 KiB, which a long document exceeds.
csv.field_size_limit(_MOST_CHARACTERS)


class Columns(NamedTuple):
    """Names of the columns to read; None where there is none."""

    id: str | None
    text: str
    label: str | None
    group: str | None = None
    fold: str | None = None
    text_pair: str | None = None


def read_rows(path: Path, columns: Columns) -> Iterator[tuple[Any, ...]]:
    """Yield (id, text, label, group, fold, second text) of each document as the format gives them."""
    row = characters = 0
    try:
        if path.exists() and not path.is_file():
            raise DataError(
                f"{path}: is a folder, a pipe or a device. Expected a file, since it is read more than once; write the "
                "documents to one."
            )
        with _opened(path) as (suffix, stream):
            most = _most_bytes(path)
            for values in _READERS[suffix](stream, path, columns):
                row += 1
                characters += sum(len(value) for value in values if isinstance(value, str))
                if characters > most:
                    raise _unpacks(path, most)
                yield values
    except DataError:
        raise
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file. Expected a raw file of the corpus; check its source.") from error
    except _DAMAGE as error:
        where = f" after document {row}" if row else ""
        raise DataError(f"{path}: cannot be read{where} ({type(error).__name__}: {error}). {_remedy(error)}") from error


def named(value: Any) -> str | None:
    """Return the name that a value of a file gives; None if it is neither a text nor a number.

    JSON and Parquet also hold lists, mappings, truth values, NaN and bytes, and Python spells these its own way. JSON
    can spell half a character, which no other file holds.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    name = str(value)
    return name if name.isascii() or not any("\ud800" <= character <= "\udfff" for character in name) else None


def _most_bytes(path: Path) -> int:
    return max(_UNPACKED_BYTES, _UNPACKED_TIMES * path.stat().st_size)


def _unpacks(path: Path, most: int) -> DataError:
    return DataError(
        f"{path}: has {path.stat().st_size:,} bytes and unpacks to more than {most:,}. Expected at most "
        f"{_UNPACKED_TIMES} times its size. Check its content; if it is right, unpack it or divide it."
    )


def _remedy(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "Expected UTF-8; convert it from its own encoding, for instance by `iconv -f WINDOWS-1252 -t UTF-8`."
    return "Expected a whole, readable file; fetch or make it again."


# ValueError covers undecodable bytes, broken JSON and refused XML; OSError and RuntimeError broken archives.
_DAMAGE = (
    OSError,
    EOFError,
    ValueError,
    RuntimeError,
    csv.Error,
    zlib.error,
    zipfile.BadZipFile,
    pa.ArrowException,
    xml.sax.SAXException,
    DefusedXmlException,
)


def _suffix(path: Path) -> str:
    """Return the suffix that decides the format, checked."""
    suffix = format_of(path.name)
    if path.suffix.lower() == ".zip":
        with zipfile.ZipFile(path) as archive:
            suffix = Path(_only_member(archive, path)).suffix.lower()
    if suffix not in _READERS:
        raise DataError(f"{path}: {unknown_format(suffix)}.")
    return suffix


def _only_member(archive: zipfile.ZipFile, path: Path) -> str:
    # macOS adds a folder of its own to the archives that it makes.
    names = [i.filename for i in archive.infolist() if not i.is_dir() and not i.filename.startswith("__MACOSX/")]
    if len(names) != 1:
        raise DataError(f"{path}: holds {len(names)} files; expected a single one. Unpack it and name the files.")
    return names[0]


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[tuple[str, IO[bytes]]]:
    suffix = _suffix(path)
    with contextlib.ExitStack() as stack:
        if path.suffix.lower() == ".zip":
            archive = stack.enter_context(zipfile.ZipFile(path))
            yield suffix, stack.enter_context(archive.open(_only_member(archive, path)))
        elif path.suffix.lower() == ".gz":
            yield suffix, cast(IO[bytes], stack.enter_context(gzip.open(path)))
        else:
            yield suffix, stack.enter_context(path.open("rb"))


def _lines(stream: IO[bytes], path: Path, newline: str | None = None) -> Iterator[str]:
    """Yield the lines of a text in UTF-8, divided by `newline` as by `io.TextIOWrapper`."""
    text = io.TextIOWrapper(stream, "utf-8-sig", newline=newline)
    while line := text.readline(_MOST_CHARACTERS):
        if len(line) == _MOST_CHARACTERS:
            raise DataError(
                f"{path}: has a line of {_MOST_CHARACTERS} characters or more. Expected documents that memory holds; "
                "divide them, or check what the file unpacks to."
            )
        yield line


def _require(names: Sequence[str], columns: Columns, where: str) -> None:
    if missing := [name for name in columns if name is not None and name not in names]:
        raise DataError(
            f"{where}: has no column {', '.join(map(repr, missing))}; it has {', '.join(map(repr, names))}. Set "
            "'text', 'text_pair', 'id', 'label', 'group' and 'split.folds.column' to the names of its columns; those "
            "of a CSV are what stands in its first line."
        )
    if doubled := [name for name in columns if name is not None and names.count(name) > 1]:
        raise DataError(
            f"{where}: has several columns {', '.join(map(repr, doubled))}. Expected one of each that is read; rename "
            "the others."
        )


def _read_parquet(stream: IO[bytes], path: Path, columns: Columns) -> Iterator[tuple[Any, ...]]:
    with contextlib.ExitStack() as stack:
        source: Any = path
        if path.suffix.lower() in (".gz", ".zip"):  # its footer is read first, so it must be unpacked
            source, most = stack.enter_context(tempfile.TemporaryFile()), _most_bytes(path)
            while chunk := stream.read(_BUFFER_BYTES):
                source.write(chunk)
                if source.tell() > most:
                    raise _unpacks(path, most)
        # A buffer instead of prefetching: otherwise a row group as large as the file is loaded as a whole.
        file = stack.enter_context(pq.ParquetFile(source, buffer_size=_BUFFER_BYTES, pre_buffer=False))
        _require(file.schema_arrow.names, columns, str(path))
        wanted = [name for name in columns if name is not None]
        for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=wanted):
            values = [itertools.repeat(None) if name is None else _each(batch.column(name)) for name in columns]
            yield from zip(*values, strict=False)


def _each(column: pa.Array) -> Iterator[Any]:
    """Yield the values of a column one by one, so that memory holds one document at a time."""
    return (value.as_py() for value in column)


def _read_csv(stream: IO[bytes], path: Path, columns: Columns, delimiter: str = ",") -> Iterator[tuple[Any, ...]]:
    rows = csv.reader(_lines(stream, path, newline=""), delimiter=delimiter, strict=True)
    header = next(rows, [])
    _require(header, columns, str(path))
    places = [None if name is None else header.index(name) for name in columns]
    for row in rows:
        if not row:
            continue
        if len(row) != len(header):
            raise DataError(
                f"{path}, line {rows.line_num}: has {len(row)} fields; expected {len(header)} as in the header. "
                "Repair the file."
            )
        yield tuple(None if place is None else row[place] for place in places)


def _read_jsonl(stream: IO[bytes], path: Path, columns: Columns) -> Iterator[tuple[Any, ...]]:
    for line_number, line in enumerate(_lines(stream, path), start=1):
        if line.isspace():
            continue
        where = f"{path}, line {line_number}"
        try:
            entry = json.loads(line, object_pairs_hook=functools.partial(_with_distinct_keys, where))
        except json.JSONDecodeError as error:
            raise DataError(f"{where}: is not JSON ({error}). Expected one object per line; fix the file.") from error
        if not isinstance(entry, dict):
            raise DataError(f"{where}: is a {type(entry).__name__}; expected an object with named values.")
        _require(list(entry), columns, where)
        values = tuple(None if name is None else entry[name] for name in columns)
        for value in (values[1], values[-1]):
            if isinstance(value, str):
                value.encode()  # escapes can spell half a character (a lone surrogate), which no file can hold
        yield values


def _with_distinct_keys(where: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(entry := dict(pairs)) < len(pairs):
        doubled = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise DataError(
            f"{where}: has the key {cut(repr(doubled), MOST_OF_VALUE)} twice. Expected every key once, or which value "
            "holds would be a guess. Remove one of them."
        )
    return entry


def _read_text(stream: IO[bytes], path: Path, columns: Columns) -> Iterator[tuple[Any, ...]]:
    if any(value is not None for name, value in columns._asdict().items() if name != "text"):
        raise DataError(
            f"{path}: plain text has one document per line, no ids, no labels, no groups, no folds and no pairs. Set "
            "'id' and 'group' to null; for labelled documents use Parquet, CSV or JSONL."
        )
    for line in _lines(stream, path):
        yield None, line.rstrip("\n"), None, None, None, None


def _read_xml(stream: IO[bytes], path: Path, columns: Columns) -> Iterator[tuple[Any, ...]]:
    if columns.label is not None:
        raise DataError(f"{path}: the XML of the articles holds no labels. Name its 'ground_truth' in the source.")
    if columns.group is not None:
        raise DataError(f"{path}: the XML of the articles holds no groups. Set 'group' to null.")
    if columns.fold is not None:
        raise DataError(f"{path}: the XML of the articles holds no folds. Name a file of them in 'split.folds.file'.")
    if columns.text_pair is not None:
        raise DataError(f"{path}: the XML of the articles holds no pairs of texts. Set 'text_pair' to null.")
    parser = defusedxml.sax.make_parser()
    articles = _Articles()
    parser.setContentHandler(articles)
    found = False
    while chunk := stream.read(_BUFFER_BYTES):
        parser.feed(chunk)
        found = found or bool(articles.finished)
        yield from ((*article, None, None, None) for article in articles.finished)
        articles.finished.clear()
    parser.close()
    if not found:
        raise DataError(f"{path}: has no <article>. Expected the XML of SemEval-2019 task 4.")


class _Articles(xml.sax.ContentHandler):
    """Collects (id, text, hyperpartisan) of each article; nothing of an article outlives it.

    The text is all text of the article, that of links and after links and between paragraphs included; paragraphs
    are divided by line feeds.
    """

    def __init__(self) -> None:
        super().__init__()
        self.finished: list[tuple[str, str, str | None]] = []
        self._paragraphs: list[str] = []
        self._pieces: list[str] = []

    def startElement(self, name: str, attrs: Any) -> None:  # noqa: N802
        if name == "article":
            self._attributes = attrs.get("id", ""), attrs.get("hyperpartisan")
            self._paragraphs = []
            self._pieces = []
        elif name == "p":
            self._end_paragraph()

    def endElement(self, name: str) -> None:  # noqa: N802
        if name == "p":
            self._end_paragraph()
        elif name == "article":
            self._end_paragraph()
            identity, hyperpartisan = self._attributes
            self.finished.append((identity, "\n".join(self._paragraphs), hyperpartisan))

    def characters(self, content: str) -> None:
        self._pieces.append(content)

    def _end_paragraph(self) -> None:
        if paragraph := "".join(self._pieces).strip():
            self._paragraphs.append(paragraph)
        self._pieces = []


_READERS: dict[str, Callable[[IO[bytes], Path, Columns], Iterator[tuple[Any, ...]]]] = {
    ".parquet": _read_parquet,
    ".csv": _read_csv,
    ".tsv": functools.partial(_read_csv, delimiter="\t"),
    ".jsonl": _read_jsonl,
    ".json": _read_jsonl,
    ".txt": _read_text,
    ".xml": _read_xml,
}
