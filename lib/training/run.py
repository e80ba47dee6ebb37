"""A run with a training loop, whatever its stage, task and backbone: from its settings to its record."""

import gc
import logging
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from datasets import Dataset
from safetensors.torch import load_model
from transformers import PreTrainedModel, PreTrainedTokenizerBase, TrainerCallback
from transformers.utils import SAFE_WEIGHTS_NAME
from transformers.utils.logging import disable_progress_bar

from lib.core.errors import RunError
from lib.core.record import GEOMETRY, HISTORY, MODEL, PREDICTIONS
from lib.data.tokens import TokenDataset
from lib.study.run import RunSettings
from lib.training import ranks
from lib.training.assembly import assemble
from lib.training.callbacks import Freezing, TimedCheckpoints, quality_figures
from lib.training.checkpoints import (
    change_state,
    check_start,
    checkpoint_folder,
    last_checkpoint,
    refuse_other_number,
    take_over,
)
from lib.training.determinism import repeatable
from lib.training.folders import RunFolders
from lib.training.geometry import geometry_recorder, write_geometry
from lib.training.heartbeats import Heartbeats
from lib.training.interruptions import Interruption, OutOfMemoryError, explained_failures, explained_size
from lib.training.record import count_parameters, ordered_history, training_record, write_record
from lib.training.scoring import load_split, predict_splits
from lib.training.trackers import close_trackers, place_trackers, report_final
from lib.training.trainer import KeyedTrainer, longest_evaluated, trained, training_arguments

logger = logging.getLogger(__name__)


def train(
    run: RunSettings,
    out: str | Path,
    work: str | Path | None = None,
    code: str | None = None,
    callbacks: Sequence[TrainerCallback] = (),
) -> None:
    """Train `run` and leave its record, with predictions if its task makes any, in `out`.

    Args:
        run: the run's settings.
        out: new folder of the results.
        work: folder under which working checkpoints are kept, until some time after the run; None = beside `out`, and
            removed with it.
        code: digest of the code that the run executes, for its record.
        callbacks: called by the Trainer before its own; they change no number.

    Raises:
        ProjectError: the data, the start or the folders do not allow the run, a signal has come, or memory did not
            suffice.
    """
    if run.recipe is None:
        raise RunError("recipe: missing. Expected one to train by; scripts/evaluate.py runs what does not train.")
    repeating = repeatable(wanted=run.execution.deterministic)
    with RunFolders(run, out, work, code) as folders, Interruption() as interruption, repeating:
        if ranks.first(folders.is_published()):
            return
        take_over(folders)
        fitting = run.execution.micro_batch_tokens
        while (smaller := _try(run, folders, interruption, fitting, callbacks)) is not None:
            fitting = smaller
            gc.collect()
            torch.cuda.empty_cache()


def _try(
    run: RunSettings,
    folders: RunFolders,
    interruption: Interruption,
    fitting: int,
    callbacks: Sequence[TrainerCallback],
) -> int | None:
    """Train with `fitting` tokens at once; return how many to try next, None if they fitted."""
    execution = run.execution.model_copy(update={"micro_batch_tokens": fitting})
    try:
        _train(run.model_copy(update={"execution": execution}), folders, interruption, callbacks)
    except OutOfMemoryError as error:
        if error.fitting is None or not execution.auto_micro_batch:
            raise
        logger.warning("%s", error)
        return error.fitting
    return None


@explained_size()
def _train(
    run: RunSettings, folders: RunFolders, interruption: Interruption, listeners: Sequence[TrainerCallback]
) -> None:
    """Train, predict and publish."""
    recipe = run.recipe
    assert recipe is not None  # its caller has looked
    place_trackers(run.execution, folders.trackers)
    task, backbone, tokenizer, model = assemble(run)
    if recipe.lora is not None:
        from lib.backbones.adapters import Adapters, targets  # peft takes seconds to import

        targets(model, recipe.lora)  # refuses names of no layer before weights and documents are read
    splits: dict[str, Dataset] = {
        split: load_split(folder, sort=split != "train") for split, folder in run.data.items()
    }
    lengths = splits["train"]["length"][:]
    if run.start is not None and run.start.load_only_model_state:
        backbone.load_weights(model, run.start.checkpoint)
    parameters = count_parameters(model)
    adapters = None
    if recipe.lora is not None:
        backbone.quantize(model, run.precision)
        adapters = Adapters(model, recipe.lora, seed=run.seed, start=run.start.checkpoint if run.start else None)
        parameters["trainable"] = sum(parameter.numel() for parameter in trained(model).values())

    keep = recipe.keep or [run.task.keeps]
    checkpoints = TimedCheckpoints(run.execution.checkpoint_minutes, interruption)
    callbacks = [*listeners, checkpoints, *backbone.callbacks(model)]
    if recipe.frozen_epochs:
        callbacks.append(Freezing(recipe.freeze_layers, recipe.freezes_embeddings, recipe.frozen_epochs))
    if run.geometry:
        callbacks.append(geometry_recorder(run))
    trainer = KeyedTrainer(
        task=task,
        model=model,
        args=training_arguments(
            work=str(folders.work),
            run=run,
            recipe=recipe,
            longest=max(lengths),
            longest_evaluated=longest_evaluated({name: split for name, split in splits.items() if name != "train"}),
            best=(task.best, task.greater_is_better) if "best" in keep else None,
        ),
        lengths=lengths,
        recipe=recipe,
        train_dataset=TokenDataset(splits["train"]),
        eval_dataset=TokenDataset(splits["validation"]),
        data_collator=task.collator(tokenizer),
        callbacks=callbacks,
    )
    trainer.add_callback(Heartbeats(trainer, folders))
    with explained_failures(trainer.args, run.execution.micro_batch_tokens, max(lengths), interruption):
        _fit(trainer, run)
        # All processes of a training predict; one of them writes.
        staged = folders.stage() if trainer.is_world_process_zero() else None
        row = _keep(trainer, keep, staged and staged / MODEL, adapters.save if adapters else model.save_pretrained)
        if adapters:
            adapters.merge()
        metrics, predictions = _scores(trainer, run, splits, row)
    ranks.wait()  # until none reads the working folder any more
    if staged is None:
        return
    _save_tokenizer(tokenizer, run, staged / MODEL, longest=max(lengths))
    if predictions is not None:
        predictions.to_parquet(staged / PREDICTIONS, index=False)
    history = ordered_history(trainer.recorder.rows)
    history.to_csv(staged / HISTORY, index=False)
    if run.geometry:
        write_geometry(trainer, staged / GEOMETRY)
    record = training_record(run, folders, trainer, history, metrics, parameters)
    report_final(trainer, record)
    close_trackers(trainer)
    write_record(record, staged, folders.code)
    folders.publish(staged)


def _fit(trainer: KeyedTrainer, run: RunSettings) -> None:
    """Train from the last working checkpoint if there is one, else from the run's start."""
    checkpoint = last_checkpoint(trainer.args.output_dir)
    if checkpoint is not None:
        refuse_other_number(checkpoint, f"delete {checkpoint.parents[1]} to begin anew")
    elif run.start is not None and not run.start.load_only_model_state:
        checkpoint = Path(run.start.checkpoint)
        check_start(checkpoint, trainer.args, run.recipe.steps if run.recipe else None)
    if checkpoint is not None:
        logger.info("resuming from %s", checkpoint)
    if trainer.args.disable_tqdm:
        disable_progress_bar()
    trainer.train(resume_from_checkpoint=checkpoint)
    if checkpoint is not None and checkpoint.name == checkpoint_folder("", trainer.state.global_step).name:
        # No step was left, and not every task evaluates after training; but the record says what computes a pass.
        batch = next(iter(trainer.get_eval_dataloader()))
        trainer.prediction_step(trainer.model, batch, prediction_loss_only=True)


def _keep(
    trainer: KeyedTrainer, keep: Sequence[str], folder: Path | None, save: Callable[[Path], object]
) -> dict[str, Any]:
    """Save what is kept of a training, leave the first model of it in the trainer, and return its row of the history.

    Args:
        trainer: after training; its model is the best one if that is kept, else the last.
        keep: what to keep, in order.
        folder: of the run's model; what comes second lies in folders of their names inside it. None saves nothing.
        save: saves the trainer's model to a folder.
    """
    model: PreTrainedModel = trainer.accelerator.unwrap_model(trainer.model)
    models = [name for name in keep if name != "state"]
    last = checkpoint_folder(trainer.args.output_dir, trainer.state.global_step)
    rows = {"best": trainer.kept_row, "last": trainer.recorder.rows[-1]}
    checkpoints = {"best": trainer.state.best_model_checkpoint, "last": last}
    for name in reversed(models):
        if len(models) > 1:
            lacks_frozen = trainer.recipe is not None and trainer.recipe.lora is not None
            load_model(model, Path(checkpoints[name]) / SAFE_WEIGHTS_NAME, strict=not lacks_frozen)
        if folder is not None:
            save(folder if name == models[0] else folder / name)
    if "state" in keep and folder is not None:
        shutil.copytree(last, folder / "state")
        # Whoever goes on from here compares with no earlier evaluations: their models are not kept.
        change_state(folder / "state", best_metric=None, best_global_step=None, best_model_checkpoint=None)
    return rows[models[0]]


def _scores(
    trainer: KeyedTrainer, run: RunSettings, splits: Mapping[str, Dataset], row: dict[str, Any]
) -> tuple[dict[str, float | None], pd.DataFrame | None]:
    """Return the figures of the record, and the predictions if the task makes any; the `row` kept gets its test."""
    metrics: dict[str, float | None] = {"train_loss": min(each["train_loss"] for each in trainer.recorder.rows)}
    if trainer.args.load_best_model_at_end:
        metrics["best_epoch"] = trainer.kept_row["epoch"]
    if not run.task.predicts:
        return metrics | quality_figures(row, "eval"), None
    scores, predictions = predict_splits(trainer, splits)
    row.update(quality_figures(scores, "test"))
    return metrics | scores, predictions


def _save_tokenizer(tokenizer: PreTrainedTokenizerBase, run: RunSettings, folder: Path, longest: int) -> None:
    """Put the tokeniser beside each model that is kept in `folder`."""
    # Whoever uses the model later cuts documents as the run did, unless told otherwise.
    tokenizer.model_max_length = run.max_tokens or longest
    for place in (folder, folder / "best", folder / "last"):
        if place.is_dir():
            tokenizer.save_pretrained(place)
