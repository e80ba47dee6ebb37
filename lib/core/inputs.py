"""Where raw input files are: ranges of numbered files, patterns of the user's own, addresses."""

import glob
import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from lib.core.errors import DataError

LOOPBACK = ("localhost", "127.0.0.1", "::1")
_RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")


def expand_range(pattern: str) -> list[str]:
    """Return the names that `pattern` stands for: `shard-{08..10}` is `shard-08`, `shard-09`, `shard-10`.

    Numbers are padded to the width of the first bound; both bounds are included; a name without a range is
    itself; several ranges give all combinations, the last one running fastest.

    Raises:
        ValueError: a range runs backwards.
    """
    match = _RANGE.search(pattern)
    if match is None:
        return [pattern]
    first, last = match.groups()
    if int(last) < int(first):
        raise ValueError(f"{pattern!r}: the range {match[0]} runs backwards. Expected {{first..last}}, first <= last.")
    numbers = (f"{number:0{len(first)}d}" for number in range(int(first), int(last) + 1))
    return [
        f"{pattern[: match.start()]}{number}{rest}"
        for number in numbers
        for rest in expand_range(pattern[match.end() :])
    ]


def resolve_paths(patterns: Sequence[str]) -> list[Path]:
    """Return the files that `patterns` name, in their order, the matches of one pattern sorted.

    A path that exists is taken as it is, even with `*`, `?` or `[` in its name; `**` reaches into subfolders.

    Raises:
        DataError: a pattern matches no file, or a file is named twice.
    """
    paths: list[Path] = []
    for pattern in patterns:
        exact = Path(pattern)
        found = [exact] if exact.is_file() else sorted(map(Path, glob.glob(pattern, recursive=True)))
        found = [path for path in found if path.is_file()]
        if not found:
            raise DataError(f"{pattern}: no such file. Expected a readable file, or a pattern that matches some.")
        paths += found
    if repeated := sorted({str(path) for path in paths if paths.count(path) > 1}):
        raise DataError(f"{', '.join(repeated)}: named twice. Expected every file once, or its documents would leak.")
    return paths


def is_safe_address(url: str) -> bool:
    """Return whether nobody between here and there can change what is fetched: https, or this machine's own http."""
    try:
        parts = urlsplit(url)
        return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK)
    except ValueError:
        return False
