"""Fields of a run record other than scores: parents, weights, hardware, versions. Changes no number."""

from __future__ import annotations

import hashlib
import logging
import math
import platform
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import packages_distributions, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from lib.backbones.configuration import BackboneConfig
from lib.backbones.settings import BACKBONES
from lib.core.extensions import SHIPPED, extensions
from lib.core.files import file_digest, files_in, read_mapping
from lib.core.record import CONFIG, HISTORY, PREDICTIONS, NamesRun, Parent, RunRecord, Stretch, write_run
from lib.study.run import RunSettings
from lib.training import distributed
from lib.training.folders import git_commit

if TYPE_CHECKING:  # a run that reads texts needs neither of them
    from torch import nn
    from transformers import PreTrainedModel


logger = logging.getLogger(__name__)

LOSS_SHARE = 0.9
"""A training has hardly learnt that ends above this share of the loss of the class frequencies."""
ONE_CLASS = 0.95
"""A classifier has hardly learnt that predicts one class for more than this share of the test documents, wrongly."""

NUMERICAL_SETTINGS = {"micro_batch_tokens", "kernels", "compile", "deterministic"}
"""Execution settings that can change the last digits of a number; the device has its own field."""


class Environment(NamedTuple):
    """Hardware, packages and peak memory of a run."""

    device: str
    hardware: str
    packages: Sequence[str]
    """Packages whose versions the record holds."""
    peak_memory_mb: float
    instruction_set: str | None = None
    """CPU instructions that torch reports; None = torch was not used."""
    gpu: str | None = None
    """Name of the GPU; None = a CPU."""
    kernels: Literal["torch", "triton"] | None = None
    """Implementation that its mechanism or state space used, if it has several."""


def run_record(
    run: RunSettings,
    parents: dict[str, Parent],
    environment: Environment,
    parameters: dict[str, int],
    metrics: Mapping[str, float | None],
    seconds: float,
    *,
    epochs: float = 0,
    steps: int = 0,
    tokens: int = 0,
    **further: Any,
) -> RunRecord:
    """Return the record of a finished run.

    Args:
        run: the run's settings.
        parents: inputs of the run.
        environment: hardware and packages of the run.
        parameters: numbers of weights.
        metrics: scores of the model that was kept; NaN or inf is recorded as unknown.
        seconds: wall time of the training loop, or of the evaluation if there was none.
        epochs: passes over the training documents; 0 = there was no training loop.
        steps: optimiser steps.
        tokens: tokens seen in training.
        further: other fields of the record, of a training loop.
    """
    finite = {name: value if value is not None and math.isfinite(value) else None for name, value in metrics.items()}
    return RunRecord(
        **NamesRun.of(run).model_dump(),
        task=run.task.kind,
        score=run.task.score,
        precision=run.precision,
        parents=parents,
        parameters=parameters,
        epochs=epochs,
        steps=steps,
        tokens=tokens,
        seconds=seconds,
        seconds_per_epoch=seconds / epochs if epochs else None,
        tokens_per_second=tokens / seconds if epochs else None,
        peak_memory_mb=environment.peak_memory_mb,
        peak_memory_kind="gpu" if environment.gpu else "resident",
        kernels=environment.kernels,
        extensions=used_extensions(),
        **_conditions(environment),
        **further,
        metrics=finite,
    )


def used_extensions() -> dict[str, dict[str, str]]:
    """Return digest and versions of each extension in use that is not of the project (`RunRecord.extensions`)."""
    found = {}
    for each in extensions():
        if (package := each.package.partition(".")[0]) != SHIPPED:
            files = files_in(each.folder, "**/*.py")
            lines = (f"{file.relative_to(each.folder).as_posix()} {file_digest(file)}\n" for file in files)
            versions = {name: version(name) for name in packages_distributions().get(package, ())}
            found[each.name] = {"digest": hashlib.sha256("".join(lines).encode()).hexdigest()} | versions
    return found


def stretch(run: RunSettings, environment: Environment, step: int, threads: int) -> Stretch:
    """Return a new stretch of a training run.

    Args:
        run: the run's settings.
        environment: hardware and packages of the run.
        step: optimiser steps done.
        threads: CPU threads of each process.
    """
    execution = run.execution.model_dump(mode="json", include=NUMERICAL_SETTINGS)
    return Stretch(step=step, threads=threads, execution=execution, **_conditions(environment))


def _conditions(environment: Environment) -> dict[str, Any]:
    """Return the fields of a record and of a stretch with the conditions of a run.

    Versions are those that this process has imported; another one may be installed since.
    """
    modules = {name: sys.modules.get("sklearn" if name == "scikit-learn" else name) for name in environment.packages}
    versions = {name: str(getattr(module, "__version__", "") or version(name)) for name, module in modules.items()}
    return {
        "device": environment.device,
        "hardware": environment.hardware,
        "instruction_set": environment.instruction_set,
        "processes": distributed.count(),
        "versions": {"python": platform.python_version()} | versions,
        "git_commit": git_commit(),
    }


def write_record(record: RunRecord, folder: Path, code: str | None) -> None:
    """Write a record to the folder of the run's other files, and warn if they show that it has hardly learnt.

    Args:
        record: record of the run.
        folder: folder with all other files, whose digests are added to the record.
        code: digest of the code that the run executed, if it is known.
    """
    files = {str(path.relative_to(folder)): file_digest(path) for path in files_in(folder)}
    record = record.model_copy(update={"code": code, "files": files})
    if signs := " and ".join(_signs(record, folder)):
        record.hardly_learnt = signs
        logger.warning("%s has hardly learnt: %s. Raise recipe.learning_rate or epochs.", record.id.path, signs)
    write_run(folder, record)


def _signs(record: RunRecord, folder: Path) -> Iterator[str]:
    """Yield what shows that a classifier of documents has hardly learnt.

    The loss of the class frequencies of training is their entropy, which a model reaches that reads nothing. One class
    for nearly all test documents is a sign unless the others have at least half of the predictions that are due.
    """
    path = folder / PREDICTIONS
    if not path.is_file() or "probabilities" not in (documents := pd.read_parquet(path)):
        return
    if documents["prediction"].dtype == object:  # spans
        return
    classifies = record.task in ("sequence_classification", "pair_classification")  # by cross-entropy alone
    if record.epochs and classifies and "class_weights" not in (read_mapping(folder / CONFIG).get("recipe") or ()):
        from lib.tokens.stored import load_tokens

        shares = pd.Series(load_tokens(record.parents["train"].path)["label"][:]).value_counts(normalize=True)
        entropy = -sum(shares * np.log(shares))
        loss = pd.read_csv(folder / HISTORY)["train_loss"].iloc[-1]
        if loss > LOSS_SHARE * entropy > 0:
            yield f"the training loss ended at {100 * loss / entropy:.0f} % of that of the class frequencies alone"
    predicted = documents["prediction"][documents["split"] == "test"].value_counts(normalize=True)
    share, due = predicted.iloc[0], (documents["label"].dropna() == predicted.index[0]).mean()
    if share > ONE_CLASS and 1 - share < (1 - due) / 2:
        yield f"one class is predicted for {100 * share:.0f} % of the test documents"


def count_parameters(model: PreTrainedModel) -> dict[str, int]:
    """Return the numbers of weights of `model`, including frozen ones and adapters, but not buffers.

    Each backbone declares the part of its modules in `weight_parts`; a module belongs to the part of the innermost
    declared module around it.

    Args:
        model: model with or without a head, on any device (also `meta`).

    Returns:
        `total`; `backbone`, and those of its parts: `embeddings`, `attention` (with its projections),
        `feed_forward`, `recurrence`, `norms` (also that of the embeddings), `other` (undeclared); `head` (what is not
        the backbone). The parts and the head add up to the total. A tied decoder's weight counts once, among the
        embeddings.
    """
    backbone, config = model.base_model, model.config
    declared: dict[nn.Module, str] = {}
    if isinstance(config, BackboneConfig) and BACKBONES.has(config.parameters.kind, "model"):
        weight_parts = getattr(BACKBONES.load(config.parameters.kind, "model"), "weight_parts", None)
        parts = weight_parts(backbone) if weight_parts else {}
        declared = {module: part for part, modules in parts.items() for module in modules}
    part_of: dict[nn.Parameter, str] = {}
    for weight, part in _weights(backbone, "other", declared):
        part_of.setdefault(weight, part)
    counts = Counter(total=0, backbone=0, head=0)
    for weight in model.parameters():
        part = part_of.get(weight, "head")
        counts.update(dict.fromkeys({"total", part, "head" if part == "head" else "backbone"}, weight.numel()))
    return dict(counts)


def _weights(module: nn.Module, part: str, declared: Mapping[nn.Module, str]) -> Iterator[tuple[nn.Parameter, str]]:
    """Yield the weights of a module inside `part`, each with its part."""
    part = declared.get(module, part)
    own = list(module.parameters(recurse=False))
    is_norm = own and not list(module.children()) and all(weight.dim() == 1 for weight in own)  # only gains and biases
    yield from ((weight, "norms" if is_norm else part) for weight in own)
    for child in module.children():
        yield from _weights(child, part, declared)
