"""What the record of a run says about it beside its scores: parents, weights, hardware, versions. Changes no number."""

from __future__ import annotations

import hashlib
import platform
import resource
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from lib.core.record import Parent, RunRecord
from lib.core.settings.run import Run

if TYPE_CHECKING:  # a run that does not train needs none of these
    from torch import nn
    from transformers import PreTrainedModel

    from lib.training.trainer import KeyedTrainer


def training_record(
    run: Run,
    trainer: KeyedTrainer,
    history: pd.DataFrame,
    metrics: Mapping[str, float | None],
    parameters: Mapping[str, int],
) -> RunRecord:
    """Return the record of a finished training.

    Args:
        run: the run's settings.
        trainer: after training.
        history: one row per evaluation.
        metrics: scores of the model kept.
        parameters: numbers of weights.
    """
    seconds = float(history["seconds"].sum())
    epochs = trainer.recorder.rows[-1]["epoch"]
    tokens = int(trainer.state.num_input_tokens_seen)
    return RunRecord(
        **_described(run, trainer),
        parameters=dict(parameters),
        epochs=epochs,
        steps=trainer.state.global_step,
        tokens=tokens,
        seconds=seconds,
        seconds_per_epoch=seconds / epochs,
        tokens_per_second=tokens / seconds,
        metrics=dict(metrics),
    )


def evaluation_record(
    run: Run,
    seconds: float,
    parameters: Mapping[str, int],
    metrics: Mapping[str, float | None],
    trainer: KeyedTrainer | None = None,
) -> RunRecord:
    """Return the record of a run without a training loop.

    Args:
        run: the run's settings.
        seconds: wall time of the evaluation.
        parameters: numbers of weights.
        metrics: scores.
        trainer: what predicted; None = a backbone that reads texts.
    """
    return RunRecord(
        **_described(run, trainer),
        parameters=dict(parameters),
        epochs=0,
        steps=0,
        tokens=0,
        seconds=seconds,
        seconds_per_epoch=None,
        tokens_per_second=None,
        metrics=dict(metrics),
    )


def ordered_history(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return one row per evaluation, the columns in one order; a resumed run has them as its checkpoint stored them."""
    history = pd.DataFrame(list(rows))
    names = ("epoch", "step", "seconds", "tokens_per_second", "peak_memory_mb", "train_loss")
    first = [*names, *sorted(name for name in history if name.startswith("learning_rate"))]
    return history[[*first, *sorted(set(history) - set(first))]]


def _described(run: Run, trainer: KeyedTrainer | None) -> dict[str, Any]:
    """Return the fields that say what the run was, from what, by which versions, where, and with how much memory."""
    if trainer is None:
        packages = ["scikit-learn", "numpy", "scipy"]
        unit = 1 if sys.platform == "darwin" else 2**10  # bytes there, KiB elsewhere
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20
        gpu, device, hardware = None, "cpu", platform.machine()
    else:
        packages = ["torch", "transformers", "datasets", "tokenizers", "accelerate"]
        memory = trainer.recorder.measured_peak()
        gpu, device = trainer.gpu, str(trainer.args.device)
        hardware = gpu or f"{platform.machine()}, {trainer.threads} threads"
    parents: dict[str, Path] = {split: Path(folder) for split, folder in run.data.items()}
    if run.tokenizer is not None:
        parents["tokenizer"] = Path(run.tokenizer)
    if run.start is not None:
        parents["start"] = Path(run.start.checkpoint)
    return {
        "stage": run.stage,
        "model": run.model,
        "dataset": run.dataset,
        "variant": run.variant,
        "seed": run.seed,
        "task": run.task.kind,
        "parents": {name: Parent(path=str(path), digest=_digest(path)) for name, path in parents.items()},
        "peak_memory_mb": memory,
        "peak_memory_kind": "gpu" if gpu else "resident",
        "precision": run.precision,
        "device": device,
        "hardware": hardware,
        "versions": {"python": platform.python_version()} | {package: version(package) for package in packages},
        "git_commit": _git_commit(),
    }


def count_parameters(model: PreTrainedModel) -> dict[str, int]:
    """Return the numbers of weights of `model`, frozen ones included, buffers not.

    Args:
        model: with or without a head, on any device (also `meta`).

    Returns:
        `total`; `backbone`, and those of its parts that it has: `embeddings`, `attention` (with its projections),
        `feed_forward`, `recurrence`, `norms` (also that of the embeddings); `head` (what is not the backbone). A tied
        decoder's weight counts once, among the embeddings.
    """
    total = sum(parameter.numel() for parameter in model.parameters())
    parts: Counter[str] = Counter()
    for name, parameter in model.base_model.named_parameters():
        parts[_part(model.base_model, name)] += parameter.numel()
    return {"total": total, "backbone": parts.total(), **parts, "head": total - parts.total()}


def _part(backbone: nn.Module, name: str) -> str:
    """Return which part of a backbone, see `lib.backbones.contract.TokenBackbone`, the weight called `name` is of."""
    path = name.split(".")[:-1]
    owner = type(backbone.get_submodule(".".join(path))).__name__
    if owner.endswith("Norm"):
        return "norms"
    if owner in ("RNN", "LSTM", "GRU"):
        return "recurrence"
    return next((part for part in ("embeddings", "attention") if part in path), "feed_forward")


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
    """Return the commit of the code, with a mark if files differ from it; None outside a git checkout.

    The cluster profile does not count: everybody sets an account and a partition there.
    """
    changed_files = ["status", "--porcelain", "--untracked-files=no", "--", ":/", ":(top,exclude)slurm"]
    try:
        commit, changed = (
            subprocess.run(
                ["git", *arguments], cwd=Path(__file__).parent, capture_output=True, text=True, check=True
            ).stdout.strip()
            for arguments in (["rev-parse", "HEAD"], changed_files)
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return f"{commit}-dirty" if changed else commit
