"""The code that results were made with: the definitions behind each digest, stored with the results.

Snakemake's metadata and run records hold the digest alone, which cannot say which function differs, and git knows no
code that was never committed. A file is called by its digest, so that it never changes, and results that are copied
take theirs along.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from pydantic import BaseModel, ValidationError

from lib.core.errors import first
from lib.core.extensions import ROOT
from lib.core.files import file_digest, files_in, write_json
from lib.workflow.staleness.digests import STATEMENTS, file_of, files_read, reached, roots

VERSION = 4
"""Version of the digest algorithm; digests of different versions cannot be compared."""


class KeptCode(BaseModel):
    """What is behind a digest."""

    version: int = 1
    roots: list[str]
    """The arguments of `code_digest`."""
    definitions: dict[str, str]
    """What they reached: `module:name`, with a digest of its own."""
    files: dict[str, str] = {}
    """SHA-256 of every file that was read for this: while none has changed, nothing has to be analysed again."""


def keep_code(folder: str | Path, digests: Iterable[str]) -> None:
    """Store in `folder` what is behind digests that were computed in this process."""
    for digest in set(digests):
        path = Path(folder) / f"{digest}.json"
        # The newest file of a program is of the planned code.
        path.touch() if path.is_file() else write_json(path, _kept(*roots(digest)).model_dump())


def last_kept(folder: str | Path, digest: str) -> str:
    """Return the digest of the code that was last planned of the program with `digest`; itself if none was."""
    newest = sorted(files_in(folder, "*.json"), key=os.path.getmtime, reverse=True)
    kept = ((path.stem, kept_code(folder, path.stem)) for path in newest)
    return next((name for name, code in kept if code and tuple(code.roots) == roots(digest)), digest)


def _kept(*roots: str) -> KeptCode:
    files = {os.path.relpath(file, ROOT): file_digest(file) for file in files_read(*roots)}
    return KeptCode(version=VERSION, roots=list(roots), definitions=reached(*roots), files=files)


def kept_code(folder: str | Path, digest: str) -> KeptCode | None:
    """Return what is behind `digest`; None if it was not stored."""
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
        return [f"the code is another; {folder}/{digest}.json, which would tell where, is not there"]
    if before.version != VERSION:
        return ["the code cannot be compared: this version of the project makes digests in another way"]
    files = {ROOT / file: content for file, content in before.files.items()}
    if now is None and files and all(file.is_file() and file_digest(file) == files[file] for file in files):
        return []
    try:
        definitions = reached(*(roots(now) if now else before.roots))
    except FileNotFoundError as error:
        return [f"code is gone: {error}"]
    changed = {name for name, _ in before.definitions.items() ^ definitions.items()}
    found: dict[str, list[str]] = {}
    for module, _, name in (each.partition(":") for each in sorted(changed)):
        file = os.path.relpath(file_of(module), ROOT)
        found.setdefault(file, []).append("top-level statements" if name == STATEMENTS else f"`{name}`")
    return [f"code of {file}: {', '.join(first(names))} changed" for file, names in found.items()]
