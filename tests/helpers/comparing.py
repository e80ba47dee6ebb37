"""What two trainings have learnt, compared bit for bit."""

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from lib.core.record import MODEL, read_record


def weights(model: Path) -> dict[str, Tensor]:
    """Return the weights in a model's folder, or in a checkpoint's."""
    return load_file(model / "model.safetensors")


def same(one: Path, other: Path) -> bool:
    """Return whether two folders hold the same weights."""
    first, second = weights(one), weights(other)
    return first.keys() == second.keys() and all(torch.equal(weight, second[name]) for name, weight in first.items())


def metrics_of(run: Path) -> dict[str, float]:
    """Return a run's metrics without times."""
    return {name: value for name, value in read_record(run).metrics.items() if not name.endswith("seconds")}


def assert_alike(expected: Path, found: Path) -> None:
    """Fail unless two runs' folders hold the same weights and figures."""
    assert same(expected / MODEL, found / MODEL)
    assert metrics_of(expected) == metrics_of(found)
    assert read_record(expected).steps == read_record(found).steps
