"""Raw files as they are opened: plain, gzipped, or as the single member of a .zip, with bounds against memory.

A byte that is not of a text's encoding becomes a lone surrogate, which the caller sees.
"""

import codecs
import contextlib
import gzip
import io
import lzma
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, NamedTuple, cast

from lib.core.errors import MOST_OF_VALUE, DataError, cut
from lib.core.files import litter, not_fetched
from lib.core.inputs import format_of
from lib.preparing.settings.sources import Dialect
from lib.reading.cells import HALF, half_found

MOST_CHARACTERS = 2**28
"""Longest line or field, in characters. A file of a few MB can unpack to one that exceeds memory."""

_UNPACKED_BYTES, _UNPACKED_TIMES = 2**30, 100
"""Bounds of an unpacked file: bytes, or times its own size if that is more. Texts rarely reach 20 times."""

# ValueError covers undecodable bytes; OSError and RuntimeError broken archives.
DAMAGE = (OSError, EOFError, ValueError, RuntimeError, lzma.LZMAError, zlib.error, zipfile.BadZipFile)
"""Errors of reading a damaged file."""


class Columns(NamedTuple):
    """Names of the columns to read; None where there is none."""

    id: str | None
    text: str
    label: str | None
    group: str | None = None
    fold: str | None = None
    text_pair: str | None = None


def suffix_of(path: Path) -> str:
    """Return the suffix that decides the format of a file; of an archive, that of its member."""
    if path.suffix.lower() != ".zip":
        return format_of(path.name)
    try:
        with zipfile.ZipFile(path) as archive:
            return Path(_only_member(archive, path)).suffix.lower()
    except zipfile.BadZipFile as error:
        raise DataError(
            f"{path}: cannot be unpacked ({error}). Expected a zip archive of one file; fetch it again."
        ) from error


def _only_member(archive: zipfile.ZipFile, path: Path) -> str:
    files = [entry.filename for entry in archive.infolist() if not entry.is_dir()]
    names = [name for name in files if not litter("", [Path(name).name])]  # macOS adds __MACOSX/._name and .DS_Store
    if len(names) != 1:
        found = cut(", ".join(names), MOST_OF_VALUE)
        raise DataError(
            f"{path}: holds {len(names)} files ({found}); expected a single one. Unpack it and name the files."
        )
    return names[0]


@contextlib.contextmanager
def opened(path: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """Open a file, and give the suffix that decides its format and its unpacked bytes."""
    if problem := not_fetched(path):
        raise DataError(problem)
    suffix = suffix_of(path)
    with contextlib.ExitStack() as stack:
        if path.suffix.lower() == ".zip":
            archive = stack.enter_context(zipfile.ZipFile(path))
            yield suffix, stack.enter_context(archive.open(_only_member(archive, path)))
        elif path.suffix.lower() == ".gz":
            yield suffix, cast(IO[bytes], stack.enter_context(gzip.open(path)))
        else:
            yield suffix, stack.enter_context(path.open("rb"))


def text_lines(stream: IO[bytes], path: Path, dialect: Dialect, newline: str | None = None) -> Iterator[str]:
    """Yield the lines of a text, divided by `newline` as by `io.TextIOWrapper`."""
    encoding = codecs.lookup(dialect.encoding).name
    if encoding == "utf-8":
        _refuse_other(cast(io.BufferedReader, stream).peek(5)[:5], path)
        encoding = "utf-8-sig"
    text = io.TextIOWrapper(stream, encoding, "surrogateescape", newline)
    while line := text.readline(MOST_CHARACTERS):
        if len(line) == MOST_CHARACTERS:
            raise DataError(
                f"{path}: has a line of {MOST_CHARACTERS} characters or more. Expected documents that memory holds; "
                "divide them, or check what the file unpacks to."
            )
        yield line


_OTHER_CONTENTS = {
    b"\x1f\x8b": ("gzipped", "add .gz to its name"),
    b"PK\x03\x04": ("a zip archive or a spreadsheet", "let its name end in .zip, or save the sheet as CSV in UTF-8"),
    b"PAR1\x15": ("Parquet", "let its name end in .parquet"),
}
"""Contents by their first bytes, each with a remedy."""


def _refuse_other(head: bytes, path: Path) -> None:
    """Refuse a file of UTF-8 whose first bytes are those of another format, or of UTF-16 or UTF-32."""
    for mark, (content, remedy) in _OTHER_CONTENTS.items():
        if head.startswith(mark):
            raise DataError(f"{path}: is {content}, as its first bytes show. Expected text in UTF-8; {remedy}.")
    marks = {codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF32_BE: "utf-32"}  # UTF-32's mark begins like that of UTF-16
    marks |= {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
    found = next((name for mark, name in marks.items() if head.startswith(mark)), None)
    if found is None and b"\0" in head[:2]:
        found = "utf-16-be" if head.startswith(b"\0") else "utf-16-le"
    if found is not None:
        raise DataError(
            f"{path}: is {found.upper()}, as its first bytes show. Expected UTF-8; set "
            f"'dialect: {{encoding: {found}}}', or convert the file."
        )


def unpacked_bytes(path: Path) -> int:
    """Return how many bytes a file may unpack to."""
    return max(_UNPACKED_BYTES, _UNPACKED_TIMES * path.stat().st_size)


def too_large(path: Path, most: int) -> DataError:
    """Return the problem with a file that unpacks to more than `most` bytes."""
    return DataError(
        f"{path}: has {path.stat().st_size:,} bytes and unpacks to more than {most:,}. Expected at most "
        f"{_UNPACKED_TIMES} times its size. Check its content; if it is right, unpack it or divide it."
    )


def check_columns(names: Sequence[str], columns: Columns, where: str, hint: str = "", encoding: str = "utf-8") -> None:
    """Refuse names that lack or repeat a column to read.

    Args:
        names: of the columns that there are.
        columns: those to read.
        where: file, and line where there is one.
        hint: end of the message about a lack.
        encoding: of the file.
    """
    if not names:
        raise DataError(
            f"{where}: holds nothing, or nothing in its first line. Expected the names of columns, above documents; "
            f"make the file again, or name their columns under 'dialect.columns'.{hint}"
        )
    missing = [name for name in columns if name is not None and name not in names]
    of_interest = names if missing else [name for name in columns if name is not None]
    if half := next(filter(HALF.search, of_interest), None):
        raise DataError(f"{where}: the name of the column {half!r} {half_found(half, encoding)}.")
    if missing:
        raise DataError(
            f"{where}: has no column {', '.join(map(repr, missing))}; it has {', '.join(map(repr, names))}. Set "
            "'text', 'text_pair', 'id', 'label', 'group' and 'split.folds.column' to the names of its columns. A "
            f"table has them in its first line, or under 'dialect.columns'.{hint}"
        )
    if doubled := [name for name in columns if name is not None and names.count(name) > 1]:
        raise DataError(
            f"{where}: has several columns {', '.join(map(repr, doubled))}. Expected one of each that is read; rename "
            "the others."
        )
