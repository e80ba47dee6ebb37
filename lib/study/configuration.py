"""Configuration files: which files they extend, how they are merged, and which file a wrong setting is in."""

from collections.abc import Mapping, Sequence
from os.path import isfile  # unlike Path's, it takes any name
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from lib.core.errors import ConfigError
from lib.core.extensions import ROOT
from lib.core.files import read_mapping, read_value
from lib.core.settings import describe, overlaid
from lib.study.study import Study

EXTENDS = "extends"
SHIPPED = {file.name: file for pattern in ("config/*.yaml", "studies/*/*.yaml") for file in ROOT.glob(pattern)}
"""The shipped studies, which a study anywhere can extend by the name of their file."""

Layer = tuple[str, dict[str, Any]]
"""Name and content of a file."""


def read_layers(paths: Sequence[str | Path]) -> list[Layer]:
    """Return configuration files and the files that they extend, base files first.

    Args:
        paths: configuration files, each overriding the one before. A file may extend another one, by a path relative to
            its own folder: `extends: config.yaml`.

    Raises:
        ConfigError: a file cannot be read, or extends itself.
    """
    return [layer for path in paths for layer in extended(str(path), read_mapping(path), Path(path).parent, Path(path))]


def read_arguments(entries: Sequence[str]) -> list[Layer]:
    """Return the settings of the command line, each given as `key=value`, with values in YAML.

    Raises:
        ConfigError: a value cannot be read.
    """
    pairs = (entry.partition("=") for entry in entries)
    return [("--config", {key: read_value(value, f"--config {key}")}) for key, _, value in pairs]


def extended(name: str, values: Mapping[str, Any], folder: Path, *seen: Path) -> list[Layer]:
    """Return settings, preceded by those of the files that they extend.

    Args:
        name: name of the file, for messages.
        values: the settings.
        folder: folder that the path of the extended file is relative to; else it is one of the shipped files.
        seen: this file, and the files that extend it.

    Raises:
        ConfigError: a file cannot be read, or extends itself.
    """
    own = {key: value for key, value in values.items() if key != EXTENDS}
    base = values.get(EXTENDS)
    if base is None:
        return [(name, own)]
    if not isinstance(base, str):
        raise ConfigError(f"{name}: extends: {base!r} is not a path. Name one file, relative to this one's folder.")
    resolved = [path.resolve() for path in seen]
    choices = [folder / base, *([SHIPPED[base]] if base in SHIPPED else [])]
    below = next((path for path in choices if isfile(path) and path.resolve() not in resolved), choices[0])
    values_below = read_mapping(below)
    if below.resolve() in resolved:
        raise ConfigError(f"{seen[0]}: extends itself through {below}. Expected a chain with a last file.")
    return [*extended(str(below), values_below, below.parent, *seen, below), (name, own)]


def merged(layers: Sequence[Layer]) -> dict[str, Any]:
    """Merge layers: a later one replaces lists and values, and adds to mappings."""
    result: dict[str, Any] = {}
    for _, values in layers:
        result = overlaid(result, values)
    return result


def load_study(layers: Sequence[Layer]) -> Study:
    """Return the checked configuration.

    Raises:
        ConfigError: with every error, one per line, each with the file of the key.
    """
    try:
        return Study.model_validate(merged(layers))
    except ValidationError as error:
        raise ConfigError(describe(error, lambda place: _origin(place, layers))) from error


def _origin(place: tuple[str, ...], layers: Sequence[Layer]) -> str:
    """Return a place as the user wrote it: with its file, and at the stage if entries of `data` share the key."""
    shared = tuple(part for index, part in enumerate(place) if "data" not in place[max(0, index - 1) : index + 1])
    values = merged(layers)
    is_shared = len(_along(place, values)) < len(place) and len(_along(shared, values)) == len(shared)
    written = shared if place[1:2] == ("stages",) and is_shared else place
    found = [(file, _along(written, each)) for file, each in reversed(layers)]
    file, along = max(found, key=lambda each: len(each[1]))
    if not along:
        return ".".join(written)
    if not isinstance(along[-1], Mapping | list):
        written = written[: len(along)]  # what follows is one of the types that the value might have had
    return f"{file}: {'.'.join(written)}"


def _along(place: tuple[str, ...], values: Any) -> list[Any]:
    """Return the values at the parts of a place, as far as there are any; YAML may have read keys as numbers."""
    found: list[Any] = []
    for part in place:
        entries = {str(key): value for key, value in values.items()} if isinstance(values, Mapping) else {}
        if part not in entries:
            break
        found.append(values := entries[part])
    return found
