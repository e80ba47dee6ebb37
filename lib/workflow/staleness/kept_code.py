"""The code that results were made with: the definitions behind each digest, stored with the results.

Snakemake's metadata and run records hold the digest alone. It cannot say which function differs, and git knows no code
that was never committed. A file is called by its digest, so that it never changes, and results that are copied take
theirs along.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import BaseModel, ValidationError

from lib.core.files import files_in, write_json
from lib.workflow.staleness.digests import ROOT, STATEMENTS, code_digest, reached, roots

VERSION = 3
"""Version of the digest algorithm; digests of different versions cannot be compared."""
SHOWN = 5
"""How many definitions of a file are named."""


class KeptCode(BaseModel):
    """The definitions behind a digest."""

    roots: list[str]
    """The arguments of `code_digest`."""
    definitions: dict[str, str]
    """What they reached: `module:name`, with a digest of its own."""
    version: int = 1


def keep_code(folder: str | Path, digests: Iterable[str]) -> None:
    """Store in `folder` the definitions behind digests that were computed in this process."""
    for digest in set(digests):
        path = Path(folder) / f"{digest}.json"
        # The newest file of a program is of the planned code.
        path.touch() if path.is_file() else write_json(path, _kept(digest).model_dump())


def last_kept(folder: str | Path, digest: str) -> str:
    """Return the digest of the code that was last planned of the program with `digest`; itself if none was."""
    newest = sorted(files_in(folder, "*.json"), key=os.path.getmtime, reverse=True)
    kept = ((path.stem, kept_code(folder, path.stem)) for path in newest)
    return next((name for name, code in kept if code and tuple(code.roots) == roots(digest)), digest)


def _kept(digest: str) -> KeptCode:
    return KeptCode(roots=list(roots(digest)), definitions=reached(*roots(digest)), version=VERSION)


def kept_code(folder: str | Path, digest: str) -> KeptCode | None:
    """Return the definitions behind `digest`; None if they were not stored."""
    try:
        return KeptCode.model_validate_json((Path(folder) / f"{digest}.json").read_text(encoding="utf-8"))
    except (FileNotFoundError, ValidationError):
        return None


def code_since(folder: str | Path, digest: str, now: str | None = None) -> list[str]:
    """Return what of the code has changed since `digest` was computed, in words; nothing if nothing has.

    Args:
        folder: of the code that was kept.
        digest: stored code digest.
        now: current code digest, computed in this process; None = that of the stored programs and modules.
    """
    if digest == now:
        return []
    before = kept_code(folder, digest)
    if before is None:
        return (
            [f"the code has changed; {folder}/{digest}.json, which would tell where, is not there"]
            if now
            else [f"the earlier code is unknown: {folder}/{digest}.json is missing"]
        )
    if before.version != VERSION:
        return ["the code cannot be compared: this version of the project makes digests in another way"]
    try:
        if now is None and code_digest(*before.roots) == digest:
            return []
        definitions = reached(*(roots(now) if now else before.roots))
    except FileNotFoundError as error:
        return [f"code is gone: {error}"]
    return differing(before.definitions, definitions)


def differing(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return which definitions differ between two mappings of their digests: a sentence per file and kind of change."""
    found: dict[tuple[str, str], list[str]] = {}
    for definition in sorted(before.keys() | now.keys()):
        if before.get(definition) != now.get(definition):
            module, name = definition.split(":")
            what = "changed" if definition in before and definition in now else "new" if definition in now else "gone"
            found.setdefault((_file(module), what), []).append(
                "top-level statements" if name == STATEMENTS else f"`{name}`"
            )
    return [
        f"code of {file}: {', '.join(names[:SHOWN])}"
        f"{f' and {len(names) - SHOWN} more' if len(names) > SHOWN else ''} {what}"
        for (file, what), names in found.items()
    ]


def _file(module: str) -> str:
    place = module.replace(".", "/")
    return f"{place}/__init__.py" if (ROOT / place).is_dir() else f"{place}.py"
