"""Digests of code that is edited while the tests run."""

import functools
import os
from contextlib import contextmanager

import pytest

from lib.core import extensions
from lib.workflow.staleness import digests, kept_code

CACHED = [name for name, each in vars(digests).items() if hasattr(each, "cache_clear")]
NO_CODE = (".snakemake", "config", "data", "results", "slurm", "workflow")
"""Folders of a copy that no digest reads."""
_unedited, _last = [], []
"""States of a copy's code, with what `digests` has found in it: as it was copied, and as it was last edited."""


def at(folder, patch):
    """Let `digests` read the project in a folder."""
    for module in (digests, extensions, kept_code):
        patch.setattr(module, "ROOT", folder)
    patch.setenv(extensions.VARIABLE, "")


def forget(function, *arguments):
    """Call a function of `digests` as a new process would."""
    for name in CACHED:
        getattr(digests, name).cache_clear()
    return function(*arguments)


def _state(folder):
    """Return what differs after an edit of the code in a folder, or of a file that it reads."""
    parts = [part for part in folder.iterdir() if part.is_dir() and part.name not in NO_CODE]
    files = sorted(file for part in parts for file in part.rglob("*.*") if "__pycache__" not in file.parts)
    return {str(file.relative_to(folder)): (file.stat().st_mtime_ns, file.stat().st_size) for file in files}


def _found(state):
    """Return the functions of `digests` that remember what they find in code of this state."""
    for known, functions in (*_unedited, *_last):
        if known == state:
            return functions
    functions = {name: functools.cache(getattr(digests, name).__wrapped__) for name in set(CACHED) - {"code_digest"}}
    if not _unedited:
        _unedited.append((state, functions))
        return functions
    ((before, unedited),) = _unedited
    edited = {name for name, _ in before.items() ^ state.items()}
    read = functions["_module"]

    def module(name):
        own = str(digests.file_of(name).relative_to(digests.ROOT))
        return (read if own in edited else unedited["_module"])(name)

    functions["_module"] = module
    _last[:] = [(state, functions)]
    return functions


@contextmanager
def restored(*files):
    """Restore files after this block as they were, with their times."""
    kept = {file: (file.read_bytes(), file.stat()) for file in files if file.exists()}
    try:
        yield
    finally:
        for file in files:
            if file not in kept:
                file.unlink(missing_ok=True)
                continue
            content, status = kept[file]
            file.write_bytes(content)
            os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


@contextmanager
def reading(folder):
    """Let `digests` read the project in a folder, which remembers what it has read while nothing is edited."""
    functions = _found(_state(folder))
    with pytest.MonkeyPatch.context() as patch:
        at(folder, patch)
        for name, function in functions.items():
            patch.setattr(digests, name, function)
        digests.code_digest.cache_clear()  # others have imported it by its name
        yield
    digests.code_digest.cache_clear()
