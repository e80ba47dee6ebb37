"""A run without a training loop: evaluates a trained model, or a backbone that solves the task by itself."""

import contextlib
import logging
import threading
from collections.abc import Iterator
from pathlib import Path

from lib.core.errors import RunError
from lib.core.record import MODEL, PREDICTIONS
from lib.study.run import RunSettings
from lib.training.folders import RunFolders
from lib.training.record import write_record

logger = logging.getLogger(__name__)

SECONDS = 60.0
"""Between two heartbeats."""


def evaluate(run: RunSettings, out: str | Path, work: str | Path | None = None, code: str | None = None) -> None:
    """Execute `run` and write its record, its predictions for validation and test, and what predicts further documents.

    Args:
        run: the run's settings.
        out: new folder of the results; its `model` is read by `lib.predicting`.
        work: parent of the working folders; None = next to `out`.
        code: digest of the code that the run executes, for its record.

    Raises:
        ProjectError: the data, the start or the folders do not allow the run.
    """
    if run.recipe is not None:
        raise RunError("recipe: expected none, since this program does not train. Use scripts/train.py.")
    if run.reads_tokens:
        from lib.training.evaluate_tokens import evaluate as evaluated  # a baseline needs no torch
    else:
        from lib.training.evaluate_texts import evaluate as evaluated
    with RunFolders(run, out, work, code) as folders:
        if folders.is_done():
            return
        with _beating(folders):
            record, predictions, keep = evaluated(run, folders)
        staged = folders.stage()
        keep(staged / MODEL)
        predictions.to_parquet(staged / PREDICTIONS, index=False)
        write_record(record, staged, code)
        folders.move_to_out(staged)
    logger.info("%s", ", ".join(f"{name} {value:.4f}" for name, value in record.metrics.items() if value is not None))


@contextlib.contextmanager
def _beating(folders: RunFolders) -> Iterator[None]:
    """Beat from a thread, since a fit by another library has no steps between which this process could."""
    ended = threading.Event()

    def beat() -> None:
        with contextlib.suppress(RunError):  # another process has taken the run over, as moving the results will say
            while not ended.wait(SECONDS):
                folders.beat()

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
