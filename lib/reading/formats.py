"""File formats, read as a stream of rows: Parquet, CSV, JSONL, plain text and the XML of SemEval-2019 task 4.

Each file may be plain, gzipped, or the single member of a .zip. The suffix decides the format; a `Dialect` has
the rest.
"""

import contextlib
import csv
import functools
import itertools
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import defusedxml.ElementTree
import pyarrow as pa
import pyarrow.parquet as pq
from defusedxml import DefusedXmlException

from lib.core.errors import MOST_OF_VALUE, DataError, cut
from lib.core.inputs import unknown_format
from lib.preparing.settings.sources import Dialect
from lib.reading.cells import HALF, half_found
from lib.reading.raw_files import DAMAGE, Columns, check_columns, opened, text_lines, too_large, unpacked_bytes
from lib.reading.tables import WRITTEN, read_table, table_header

_BATCH_ROWS = 16
"""Rows of Parquet read at a time. A long text that is stored once for many rows is copied for each row."""
_BUFFER_BYTES = 1 << 18
_OBJECTS = "Expected one object per line, as pandas writes it with to_json(path, orient='records', lines=True)."


def read_rows(path: Path, columns: Columns, dialect: Dialect) -> Iterator[tuple[Any, ...]]:
    """Yield (id, text, label, group, fold, second text, marks of classes) of each document as the format gives them."""
    row = characters = 0
    try:
        if path.exists() and not path.is_file():
            raise DataError(f"{path}: is a folder, a pipe or a device. Expected a file.")
        with opened(path) as (suffix, stream):
            most = unpacked_bytes(path)
            for values in _reader(path, suffix, dialect)(stream, path, columns, dialect):
                row += 1
                characters += sum(len(value) for value in values if isinstance(value, str))
                if characters > most:
                    raise too_large(path, most)
                yield values
    except DataError:
        raise
    except _DAMAGE as error:
        where = f" after document {row}" if row else ""
        raise DataError(
            f"{path}: cannot be read{where} ({type(error).__name__}: {error}). Expected a whole file of the format of "
            f"its name, and text in {dialect.encoding}.{WRITTEN}"
        ) from error


_OF_TABLES = ("columns", "quotes", "quotechar", "escape", "comment", "skiprows")
# ValueError covers broken JSON and refused XML, LookupError an unknown encoding of XML.
_DAMAGE = (*DAMAGE, LookupError, csv.Error, pa.ArrowException, defusedxml.ElementTree.ParseError, DefusedXmlException)


def _reader(path: Path, suffix: str, dialect: Dialect) -> "_Reader":
    if dialect.document == "file":
        return _read_document
    if suffix == ".txt" and dialect.delimiter is not None:
        return read_table
    if suffix == ".txt" and any(getattr(dialect, name) is not None for name in _OF_TABLES):
        raise DataError(f"{path}: 'dialect' describes a table, but a .txt file is one only with 'dialect.delimiter'.")
    if suffix not in _READERS:
        raise DataError(f"{path}: {unknown_format(suffix)}.")
    return _READERS[suffix]


def _read_parquet(stream: IO[bytes], path: Path, columns: Columns, _: Dialect) -> Iterator[tuple[Any, ...]]:
    with contextlib.ExitStack() as stack:
        source: Any = path
        if path.suffix.lower() in (".gz", ".zip"):  # its footer is read first, so it must be unpacked
            source, most = stack.enter_context(tempfile.TemporaryFile()), unpacked_bytes(path)
            while chunk := stream.read(_BUFFER_BYTES):
                source.write(chunk)
                if source.tell() > most:
                    raise too_large(path, most)
        # A buffer instead of prefetching: otherwise a row group as large as the file is loaded as a whole.
        file = stack.enter_context(pq.ParquetFile(source, buffer_size=_BUFFER_BYTES, pre_buffer=False))
        check_columns(file.schema_arrow.names, columns, str(path))
        wanted = [name for name in columns.names if name is not None]
        for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=wanted):
            values = [
                itertools.repeat(None) if name is None else (value.as_py() for value in batch.column(name))
                for name in columns.names
            ]
            yield from zip(*values, strict=False)


def column_names(path: Path, dialect: Dialect) -> list[str]:
    """Return the names of the columns of a file; none if its format has none, or it cannot be read.

    Raises:
        DataError: a name has half of a character, as with another encoding.
    """
    names = _names(path, dialect)
    if half := next(filter(HALF.search, names), None):
        raise DataError(f"{path}: the name of the column {half!r} {half_found(half, dialect.encoding)}.")
    return names


def _names(path: Path, dialect: Dialect) -> list[str]:
    try:
        with opened(path) as (suffix, stream):
            if dialect.document == "file":
                return []
            if suffix == ".parquet":
                packed = path.suffix.lower() != suffix
                return pq.read_schema(pa.BufferReader(stream.read(unpacked_bytes(path))) if packed else path).names
            if suffix in (".csv", ".tsv") or (suffix == ".txt" and dialect.delimiter is not None):
                return table_header(stream, path, dialect)
            if suffix in (".jsonl", ".json"):
                first = json.loads(next(line for line in text_lines(stream, path, dialect) if not line.isspace()))
                return list(first) if isinstance(first, dict) else []
            return []
    except (*DAMAGE, csv.Error, pa.ArrowException, StopIteration, TypeError):
        return []  # who reads the file says what is wrong


def class_names(path: Path, column: str) -> list[str]:
    """Return the names that a Parquet file of the library `datasets` gives the numbers in a column; else none."""
    if path.suffix.lower() != ".parquet" or not path.is_file():
        return []
    # Damage is reported by the reader of the rows.
    with contextlib.suppress(*DAMAGE, pa.ArrowException, LookupError, TypeError, AttributeError):
        schema = pq.read_schema(path)
        feature = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"][column]
        numbers = schema.field(column).type
        if pa.types.is_integer(getattr(numbers, "value_type", numbers)):
            return list(feature.get("feature", feature)["names"])  # of a list of numbers, the feature is one deeper
    return []


def _read_jsonl(stream: IO[bytes], path: Path, columns: Columns, dialect: Dialect) -> Iterator[tuple[Any, ...]]:
    of_text, named = Columns(None, columns.text, None, text_pair=columns.text_pair), False
    for line_number, line in enumerate(text_lines(stream, path, dialect), start=1):
        if line.isspace():
            continue
        where = f"{path}, line {line_number}"
        try:
            entry = json.loads(line, object_pairs_hook=functools.partial(_with_distinct_keys, where))
        except json.JSONDecodeError as error:
            raise DataError(f"{where}: is not JSON ({error}). {_OBJECTS}") from error
        if not isinstance(entry, dict):
            raise DataError(f"{where}: is {cut(line.strip(), MOST_OF_VALUE)}, which has no names. {_OBJECTS}")
        # The first document has all columns, null where it has none; each has its texts.
        check_columns(list(entry), of_text if named else columns, where, dialect.encoding)
        named = True
        yield tuple(None if name is None else entry.get(name) for name in columns.names)


def _with_distinct_keys(where: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(entry := dict(pairs)) < len(pairs):
        doubled = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise DataError(f"{where}: has the key {cut(repr(doubled), MOST_OF_VALUE)} twice. Expected every key once.")
    return entry


def _read_text(stream: IO[bytes], path: Path, columns: Columns, dialect: Dialect) -> Iterator[tuple[Any, ...]]:
    _refuse_columns(path, columns, "text")
    for number, line in enumerate(text_lines(stream, path, dialect, newline="\n")):
        text = line.rstrip("\r\n")
        # Without any line feed, as on old Macs, carriage returns end the lines.
        for document in [text] if number or line.endswith("\n") else text.split("\r"):
            yield None, document, None, None, None, None


def _read_document(stream: IO[bytes], path: Path, columns: Columns, dialect: Dialect) -> Iterator[tuple[Any, ...]]:
    """Yield the only document of a file, whose label is the name of its folder."""
    _refuse_columns(path, columns, "text", "label")
    label = None if columns.label is None else path.parent.name
    yield None, "".join(text_lines(stream, path, dialect)), label, None, None, None


def _refuse_columns(path: Path, columns: Columns, *allowed: str) -> None:
    if extra := [name for name, value in columns._asdict().items() if value is not None and name not in allowed]:
        raise DataError(f"{path}: the format has no columns, so {', '.join(extra)} cannot be read. Leave it out.")


def _read_xml(stream: IO[bytes], path: Path, columns: Columns, _: Dialect) -> Iterator[tuple[Any, ...]]:
    """Yield (id, text, hyperpartisan) of each article.

    The text is all text of the article, that of links and after links and between paragraphs included; paragraphs
    are divided by line feeds.
    """
    _refuse_columns(path, columns, "id", "text")
    root = None
    found = False
    for event, element in defusedxml.ElementTree.iterparse(stream, events=("start", "end")):
        root = element if root is None else root
        if event == "start" or element.tag != "article":
            continue
        for paragraph in element.iter("p"):  # XML holds no NUL, which marks where one begins and ends
            paragraph.text, paragraph.tail = f"\0{paragraph.text or ''}", f"\0{paragraph.tail or ''}"
        paragraphs = filter(None, map(str.strip, "".join(element.itertext()).split("\0")))
        yield element.get("id", ""), "\n".join(paragraphs), element.get("hyperpartisan"), None, None, None
        found = True
        root.clear()  # nothing of an article outlives it
    if not found:
        raise DataError(f"{path}: has no <article>. Expected the XML of SemEval-2019 task 4.")


_Reader = Callable[[IO[bytes], Path, Columns, Dialect], Iterator[tuple[Any, ...]]]
_READERS: dict[str, _Reader] = {
    ".parquet": _read_parquet,
    ".csv": read_table,
    ".tsv": read_table,
    ".jsonl": _read_jsonl,
    ".json": _read_jsonl,
    ".txt": _read_text,
    ".xml": _read_xml,
}
