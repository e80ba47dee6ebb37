"""A run without a training loop: a trained model as it is, or a backbone that does its task by itself."""

import logging
from pathlib import Path

from lib.core.errors import RunError
from lib.core.record import PREDICTIONS
from lib.study.run import RunSettings
from lib.training.folders import RunFolders
from lib.training.record import write_record

logger = logging.getLogger(__name__)


def evaluate(run: RunSettings, out: str | Path, work: str | Path | None = None, code: str | None = None) -> None:
    """Do `run` and leave its record, with predictions for validation and test, in `out`.

    Args:
        run: the run's settings.
        out: new folder of the results.
        work: folder under which the run works; None = beside `out`.
        code: digest of the code that the run executes, for its record.

    Raises:
        ProjectError: the data, the start or the folders do not allow the run.
    """
    if run.recipe is not None:
        raise RunError("recipe: expected none, since nothing is trained here; scripts/train.py runs what trains.")
    if run.reads_tokens:
        from lib.training.evaluate_tokens import evaluate as evaluated  # a baseline needs no torch
    else:
        from lib.training.evaluate_texts import evaluate as evaluated
    with RunFolders(run, out, work, code) as folders:
        if folders.is_published():
            return
        record, predictions = evaluated(run, folders)
        staged = folders.stage()
        predictions.to_parquet(staged / PREDICTIONS, index=False)
        write_record(record, staged, code)
        folders.publish(staged)
    scores = [f"{name} {value:.4f}" for name, value in record.metrics.items() if value is not None]
    logger.info("%s", ", ".join(scores))
