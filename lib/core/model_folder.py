"""The configuration in a model folder, checked against its weights before the model is built.

Loaders build all layers of a configuration, even a billion.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lib.core.errors import RunError
from lib.core.files import files_in, not_fetched

FIELDS, WEIGHTS = "config.json", "model.safetensors"
ALWAYS_ALLOWED = 1_000
"""Number of layers or labels that is always accepted."""


def read_fields(folder: Path) -> dict[str, Any]:
    """Return the fields of a model's configuration.

    Raises:
        RunError: it cannot be read, has more layers or labels than the weights in the folder allow, or a file of the
            folder is a pointer of Git LFS.
    """
    path = folder / FIELDS
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(fields, dict):
            raise ValueError(f"it holds {type(fields).__name__}, expected a mapping")
    except (OSError, ValueError, RecursionError) as error:
        raise RunError(
            f"{path}: cannot be read ({error}). Expected the model folder of a finished run; let that run finish, or "
            "fix the path."
        ) from error
    for file in files_in(folder, "*"):
        if problem := not_fetched(file):
            raise RunError(problem)
    shapes = _shapes(folder)
    # Every layer has a tensor, and every label a row of one.
    bounds = {"layer": len(shapes), "label": max((max(shape, default=0) for shape in shapes.values()), default=0)}
    for name, value in _whole_numbers(fields):
        for word, stored in bounds.items():
            if word in name and value > max(stored, ALWAYS_ALLOWED):
                raise RunError(
                    f"{path}: {name[:80]} = {str(value)[:20]}, but the weights in this folder have {len(shapes)} "
                    "tensors. Expected configuration and weights of the same model; copy both from where the model was "
                    "trained."
                )
    return fields


def _whole_numbers(fields: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield the integers in a configuration with their names, including those of nested models."""
    sections = [fields]
    while sections:
        for name, value in sections.pop().items():
            if isinstance(value, dict):
                sections.append(value)
            elif isinstance(value, int):
                yield name, value


def _shapes(folder: Path) -> dict[str, list[int]]:
    """Return the shapes of the tensors in the safetensors files of a folder, from the header of each.

    Raises:
        RunError: a header is damaged.

    Source: https://huggingface.co/docs/safetensors; its library needs numpy, which this package does not import.
    """
    shapes: dict[str, list[int]] = {}
    for path in folder.glob("[!.]*.safetensors"):
        try:
            with path.open("rb") as file:
                length = int.from_bytes(file.read(8), "little")
                header = json.loads(file.read(min(length, path.stat().st_size)))
            shapes |= {name: list(map(int, each["shape"])) for name, each in header.items() if name != "__metadata__"}
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise unreadable(path, error) from error
    return shapes


def unreadable(path: Path, error: Exception) -> RunError:
    """Return the error for a file of weights that is damaged or missing."""
    return RunError(
        f"{path}: cannot be read ({error}). Expected the weights of a model; run its stage again, or download it again."
    )
