"""Execution of a run with a training loop, for all stages, tasks and backbones."""

import importlib
import logging
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from accelerate.utils import send_to_device
from datasets import Dataset
from transformers.utils.logging import disable_progress_bar

from lib.core.errors import RunError
from lib.core.extensions import part
from lib.core.record import GEOMETRY, HISTORY, MODEL, PREDICTIONS
from lib.study.reader import ReaderSettings
from lib.study.run import RunSettings
from lib.tokens.stored import TEXTS, share_longer, shared_documents, stride_of, texts_of
from lib.training import checkpoints, distributed, interruptions
from lib.training.folders import RunFolders
from lib.training.optimisation import count_moved, trained
from lib.training.predictor import Observer, assemble, check_vocabulary, load_split, predict_splits
from lib.training.record import count_parameters, run_record, write_record
from lib.training.reporting import Heartbeats, Trackers
from lib.training.trainer import Trainer

logger = logging.getLogger(__name__)


def train(
    run: RunSettings,
    out: str | Path,
    work: str | Path | None = None,
    code: str | None = None,
    observers: Sequence[Observer] = (),
) -> None:
    """Train `run` and write its record, with predictions if its task makes any, to `out`.

    Args:
        run: the run's settings.
        out: new folder of the results.
        work: parent of the folders of working checkpoints, which stay for some time after the run; None = next to
            `out`, and removed at the end.
        code: digest of the code that the run executes, for its record.
        observers: callbacks.

    Raises:
        ProjectError: the data, the start or the folders do not allow the run, a signal was received, or memory ran out.
    """
    if run.recipe is None:
        raise RunError("recipe: missing. Expected a training recipe; without one, use scripts/evaluate.py.")
    repeating = repeatable(wanted=run.execution.deterministic)
    with RunFolders(run, out, work, code) as folders, interruptions.Interruption() as interruption, repeating:
        if distributed.first(folders.is_done()):
            return
        checkpoints.take_over(folders)
        interruptions.until_it_fits(run, lambda fitting: _train(fitting, folders, interruption, observers))


@interruptions.explained_size()
def _train(
    run: RunSettings, folders: RunFolders, interruption: interruptions.Interruption, observers: Sequence[Observer]
) -> None:
    """Train, predict, and move the results into place."""
    recipe = run.recipe
    assert recipe is not None  # the caller checks this
    components = assemble(run)
    _, backbone, tokenizer, model = components
    if recipe.lora is not None:
        from lib.backbones.adapters import Adapters, targets  # peft takes seconds to import

        targets(model, recipe.lora)  # refuses unknown layer names before weights and documents are read
    splits: dict[str, Dataset] = {name: load_split(path, sort=name != "train") for name, path in run.data.items()}
    lengths = splits["train"]["length"][:]
    if run.start is not None and run.start.load_only_model_state:
        check_vocabulary(tokenizer, run.start.checkpoint)
        backbone.load_weights(model, run.start.checkpoint)
    parameters = count_parameters(model)
    adapters = None
    if recipe.lora is not None:
        backbone.quantize(model, run.precision)
        adapters = Adapters(model, recipe.lora, seed=run.seed, start=run.start.checkpoint if run.start else None)

    geometry = importlib.import_module(part("lib.training.geometry")) if run.geometry else None
    recorder = geometry.geometry_recorder(run) if geometry else None
    trackers = None if distributed.index() else Trackers(run, folders.trackers)
    watching = [observer for observer in (recorder, trackers) if observer]
    trainer = Trainer(run, components, splits, folders.work, interruption, [*observers, *watching, Heartbeats(folders)])
    trainable = trained(model)  # some tasks freeze weights, but not before the trainer is made
    with (
        interruptions.explained_workers(run.execution, interruption),
        interruptions.explained_memory(run.execution, trainer.documents, max(lengths)),
    ):
        _fit(trainer)
        if (moved := count_moved(model, trainable, recipe, trainer.progress.epoch)) != parameters["total"]:
            parameters["trainable"] = moved
        # All processes of a training run predict; one of them writes.
        staged = None if distributed.index() else folders.stage()
        row = _keep(trainer, staged and staged / MODEL, adapters.save if adapters else model.save_pretrained)
        if adapters:
            adapters.merge()
        metrics, predictions = _scores(trainer, splits, row)
    distributed.wait()  # until no process reads the working folder
    if staged is None or trackers is None:
        return
    tokenizer.init_kwargs[TEXTS] = texts_of(splits["train"])  # it is saved with its other settings
    # Later users of the model truncate documents as the run did by default.
    tokenizer.model_max_length = run.max_tokens or max(lengths)
    for place in (staged / MODEL, staged / MODEL / "best", staged / MODEL / "last"):
        if place.is_dir():
            tokenizer.save_pretrained(place)
    if predictions is not None:
        task, training = trainer.task, splits["train"]
        form = {"texts": texts_of(training), "window_stride": stride_of(training)}
        reader = ReaderSettings.of(run, task.state(), **form, max_tokens=tokenizer.model_max_length)
        reader.write(staged / MODEL, predictions)
        for place in filter(Path.is_dir, (staged / MODEL / name for name in ("best", "last"))):
            reader.model_copy(update={"state": {}}).write(place)
        predictions.to_parquet(staged / PREDICTIONS, index=False)
    history = trainer.history.table()
    history.to_csv(staged / HISTORY, index=False)
    if geometry:
        geometry.write_geometry(recorder, staged / GEOMETRY)
    record = run_record(
        run,
        folders.parents,
        trainer.environment,
        parameters,
        metrics,
        float(history["seconds"].sum()),
        epochs=trainer.history.rows[-1]["epoch"],
        steps=trainer.progress.step,
        saved_steps=trainer.steps - trainer.progress.step or None,
        tokens=trainer.progress.tokens,
        approximated=share_longer(splits["train"], backbone.parameters.exact_up_to()),
        stretches=trainer.stretches,
        shared=shared_documents(run.data) if predictions is not None else {},
    )
    trackers.close(trainer, record)
    write_record(record, staged, folders.code)
    folders.move_to_out(staged)


def _fit(trainer: Trainer) -> None:
    """Train from the last working checkpoint if there is one, else from the start of the run."""
    start = trainer.run.start
    checkpoint = checkpoints.last_checkpoint(trainer.work)
    if checkpoint is not None:
        checkpoints.refuse_other_number(checkpoint, f"or delete {checkpoint.parents[1]} to start again")
    elif start is not None and not start.load_only_model_state:
        checkpoint = Path(start.checkpoint)
        checkpoints.check_start(checkpoint, trainer.recipe, len(trainer.lengths))
    if checkpoint is not None:
        logger.info("resuming from %s", checkpoint)
    if not sys.stderr.isatty():
        disable_progress_bar()
    trainer.train(checkpoint)
    if checkpoint is not None and checkpoint.name == checkpoints.checkpoint_folder("", trainer.progress.step).name:
        # No step was left, and some tasks do not evaluate after training, but the record needs `computed_by`.
        batch = next(iter(trainer.loader(trainer.validation, trainer.evaluation_batches(trainer.validation))))
        trainer.prediction_step(send_to_device(batch, trainer.device))


def _keep(trainer: Trainer, folder: Path | None, save: Callable[[Path], object]) -> dict[str, Any]:
    """Save the models that are kept, load the first of them into the trainer, and return its row of the history.

    Args:
        trainer: trainer after training; its model is the best one if that is kept, else the last.
        folder: folder of the first model; others are saved in subfolders with their names. None saves nothing.
        save: function that saves the trainer's model to a folder.
    """
    keep = trainer.recipe.keep or [trainer.run.task.keeps]
    models = [name for name in keep if name != "state"]
    steps = {"best": trainer.progress.best_step, "last": trainer.progress.step}
    for name in reversed(models):
        if len(models) > 1:
            trainer.load_weights(checkpoints.checkpoint_folder(trainer.work, steps[name]))
        if folder is not None:
            save(folder if name == models[0] else folder / name)
    if "state" in keep and folder is not None:
        shutil.copytree(checkpoints.checkpoint_folder(trainer.work, steps["last"]), folder / "state")
        # A run that starts from here ignores earlier evaluations: their models are not kept.
        checkpoints.forget_best(folder / "state")
    return trainer.history.row_of(steps[models[0]])


def _scores(
    trainer: Trainer, splits: Mapping[str, Dataset], row: dict[str, Any]
) -> tuple[dict[str, float | None], pd.DataFrame | None]:
    """Return the scores of the record, and the predictions if the task makes any; adds the test scores to `row`."""
    metrics: dict[str, float | None] = {"train_loss": min(each["train_loss"] for each in trainer.history.rows)}
    if trainer.keeps_best:
        metrics["best_epoch"] = trainer.history.row_of(trainer.progress.best_step)["epoch"]
    if not trainer.run.task.predicts:
        return metrics | _named(row, "eval_"), None
    scores, predictions = predict_splits(trainer, splits)
    row.update(_named(scores, "test_"))
    return metrics | scores, predictions


def _named(figures: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {name: value for name, value in figures.items() if name.startswith(prefix)}


@contextmanager
def repeatable(*, wanted: bool) -> Iterator[None]:
    """Restrict torch to bitwise deterministic operations, if `wanted`.

    Without it, the gradients of exact attention differ in their last digits from one run to the next on a GPU: fused
    kernels add up those of the queries in any order. All other operations are deterministic anyway, and on a CPU all
    are.
    """
    memory: Any = torch.utils.deterministic  # its attributes are created at run time
    before = torch.are_deterministic_algorithms_enabled(), memory.fill_uninitialized_memory
    if wanted:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # required by torch for matrix products on a GPU
        torch.use_deterministic_algorithms(True)
        memory.fill_uninitialized_memory = False  # a debugging aid that takes time
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0])
        memory.fill_uninitialized_memory = before[1]
