"""Files of settings, and atomic writes: an artifact appears under its name whole, or not at all."""

import contextlib
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from lib.core.errors import ConfigError, ProjectError


@contextlib.contextmanager
def atomic_path(target: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `target`; on success it replaces `target`, on failure it is removed.

    The body may create a file or a folder at the yielded path. The temporary path keeps the suffix of
    `target`, since many writers choose the format by it.

    Args:
        target: file or folder to appear. Parent folders are made.

    Raises:
        ProjectError: the folder cannot be written, or the disk is full.
    """
    target = Path(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as error:
        raise ProjectError(explained(target, error)) from error
    try:
        partial = scratch / target.name
        yield partial
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)
        os.replace(partial, target)
    except OSError as error:
        if error.errno is None or isinstance(error, FileNotFoundError):
            raise
        raise ProjectError(explained(target, error)) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def write_text(target: str | Path, text: str) -> None:
    """Write `text` to `target` atomically, as UTF-8."""
    with atomic_path(target) as partial:
        partial.write_text(text, encoding="utf-8")


def write_json(target: str | Path, value: object) -> None:
    """Write `value` to `target` atomically, as indented JSON with a final newline."""
    write_text(target, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


class _Loader(yaml.SafeLoader):
    """Reads numbers as JSON and YAML 1.2 have them, too: PyYAML takes 1e-05, which JSON writes, for a word."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def read_mapping(source: str | Path) -> dict[str, Any]:
    """Return the settings in `source`: a mapping written in place (`{...}`, JSON), or the path of a YAML file.

    Raises:
        ConfigError: the file cannot be read, or holds no mapping.
    """
    in_place = str(source).lstrip().startswith("{")
    try:
        text = str(source) if in_place else Path(source).read_text(encoding="utf-8")
        values = yaml.load(text, _Loader)  # noqa: S506 a SafeLoader
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{source}: cannot be read ({error}). Expected a YAML file of settings.") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{source}: holds {type(values).__name__}, expected a mapping of settings.")
    return values


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync(folder: Path) -> None:
    """Bring every file and folder in `folder` to the disk, so that a power cut leaves them as they are."""
    for path in [*folder.rglob("*"), folder]:
        if not path.is_symlink():
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def explained(target: Path, error: OSError) -> str:
    """Return what a user reads if `target` cannot be written."""
    return (
        f"{target}: cannot be written ({error.strerror or error}). Expected a folder with write permission "
        "and free space; nothing was left half-written. Free some space or change the folder, and run again."
    )
