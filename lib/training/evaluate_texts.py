"""Evaluation of a backbone that reads texts and solves the task by itself, after at most one fit."""

import platform
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pyarrow.parquet as pq

from lib.backbones.contract import Validation
from lib.backbones.settings import BACKBONES
from lib.core.errors import DataError
from lib.core.program import resident_peak_mb
from lib.core.record import RunRecord
from lib.study.reader import ReaderSettings
from lib.study.run import RunSettings
from lib.tasks.settings import TASKS
from lib.tokens.stored import shared_documents
from lib.training.folders import RunFolders
from lib.training.record import Environment, run_record


def evaluate(run: RunSettings, folders: RunFolders) -> tuple[RunRecord, pd.DataFrame, Callable[[Path], None]]:
    """Return the record of `run`, its predictions, one row per validation and test document, and what keeps the fit.

    The last one writes the fit to a folder; nothing else writes files.

    Raises:
        DataError: the documents cannot be read, or are not enough to fit.
    """
    start = time.perf_counter()
    task = TASKS.load(run.task.kind, "task").Task(run.task, labels=run.labels, seed=run.seed)
    backbone = BACKBONES.load(run.backbone.kind, "backbone").Backbone(run.backbone, seed=run.seed)
    classes = len(task.labels) if run.task.label_form in ("class", "set") else 0
    backbone.labels, backbone.sets = task.labels, run.task.label_form == "set"
    numbered = classes if run.task.label_form == "class" else 0
    documents = {split: _read(path, numbered, labelled=split != "test") for split, path in run.data.items()}
    held_out = documents.pop("choice", documents["validation"])

    def score(found: object) -> float:
        answers = dict.fromkeys(("fit", "class_probabilities", "pieces"), lambda *_: found)
        as_validation = dict.fromkeys(documents, held_out)
        metrics = task.evaluate(SimpleNamespace(**answers, featureless=0.0), as_validation)[1]
        return metrics[f"eval_{task.best}"] * (1 if task.greater_is_better else -1)

    backbone.validation = Validation(held_out.filter(["text", "text_pair"]).squeeze("columns"), classes, score)
    try:
        predictions, metrics = task.evaluate(backbone, documents)
    except DataError as error:
        raise DataError(f"{run.data['train']}: {error}") from error
    seconds = time.perf_counter() - start
    environment = Environment("cpu", platform.machine(), ["scikit-learn", "numpy", "scipy"], resident_peak_mb())
    record = run_record(
        run,
        folders.parents,
        environment,
        {"total": backbone.weights},
        metrics,
        seconds,
        shared=shared_documents({split: run.data[split] for split in documents}),
        chosen=backbone.chosen,
        candidates=backbone.candidates,
    )

    def keep(folder: Path) -> None:
        texts = "together" if "text_pair" in held_out else "single"
        ReaderSettings.of(run, task.state(), texts=texts).write(folder, predictions)
        backbone.save(folder)

    return record, predictions, keep


def _read(path: str, classes: int, *, labelled: bool) -> pd.DataFrame:
    """Return the documents of a split. All have labels, or none if `labelled` is false."""
    try:
        present = set(pq.read_schema(path).names)
        further = [name for name in ("group", "text_pair") if name in present]
        documents = pd.read_parquet(path, columns=["id", "text", "label", *further])
    except (OSError, ValueError) as error:  # pyarrow's errors derive from these two
        raise DataError(f"{path}: cannot be read ({error}). Expected the columns id, text and label.") from error
    if not labelled and not documents.empty and documents["label"].isna().all():
        return documents
    if documents.empty or (classes and not documents["label"].between(0, classes - 1).all()):
        labels = f"documents with the labels {sorted(documents['label'].unique().tolist())}"
        raise DataError(f"{path}: {len(documents)} {labels}; expected at least one, labelled 0 to {classes - 1}.")
    return documents
