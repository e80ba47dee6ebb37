"""A run without a training loop: a backbone that does its task as it is, or after one fit."""

import logging
import time
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq

from lib.core.errors import DataError
from lib.core.files import write_json
from lib.core.kinds import BACKBONES, TASKS
from lib.core.record import PREDICTIONS, RUN
from lib.core.settings.run import Run
from lib.training.folders import RunFolders
from lib.training.record import evaluation_record

logger = logging.getLogger(__name__)


def evaluate(run: Run, out: str | Path, work: str | Path | None = None) -> None:
    """Do `run` and leave its record, with predictions for validation and test, in `out`.

    Args:
        run: the run's settings.
        out: new folder of the results.
        work: folder under which the run works; None = beside `out`.

    Raises:
        ProjectError: the documents or the folders do not allow the run.
    """
    start = time.perf_counter()
    folders = RunFolders(run, out, work)
    task = TASKS.load(run.task.kind, "task").Task(run.task, labels=run.labels, seed=run.seed)
    backbone = BACKBONES.load(run.backbone.kind, "backbone").Backbone(run.backbone, seed=run.seed)
    documents = {split: _read(path, len(task.labels)) for split, path in run.data.items()}
    try:
        predictions, metrics = task.evaluate(backbone, documents)
    except DataError as error:
        raise DataError(f"{run.data['train']}: {error}") from error
    staged = folders.stage()
    predictions.to_parquet(staged / PREDICTIONS, index=False)
    record = evaluation_record(run, time.perf_counter() - start, backbone.weights, metrics)
    write_json(staged / RUN, record.model_dump(mode="json"))
    folders.publish(staged)
    logger.info("%s", ", ".join(f"{name} {value:.4f}" for name, value in metrics.items() if value is not None))


def _read(path: str, classes: int) -> pd.DataFrame:
    try:
        groups = {"group"} & set(pq.read_schema(path).names)
        documents = pd.read_parquet(path, columns=["id", "text", "label", *groups])
    except (OSError, ValueError) as error:  # pyarrow's own errors derive from these two
        raise DataError(
            f"{path}: cannot be read ({error}). Expected a Parquet file with the columns id, text and label. "
            "Prepare the dataset again."
        ) from error
    if documents.empty or (classes and not documents["label"].between(0, classes - 1).all()):
        labels = sorted(documents["label"].unique().tolist())
        raise DataError(
            f"{path}: {len(documents)} documents with the labels {labels}; expected at least one, labelled 0 to "
            f"{classes - 1}. Prepare the dataset again, or list every class in `labels`."
        )
    return documents
