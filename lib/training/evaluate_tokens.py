"""Evaluation of the model of another run, with its head if it has one, on validation and test."""

import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from lib.core.errors import RunError
from lib.core.files import link_tree
from lib.core.record import KEPT, RunRecord
from lib.study.reader import START, ReaderSettings
from lib.study.run import RunSettings
from lib.tokens.stored import stride_of, texts_of
from lib.training.folders import RunFolders
from lib.training.interruptions import explained_size, explained_workers, until_it_fits
from lib.training.predictor import Predictor, assemble, check_vocabulary, load_split, predict_splits
from lib.training.record import count_parameters, run_record

Evaluated = tuple[RunRecord, pd.DataFrame, Callable[[Path], None]]


def evaluate(run: RunSettings, folders: RunFolders) -> Evaluated:
    """Return the record of `run`, its predictions, one row per validation and test document, and what keeps the model.

    The last one writes the model to a folder, its weights as links.

    Raises:
        ProjectError: the tokens, the weights or the device do not allow the run.
    """
    return until_it_fits(run, lambda fitting: _evaluate(fitting, folders))


@explained_size()
def _evaluate(run: RunSettings, folders: RunFolders) -> Evaluated:
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

    def keep(folder: Path) -> None:
        test, start = splits["test"], run.start
        assert start is not None
        reader = ReaderSettings.of(run, task.state(), texts=texts_of(test), window_stride=stride_of(test))
        reader.write(folder, predictions)
        model.config.architectures = [type(model).__name__]
        model.config.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        link_tree(start.checkpoint, folder / START, *KEPT, theirs=start.run is None)

    return record, predictions, keep
