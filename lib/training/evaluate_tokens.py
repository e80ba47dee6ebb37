"""Evaluation of the model of another run, with its head if it has one, on validation and test."""

import time

import pandas as pd

from lib.core.errors import RunError
from lib.core.record import RunRecord
from lib.study.run import RunSettings
from lib.training.folders import RunFolders
from lib.training.interruptions import explained_size, explained_workers, until_it_fits
from lib.training.predictor import Predictor, assemble, check_vocabulary, load_split, predict_splits
from lib.training.record import count_parameters, run_record


def evaluate(run: RunSettings, folders: RunFolders) -> tuple[RunRecord, pd.DataFrame]:
    """Return the record of `run` and its predictions, one row per validation and test document.

    Raises:
        ProjectError: the tokens, the weights or the device do not allow the run.
    """
    return until_it_fits(run, lambda fitting: _evaluate(fitting, folders))


@explained_size()
def _evaluate(run: RunSettings, folders: RunFolders) -> tuple[RunRecord, pd.DataFrame]:
    if run.start is None:
        raise RunError("start: missing. Expected the folder of a model, with a head if the task has a trained one.")
    task, backbone, tokenizer, model = assemble(run)
    check_vocabulary(tokenizer, run.start.checkpoint)
    backbone.load_weights(model, run.start.checkpoint, with_head=run.task.trains_on is not None)
    splits = {split: load_split(run.data[split], sort=True) for split in ("validation", "test")}
    predictor = Predictor(run, task, model, tokenizer)
    start = time.perf_counter()
    with explained_workers(run.execution):
        metrics, predictions = predict_splits(predictor, splits)
    seconds = time.perf_counter() - start
    record = run_record(run, folders.parents, predictor.environment, count_parameters(model), metrics, seconds)
    return record, predictions
