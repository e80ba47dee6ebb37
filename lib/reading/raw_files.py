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
    marks: tuple[str, ...] | None = None
    """Columns that say of one class each whether a document has it."""

    @property
    def names(self) -> tuple[str | None, ...]:
        """The name of each value that a row gives."""
        return (*self[:-1], *(self.marks or ()))


def suffix_of(path: Path) -> str:
    """Return the suffix that decides the format of a file; of an archive, that of its member."""
    if path.suffix.lower() != ".zip":
        return format_of(path.name)
    try:
        with zipfile.ZipFile(path) as archive:
            return Path(_only_member(archive, path)).suffix.lower()
    except zipfile.BadZipFile as error:
        raise DataError(f"{path}: cannot be unpacked ({error}). Expected a zip archive; fetch it again.") from error


def _only_member(archive: zipfile.ZipFile, path: Path) -> str:
    files = [entry.filename for entry in archive.infolist() if not entry.is_dir()]
    names = [name for name in files if not litter("", [Path(name).name])]  # macOS adds __MACOSX/._name and .DS_Store
    if len(names) != 1:
        found = cut(", ".join(names), MOST_OF_VALUE)
        raise DataError(f"{path}: holds {len(names)} files ({found}); expected one. Unpack it and name the files.")
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
        encoding = "utf-8-sig"
    text = io.TextIOWrapper(stream, encoding, "surrogateescape", newline)
    for number, line in enumerate(iter(lambda: text.readline(MOST_CHARACTERS), "")):
        if number == 0 and "\0" in line:
            raise DataError(
                f"{path}: has a NUL byte in its first line. Expected text; set 'dialect.encoding', as utf-16."
            )
        if len(line) == MOST_CHARACTERS:
            raise DataError(f"{path}: has a line of {MOST_CHARACTERS} characters or more, which memory may not hold.")
        yield line


def unpacked_bytes(path: Path) -> int:
    """Return how many bytes a file may unpack to."""
    return max(_UNPACKED_BYTES, _UNPACKED_TIMES * path.stat().st_size)


def too_large(path: Path, most: int) -> DataError:
    """Return the problem with a file that unpacks to more than `most` bytes."""
    size = path.stat().st_size
    return DataError(f"{path}: has {size:,} bytes and unpacks to more than {most:,}. Unpack it or divide it.")


def check_columns(names: Sequence[str], columns: Columns, where: str, encoding: str = "utf-8") -> None:
    """Refuse names that lack or repeat a column to read.

    Args:
        names: of the columns that there are.
        columns: those to read.
        where: file, and line where there is one.
        encoding: of the file.
    """
    wanted = [name for name in columns.names if name is not None]
    missing = [name for name in wanted if name not in names]
    if half := next(filter(HALF.search, names if missing else wanted), None):
        raise DataError(f"{where}: the name of the column {half!r} {half_found(half, encoding)}.")
    if missing:
        raise DataError(
            f"{where}: has no column {', '.join(map(repr, missing))}; it has {', '.join(map(repr, names)) or 'none'}. "
            "A table has them in its first line or in 'dialect.columns'; if written otherwise, say so under 'dialect'."
        )
    if doubled := [name for name in wanted if names.count(name) > 1]:
        raise DataError(f"{where}: has several columns {', '.join(map(repr, doubled))}. Expected one of each.")
