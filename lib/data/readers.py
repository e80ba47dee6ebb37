"""Raw files to records, streaming: Parquet, CSV, JSONL, plain text and the XML of SemEval-2019 task 4.

Each may be plain, gzipped, or the single member of a .zip. The suffix decides the format. Texts come out as they are
in the file; what to keep of them is decided elsewhere.
"""

import contextlib
import csv
import functools
import gzip
import io
import itertools
import json
import logging
import shutil
import tempfile
import xml.sax
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, cast

import defusedxml.sax
import pyarrow as pa
import pyarrow.parquet as pq
from defusedxml import DefusedXmlException

from lib.core.errors import DataError
from lib.data.labels import IGNORED
from lib.data.spans import Span, clean_spans, parse_spans

logger = logging.getLogger(__name__)

_BATCH_ROWS = 128
_PROGRESS_ROWS = 100_000
_BUFFER_BYTES = 1 << 18

_MOST_CHARACTERS = 2**28
"""Of a line, or of a field of several lines. A file of a few MB can unpack to one that no memory holds."""

# The csv module refuses fields above 128 KiB, which a long document exceeds.
csv.field_size_limit(_MOST_CHARACTERS)


class Record(NamedTuple):
    """One document of a corpus."""

    part: str
    id: str
    text: str
    label: int | float | list[int] | list[Span] | None
    """Number of the class, or one per word (-100 = none), or spans, or a number that is no class; None where no label
    was asked for."""
    group: int | None = None
    """Number by which scores can be told apart; None where none was asked for."""
    fold: Any = None
    """As it is in the file; None where none was asked for."""
    text_pair: str | None = None
    """Second text; None where none was asked for."""


class _Columns(NamedTuple):
    """Names of the columns to read; None where there is none."""

    id: str | None
    text: str
    label: str | None
    group: str | None = None
    fold: str | None = None
    text_pair: str | None = None


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
            name stands for the class of that name; otherwise it is a number from 0 or, of two classes, true or false.
            Where a name is the number of another class, as in `["1", "0"]`, labels must be names.
        label_per: what bears a label. Those of words are a list (Parquet, JSONL), each entry by the same rule; null or
            -100 = no label. Spans are cleaned as by `lib.data.spans.clean_spans`, and the log says how many were.
        group: column of a whole number; None reads none.
        fold: column of the fold; None reads none.
        ground_truth: ground-truth XML files by part; they label the XML articles of that part.
        text_pair: column of the second text of each document; None reads none.
        label_range: lowest and highest label, if labels are numbers; None = they are classes.
        unlabelled: parts without labels, of which no column of labels is read.

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
            columns = _Columns(id, text, None if truth.paths else asked, group, fold, text_pair)
            for rows, (raw_id, raw_text, raw_label, raw_group, raw_fold, *raw_pair) in enumerate(
                _read_file(path, columns), start=1
            ):
                where = f"{path}, document {rows}"
                identity = f"{part}-{next(number)}"
                if id is not None or raw_id is not None:
                    identity = _identity(raw_id, where)
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
    If this text is a name, it stands for the class of that name. Otherwise it is a class number from 0 or, of two
    classes, false for 0 and true for 1. Where a name is itself the number (or the truth value) of another class, as in
    `["1", "0"]` and `["1", "2"]`, numbers could mean two things, so only names are understood.
    """

    def __init__(self, column: str, names: Sequence[str]):
        self._column = column
        self._names = list(names)
        truths = {"false": 0, "true": 1} if len(names) == 2 else {}
        by_name = {_as_text(name): number for number, name in enumerate(names)}
        numbers = {name: truths.get(name, _as_number(name)) for name in by_name}
        self._misleading = [n for n, number in numbers.items() if number in range(len(names)) and number != by_name[n]]
        by_number = {} if self._misleading else {str(number): number for number in range(len(names))} | truths
        self._spellings: dict[str, int] = by_number | by_name

    def number(self, value: Any, where: str) -> int:
        """Return the class that `value` stands for."""
        found = self._spellings.get(_as_text(value)) if isinstance(value, bool | int | str) else None
        if found is None:
            raise DataError(
                f"{where}: the label is {value!r}; expected {self._expectation()}. Check the file, "
                f"'label: {self._column}', 'labels' and 'values'."
            )
        return found

    def numbers(self, values: Any, where: str) -> list[int]:
        """Return the classes that a list of labels stands for; `IGNORED` for an entry that is no label."""
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
            for row, (identity, _, hyperpartisan, *_) in enumerate(_read_file(path, _Columns(None, "", None)), start=1):
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


def _identity(value: Any, where: str) -> str:
    if value is None or value == "":
        raise DataError(f"{where}: has no id. Expected one for each document; repair the file or set 'id' to null.")
    return str(value)


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
    # What is written like a number is one, since CSV holds nothing but text; NaN is within no limits.
    with contextlib.suppress(ValueError):
        if isinstance(value, int | float | str) and not isinstance(value, bool) and low <= float(value) <= high:
            return float(value)
    raise DataError(
        f"{where}: the label is {value!r}; expected a number from {low:g} to {high:g}. Check the file, "
        f"'label: {column}' and 'label_range'."
    )


def _group(value: Any, column: str, where: str) -> int:
    # What is written like a whole number is one, since CSV holds nothing but text.
    with contextlib.suppress(ValueError):
        if isinstance(value, int | str) and not isinstance(value, bool):
            return int(value)
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


def _read_file(path: Path, columns: _Columns) -> Iterator[tuple[Any, ...]]:
    """Yield (id, text, label, group, fold, second text) of each document as the format gives them."""
    row = 0
    try:
        if path.exists() and not path.is_file():
            raise DataError(
                f"{path}: is a folder, a pipe or a device. Expected a file, since it is read more than once; write the "
                "documents to one."
            )
        with _opened(path) as (suffix, stream):
            for values in _READERS[suffix](stream, path, columns):
                row += 1
                yield values
    except DataError:
        raise
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file. Expected a raw file of the corpus; check its source.") from error
    except _DAMAGE as error:
        where = f" after document {row}" if row else ""
        raise DataError(f"{path}: cannot be read{where} ({type(error).__name__}: {error}). {_remedy(error)}") from error


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
    name = path.name
    if path.suffix.lower() == ".zip":
        with zipfile.ZipFile(path) as archive:
            name = _only_member(archive, path)
    elif path.suffix.lower() == ".gz":
        name = path.stem
    suffix = Path(name).suffix.lower()
    if suffix not in _READERS:
        raise DataError(
            f"{path}: the suffix {suffix!r} names no known format. Expected one of {', '.join(_READERS)}, plain, "
            "gzipped (.gz), or alone in a .zip."
        )
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


def _require(names: Sequence[str], columns: _Columns, where: str) -> None:
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


def _read_parquet(stream: IO[bytes], path: Path, columns: _Columns) -> Iterator[tuple[Any, ...]]:
    with contextlib.ExitStack() as stack:
        source: Any = path
        if path.suffix.lower() in (".gz", ".zip"):  # its footer is read first, so it must be unpacked
            source = stack.enter_context(tempfile.TemporaryFile())
            shutil.copyfileobj(stream, source)
        # A buffer instead of prefetching: otherwise a row group as large as the file is loaded as a whole.
        file = stack.enter_context(pq.ParquetFile(source, buffer_size=_BUFFER_BYTES, pre_buffer=False))
        _require(file.schema_arrow.names, columns, str(path))
        wanted = [name for name in columns if name is not None]
        for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=wanted):
            lists = [itertools.repeat(None) if name is None else batch.column(name).to_pylist() for name in columns]
            yield from zip(*lists, strict=False)


def _read_csv(stream: IO[bytes], path: Path, columns: _Columns, delimiter: str = ",") -> Iterator[tuple[Any, ...]]:
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


def _read_jsonl(stream: IO[bytes], path: Path, columns: _Columns) -> Iterator[tuple[Any, ...]]:
    for line_number, line in enumerate(_lines(stream, path), start=1):
        if line.isspace():
            continue
        where = f"{path}, line {line_number}"
        try:
            entry = json.loads(line)
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


def _read_text(stream: IO[bytes], path: Path, columns: _Columns) -> Iterator[tuple[Any, ...]]:
    if any(value is not None for name, value in columns._asdict().items() if name != "text"):
        raise DataError(
            f"{path}: plain text has one document per line, no ids, no labels, no groups, no folds and no pairs. Set "
            "'id' and 'group' to null; for labelled documents use Parquet, CSV or JSONL."
        )
    for line in _lines(stream, path):
        yield None, line.rstrip("\n"), None, None, None, None


def _read_xml(stream: IO[bytes], path: Path, columns: _Columns) -> Iterator[tuple[Any, ...]]:
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


_READERS: dict[str, Callable[[IO[bytes], Path, _Columns], Iterator[tuple[Any, ...]]]] = {
    ".parquet": _read_parquet,
    ".csv": _read_csv,
    ".tsv": functools.partial(_read_csv, delimiter="\t"),
    ".jsonl": _read_jsonl,
    ".json": _read_jsonl,
    ".txt": _read_text,
    ".xml": _read_xml,
}
