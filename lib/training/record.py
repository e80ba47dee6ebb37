"""What the record of a run says about it beside its scores: parents, weights, hardware, versions. Changes no number."""

import hashlib
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel

from lib.core.record import Parent
from lib.core.settings.run import Run


def described(run: Run, packages: list[str]) -> dict[str, Any]:
    """Return the fields of a record that say what the run was, from what, and by which versions.

    Args:
        run: the run's settings.
        packages: whose versions matter.
    """
    parents = {split: Path(folder) for split, folder in run.data.items()}
    if run.tokenizer is not None:
        parents["tokenizer"] = Path(run.tokenizer)
    if run.start is not None:
        parents["start"] = Path(run.start.checkpoint)
    return {
        "stage": run.stage,
        "model": run.model,
        "dataset": run.dataset,
        "seed": run.seed,
        "task": run.task.kind,
        "parents": {name: Parent(path=str(path), digest=_digest(path)) for name, path in parents.items()},
        "precision": run.precision,
        "versions": {"python": platform.python_version()} | {package: version(package) for package in packages},
        "git_commit": _git_commit(),
    }


def count_parameters(model: PreTrainedModel) -> dict[str, int]:
    """Return the numbers of trainable weights of `model`, frozen ones included, buffers not.

    Args:
        model: with or without a head, on any device (also `meta`).

    Returns:
        `total`, `backbone` (of an encoder: embeddings and blocks) and `head` (the rest). A tied decoder's weight counts
        once, as part of the backbone.
    """
    total = sum(parameter.numel() for parameter in model.parameters())
    backbone = sum(parameter.numel() for parameter in model.base_model.parameters())
    return {"total": total, "backbone": backbone, "head": total - backbone}


def _digest(place: Path) -> str:
    """Return a digest of a file, or of the weights, tables or vocabulary in a folder; logs do not count."""
    files = sorted(place.iterdir()) if place.is_dir() else [place]
    digest = hashlib.sha256()
    for path in files:
        if path == place or path.suffix in (".safetensors", ".arrow") or path.name in ("vocab.txt", "tokenizer.json"):
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def _git_commit() -> str | None:
    """Return the commit of the code, with a mark if files differ from it; None outside a git checkout."""
    try:
        described = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return described.stdout.strip()
