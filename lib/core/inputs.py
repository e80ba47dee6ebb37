"""Locations of raw input files: ranges of numbered files, glob patterns, URLs."""

import glob
import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from lib.core.errors import MOST_OF_LINE, ConfigError, DataError, cut, printable
from lib.core.files import check_expansion

LOOPBACK = ("localhost", "127.0.0.1", "::1")
FORMATS = (".parquet", ".csv", ".tsv", ".jsonl", ".json", ".txt", ".xml")
"""File suffixes that `lib.reading.formats` reads."""
_RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")


def expand_ranges(patterns: Sequence[str]) -> list[str]:
    """Return the names that `patterns` expand to: `shard-{08..10}` is `shard-08`, `shard-09`, `shard-10`.

    Numbers are padded to the width of the first bound; both bounds are included; a name without a range stays
    unchanged; several ranges give all combinations, in which the last one changes fastest.

    Raises:
        ConfigError: a range runs backwards, or there are too many names.
    """
    sizes = [math.prod(numbers.stop - numbers.start for numbers in _ranges(pattern)) for pattern in patterns]
    check_expansion(", ".join(patterns), sum(sizes))
    return [name for pattern in patterns for name in _expanded(pattern)]


def _expanded(pattern: str) -> list[str]:
    """Return the names that a pattern expands to: its ranges are replaced one after the other."""
    first, *texts = _RANGE.split(pattern)[::3]
    names = [first]
    for (bound, _), numbers, text in zip(_RANGE.findall(pattern), _ranges(pattern), texts, strict=True):
        names = [f"{name}{number:0{len(bound)}d}{text}" for name in names for number in numbers]
    return names


def _ranges(pattern: str) -> Iterator[range]:
    for first, last in _RANGE.findall(pattern):
        if int(last) < int(first):
            raise ConfigError(f"{pattern!r}: the range {{{first}..{last}}} runs backwards. Expected first <= last.")
        yield range(int(first), int(last) + 1)


def resolve_paths(patterns: Sequence[str], place: str | None = None) -> list[Path]:
    """Return the files that match `patterns`, in their order, the matches of one pattern sorted.

    An existing path is used unchanged, even with `*`, `?` or `[` in its name; `**` reaches into subfolders. A file that
    has several paths, such as its own and that of a link to it, is one file.

    Args:
        patterns: paths or patterns.
        place: setting that holds them, for messages.

    Raises:
        DataError: a pattern matches no file, or a file appears twice, or has a name that the workflow cannot handle.
    """
    where = f"{place}: " if place else ""
    paths: list[Path] = []
    for pattern in patterns:
        matches = [pattern] if os.path.isfile(pattern) else sorted(glob.glob(pattern, recursive=True))
        paths += (found := [Path(match) for match in matches if os.path.isfile(match)])
        if not found:
            name = cut(pattern, MOST_OF_LINE // 4)
            if os.path.isdir(pattern):
                inside = f"{name.rstrip('/')}/*"
                raise DataError(f"{where}{name}: is a folder. Expected files; write {inside} for those in it.")
            raise DataError(f"{where}{name}: no such file. Expected a readable file, or a pattern that matches some.")
    for path in paths:
        check_name(path, where)
        if signs := {"{", "}"} & set(str(path)):
            raise DataError(f"{where}{path}: has {' and '.join(sorted(signs))} in its path. Expected none; rename it.")
    if twice := repeated_files(paths):
        raise DataError(f"{where}{twice}")
    return paths


def check_name(path: Path, where: str = "") -> None:
    """Refuse a path that is not UTF-8, which no settings and no table can hold; `where` begins the message.

    Raises:
        DataError: it has another encoding.
    """
    if printable(str(path)) != str(path):
        raise DataError(f"{where}{path}: has a name that is not UTF-8. Rename it.")


def repeated(files: Iterable[str]) -> str | None:
    """Return a sentence about names of files that appear twice; None if there are none."""
    twice = sorted(file for file, count in Counter(files).items() if count > 1)
    return f"{', '.join(twice)}: named twice. Expected every file once, or its documents would leak." if twice else None


def repeated_files(paths: Iterable[str | Path]) -> str | None:
    """Return a sentence about files that appear twice, if under different paths; None if there are none."""
    names: dict[str, list[str]] = {}
    for path in paths:
        names.setdefault(os.path.realpath(path), []).append(str(path))
    return repeated(" = ".join(sorted(set(found))) for found in names.values() for _ in found)


def format_of(name: str) -> str:
    """Return the suffix that decides the format of a file: the one before `.gz` for a gzipped file."""
    path = PurePosixPath(name)
    return (PurePosixPath(path.stem) if path.suffix.lower() == ".gz" else path).suffix.lower()


def unknown_format(suffix: str) -> str:
    """Return a sentence about a suffix that is not in `FORMATS`."""
    return f"the suffix {suffix!r} names no known format. Expected {', '.join(FORMATS)}, also .gz or alone in a .zip"


def is_safe_address(url: str) -> bool:
    """Return whether a download cannot be altered on its way: https, or http on this machine."""
    try:
        parts = urlsplit(url)
        return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK)
    except ValueError:
        return False
