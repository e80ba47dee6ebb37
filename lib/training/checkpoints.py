"""Working checkpoints: which of them are whole, and proof that a training went on from the one it was given.

The Trainer passes over a missing file in silence: it starts at step 0, with a new optimiser or with other random
numbers, or it forgets the best model. Another process on the same folder is enough for that.
"""

import json
import logging
import math
import re
import zipfile
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from transformers import TrainerCallback, TrainingArguments
from transformers.trainer import OPTIMIZER_NAME, SCALER_NAME, SCHEDULER_NAME, TRAINER_STATE_NAME
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR
from transformers.utils import SAFE_WEIGHTS_NAME

from lib.core.errors import RunError

logger = logging.getLogger(__name__)

RANDOM_STATES = "rng_state*.pth"
"""Of the random numbers, one per process; written before the Trainer's state."""
NAME = re.compile(rf"{PREFIX_CHECKPOINT_DIR}-(\d+)")
REMEDY = "Another process probably works on the same folder: end it, then start this run again."


def last_checkpoint(args: TrainingArguments) -> Path | None:
    """Return the newest whole checkpoint of a run.

    Others are passed over and left as they are: a process that still lives may be writing them. The Trainer removes
    them when it rotates its checkpoints, or overwrites them.

    Args:
        args: the run's arguments; `output_dir` holds its checkpoints.

    Raises:
        RunError: another number of processes wrote it.
    """
    numbers = {folder: _number(folder) for folder in Path(args.output_dir).iterdir()}
    for folder in sorted(numbers, key=lambda folder: numbers[folder] or 0, reverse=True):
        if numbers[folder] is None:
            continue
        fault = checkpoint_fault(folder, args)
        if fault is None:
            return folder
        if (folder / TRAINER_STATE_NAME).exists() and (written := len(list(folder.glob(RANDOM_STATES)))):
            _refuse_other_number(folder, written, args.world_size)
        logger.warning("%s: passed over, since %s", folder, fault)
    return None


def _refuse_other_number(checkpoint: Path, written: int, processes: int) -> None:
    """Raise an error if as many processes as this training has not wrote `checkpoint`: it could not go on exactly."""
    if written != processes:
        raise RunError(
            f"{checkpoint}: written by {written} process(es), each with random numbers of its own, but {processes} are "
            f"to go on. Expected as many: set execution.gpus_per_run to {written} until the run is finished, or delete "
            f"{checkpoint.parent} to begin anew."
        )


def check_start(checkpoint: Path, args: TrainingArguments, steps: int | None) -> None:
    """Refuse a start from the training state of another run if its checkpoint is not whole, or has had all steps.

    Args:
        checkpoint: folder given as the start.
        args: the run's arguments.
        steps: of the run's recipe; None = those of all epochs.

    Raises:
        RunError: the checkpoint is not whole, or there is nothing left to train.
    """
    fault = checkpoint_fault(checkpoint, args)
    if fault:
        raise RunError(
            f"{checkpoint}: {fault}. Expected a whole working checkpoint, since start.load_only_model_state is false; "
            "set it to true to take the weights alone, or give another checkpoint."
        )
    state = _read_state(checkpoint)
    for unit, trained, limit in (
        ("epochs", state.get("epoch") or 0, args.num_train_epochs),
        ("steps", state.get("global_step") or 0, steps or math.inf),
    ):
        if trained >= limit:
            raise RunError(
                f"{checkpoint}: has been trained for {trained:g} {unit}, so that recipe.{unit} = {limit:g} leaves "
                f"nothing to do. Expected more, since the {unit} before count; raise recipe.{unit}, or set "
                "start.load_only_model_state to true to count from 1."
            )


def checkpoint_fault(checkpoint: Path, args: TrainingArguments) -> str | None:
    """Return what keeps a training from going on from `checkpoint` exactly, or None if nothing does.

    Args:
        checkpoint: folder of the checkpoint.
        args: the arguments of the training that is to go on; if it selects a best model, that one must be there.
    """
    try:
        state = _read_state(checkpoint)
    except (OSError, ValueError) as error:
        return f"its {TRAINER_STATE_NAME} cannot be read ({error})"
    step, best = state.get("global_step"), state.get("best_model_checkpoint")
    if _number(checkpoint) not in (None, step):
        return f"its {TRAINER_STATE_NAME} says step {step}"
    alone = args.world_size <= 1
    random_states = ["rng_state.pth"] if alone else [f"rng_state_{index}.pth" for index in range(args.world_size)]
    for name in (OPTIMIZER_NAME, SCHEDULER_NAME, *random_states, *([SCALER_NAME] if args.fp16 else [])):
        if not zipfile.is_zipfile(checkpoint / name):
            return f"its {name} is missing or cut off"
    fault = weights_fault(checkpoint)
    if fault is None and args.load_best_model_at_end and state.get("best_global_step"):
        fault = best_fault(best, state["best_global_step"])
    return fault


def best_fault(best: str | None, step: int | None) -> str | None:
    """Return what keeps the best model from being loaded, or None if nothing does.

    Args:
        best: folder of the checkpoint with the best model, as the Trainer's state holds it.
        step: step of the best model, as the Trainer's state holds it.
    """
    if best is None or step is None:
        return "it knows no checkpoint with a best model"
    if _number(Path(best)) != step:
        return f"its best model is that of step {step}, but {best} stands for it"
    fault = weights_fault(Path(best))
    return fault and f"of its best model in {best}, {fault.removeprefix('its ')}"


def weights_fault(checkpoint: Path) -> str | None:
    """Return what is wrong with the weights in `checkpoint`, or None if nothing is."""
    try:
        with safe_open(checkpoint / SAFE_WEIGHTS_NAME, framework="pt"):
            return None
    except (OSError, SafetensorError):
        return f"its {SAFE_WEIGHTS_NAME} is missing or cut off"


class StartCheck(TrainerCallback):
    """Prove that a training starts at the step it should, with all that its checkpoint holds.

    A file that is there after the last read was there during all reads: nobody writes old checkpoints.

    Args:
        checkpoint: where the training goes on from; None = from its beginning.

    Raises:
        RunError: the checkpoint cannot be read.
    """

    def __init__(self, checkpoint: Path | None):
        self.checkpoint = checkpoint
        self.step = 0
        self.passed = False
        if checkpoint is not None:
            try:
                self.step = _read_state(checkpoint)["global_step"]
            except (OSError, ValueError, KeyError) as error:
                raise RunError(
                    f"{checkpoint}: its {TRAINER_STATE_NAME} cannot be read ({error!r}). Expected the training state "
                    f"to go on from. {REMEDY}"
                ) from error

    def on_train_begin(self, args, state, control, **kwargs):
        """Compare the step, and look for the files that have been read so far.

        Raises:
            RunError: the training does not go on from its checkpoint.
        """
        if state.global_step != self.step:
            raise RunError(
                f"{self.checkpoint or args.output_dir}: the training starts at step {state.global_step}. Expected "
                f"step {self.step}. {REMEDY}"
            )
        self.refuse_fault(args)

    def on_step_begin(self, args, state, control, **kwargs):
        """Look once more before the first step: the random numbers' state is read last.

        Raises:
            RunError: the training does not go on from its checkpoint.
        """
        if not self.passed:
            self.refuse_fault(args)
            self.passed = True

    def refuse_fault(self, args: TrainingArguments, cause: Exception | None = None) -> None:
        """Raise an error if the checkpoint is no longer whole.

        Args:
            args: the run's arguments.
            cause: what failed.

        Raises:
            RunError: the checkpoint is no longer whole.
        """
        fault = checkpoint_fault(self.checkpoint, args) if self.checkpoint else None
        if fault:
            raise RunError(
                f"{self.checkpoint}: {fault}. Expected the checkpoint to stay whole while the training reads it. "
                f"{REMEDY}"
            ) from cause


def _number(checkpoint: Path) -> int | None:
    match = NAME.fullmatch(checkpoint.name)
    return int(match[1]) if match else None


def _read_state(checkpoint: Path) -> dict[str, Any]:
    return json.loads((checkpoint / TRAINER_STATE_NAME).read_text(encoding="utf-8"))
