"""TensorBoard and Weights & Biases: where they write, what they hear at the end. Nothing here changes a figure."""

import importlib
import os
from pathlib import Path

from transformers import Trainer
from transformers.integrations import TensorBoardCallback

from lib.core.record import RunRecord
from lib.study.execution import Training
from lib.study.run import RunSettings


def place_trackers(execution: Training, out: Path) -> None:
    """Tell the trackers, which read the environment, to keep their files beside the results.

    To be called before a Trainer is made. What the user's environment says about Weights & Biases already, stands.

    Args:
        execution: how the run is executed.
        out: folder of the results.
    """
    if execution.report_to:
        out.mkdir(parents=True, exist_ok=True)
    if "tensorboard" in execution.report_to:
        os.environ["TENSORBOARD_LOGGING_DIR"] = str(out / "tensorboard")
    if "wandb" in execution.report_to:
        os.environ.setdefault("WANDB_DIR", str(out))
        os.environ.setdefault("WANDB_PROJECT", execution.wandb_project)
        if execution.wandb_entity:
            os.environ.setdefault("WANDB_ENTITY", execution.wandb_entity)


def run_name(run: RunSettings) -> str:
    """Return the name under which trackers show `run`."""
    return run.execution.run_name.format(stage=run.stage, model=run.model, dataset=run.dataset, seed=run.seed)


def report_final(trainer: Trainer, record: RunRecord) -> None:
    """Tell the trackers what is known only at the end: the test metrics, and the speed and memory of the whole run.

    Args:
        trainer: after training and testing.
        record: the run's record.
    """
    tested = {name: value for name, value in record.metrics.items() if name.startswith("test_") and value is not None}
    speed = {
        "seconds_per_epoch": record.seconds_per_epoch,
        "mean_tokens_per_second": record.tokens_per_second,
        "peak_memory_mb": record.peak_memory_mb,
    }
    trainer.log(tested | speed)


def close_trackers(trainer: Trainer) -> None:
    """Let the trackers write all they have, so that their files are whole before the results are published."""
    for callback in trainer.callback_handler.callbacks:
        if isinstance(callback, TensorBoardCallback):
            callback.on_train_end(trainer.args, trainer.state, trainer.control)
    if "wandb" in trainer.args.report_to:
        importlib.import_module("wandb").finish()
