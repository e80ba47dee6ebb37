"""What the record of a run says about it beside its scores: parents, weights, hardware, versions. Changes no number."""

from __future__ import annotations

import platform
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from lib.attention.contract import mechanisms
from lib.core.errors import DataError
from lib.core.files import file_digest, write_json
from lib.core.memory import resident_peak_mb
from lib.core.record import RUN, Parent, RunRecord, digest_of
from lib.study.run import RunSettings
from lib.training import ranks

if TYPE_CHECKING:  # a run that does not train needs none of these
    from torch import nn
    from transformers import PreTrainedModel

    from lib.training.folders import RunFolders
    from lib.training.trainer import KeyedTrainer


def training_record(
    run: RunSettings,
    folders: RunFolders,
    trainer: KeyedTrainer,
    history: pd.DataFrame,
    metrics: Mapping[str, float | None],
    parameters: Mapping[str, int],
) -> RunRecord:
    """Return the record of a finished training.

    Args:
        run: the run's settings.
        folders: of the run.
        trainer: after training.
        history: one row per evaluation.
        metrics: scores of the model kept.
        parameters: numbers of weights.
    """
    seconds = float(history["seconds"].sum())
    epochs = trainer.recorder.rows[-1]["epoch"]
    tokens = int(trainer.state.num_input_tokens_seen)
    return RunRecord(
        **_described(run, folders, trainer),
        processes=ranks.count(),
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
    run: RunSettings,
    folders: RunFolders,
    seconds: float,
    parameters: Mapping[str, int],
    metrics: Mapping[str, float | None],
    trainer: KeyedTrainer | None = None,
) -> RunRecord:
    """Return the record of a run without a training loop.

    Args:
        run: the run's settings.
        folders: of the run.
        seconds: wall time of the evaluation.
        parameters: numbers of weights.
        metrics: scores.
        trainer: what predicted; None = a backbone that reads texts.
    """
    return RunRecord(
        **_described(run, folders, trainer),
        parameters=dict(parameters),
        epochs=0,
        steps=0,
        tokens=0,
        seconds=seconds,
        seconds_per_epoch=None,
        tokens_per_second=None,
        metrics=dict(metrics),
    )


def write_record(record: RunRecord, folder: Path, code: str | None) -> None:
    """Write a record to the folder that holds the other files that the run leaves.

    Args:
        record: of the run.
        folder: with all other files, whose digests the record takes in.
        code: digest of the code that the run executed, if it is known.
    """
    files = {str(path.relative_to(folder)): file_digest(path) for path in sorted(folder.rglob("*")) if path.is_file()}
    write_json(folder / RUN, record.model_copy(update={"code": code, "files": files}).model_dump(mode="json"))


def ordered_history(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return one row per evaluation, the columns in one order; a resumed run has them as its checkpoint stored them."""
    history = pd.DataFrame(list(rows))
    names = ("epoch", "step", "seconds", "tokens_per_second", "peak_memory_mb", "train_loss")
    first = [*names, *sorted(name for name in history if name.startswith("learning_rate"))]
    return history[[*first, *sorted(set(history) - set(first))]]


def _described(run: RunSettings, folders: RunFolders, trainer: KeyedTrainer | None) -> dict[str, Any]:
    """Return the fields that say what the run was, from what, by which versions, where, and with how much memory."""
    if trainer is None:
        packages = ["scikit-learn", "numpy", "scipy"]
        memory = resident_peak_mb()
        gpu, device, hardware, kernels = None, "cpu", platform.machine(), None
    else:
        packages = ["torch", "transformers", "datasets", "tokenizers", "accelerate"]
        memory = trainer.recorder.measured_peak()
        gpu, device = trainer.gpu, str(trainer.args.device)
        hardware = gpu or f"{platform.machine()}, {trainer.threads} threads"
        kernels = next((mechanism.computed_by for mechanism in mechanisms(trainer.model)), None)
        packages += ["triton"] if kernels == "triton" else []
    return {
        "stage": run.stage,
        "model": run.model,
        "dataset": run.dataset,
        "variant": run.variant,
        "seed": run.seed,
        "task": run.task.kind,
        "parents": folders.parents,
        "peak_memory_mb": memory,
        "peak_memory_kind": "gpu" if gpu else "resident",
        "precision": run.precision,
        "device": device,
        "hardware": hardware,
        "kernels": kernels,
        "versions": {"python": platform.python_version()} | {package: version(package) for package in packages},
        "git_commit": _git_commit(),
    }


def parents_of(run: RunSettings) -> dict[str, Parent]:
    """Return what `run` starts from: data by split, tokeniser, weights.

    Raises:
        DataError: one of them cannot be read.
    """
    places: dict[str, Path] = {split: Path(folder) for split, folder in run.data.items()}
    if run.tokenizer is not None:
        places["tokenizer"] = Path(run.tokenizer)
    if run.start is not None:
        places["start"] = Path(run.start.checkpoint)
    try:
        return {name: Parent(path=str(path), digest=digest_of(path)) for name, path in places.items()}
    except OSError as error:
        raise DataError(
            f"{error.filename}: cannot be read ({error.strerror}). Expected an input of this run; make it again, or "
            "correct the path in the settings."
        ) from error


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
