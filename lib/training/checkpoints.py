"""Working checkpoints: written whole, recognised when damaged, taken over from the attempts before.

The Trainer passes over a missing or foreign file in silence: it starts at step 0, with a new optimiser or with other
random numbers, or it forgets the best model. So every checkpoint holds a manifest of its files, written last, and a
training reads none but its own: those that it wrote, and copies that agree with their manifest.
"""

import contextlib
import json
import logging
import math
import re
import shutil
from pathlib import Path
from typing import Any

import torch
from transformers import TrainingArguments
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_pt_utils import safe_globals
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from lib.core.attempts import remove
from lib.core.errors import RunError, UnpicklingError
from lib.core.files import atomic_path, file_digest, sync, write_json
from lib.training import ranks
from lib.training.folders import TRACKERS, RunFolders

logger = logging.getLogger(__name__)

RANDOM_STATES = "rng_state*.pth"
"""Of the random numbers, one per process."""
NAME = re.compile(rf"{PREFIX_CHECKPOINT_DIR}-(\d+)")
MANIFEST = "manifest.json"
"""File in a checkpoint: the SHA-256 of every other file in it, by name."""
KEPT = 2
"""The last checkpoints that stay, besides that of the best model."""


class DamagedError(RunError):
    """A checkpoint is not whole."""


def checkpoint_folder(work: str | Path, step: int) -> Path:
    """Return where the checkpoint of `step` is, in the folder of an attempt."""
    return Path(work) / f"{PREFIX_CHECKPOINT_DIR}-{step}"


def last_checkpoint(work: str | Path) -> Path | None:
    """Return the newest checkpoint in the folder of this process's own attempt."""
    return max(_sealed(Path(work)), key=_step, default=None)


def seal(checkpoint: Path) -> None:
    """Write the manifest of a checkpoint whose other files are all there, and bring them to the disk."""
    files = sorted(path for path in checkpoint.rglob("*") if path.is_file() and path.name != MANIFEST)
    write_json(checkpoint / MANIFEST, {str(path.relative_to(checkpoint)): file_digest(path) for path in files})
    sync(checkpoint)


def fault(checkpoint: Path) -> str | None:
    """Return what is wrong with a checkpoint, None if it is whole."""
    try:
        manifest = _manifest(checkpoint)
        differing = [name for name, digest in manifest.items() if file_digest(checkpoint / name) != digest]
    except FileNotFoundError as error:
        return f"its {Path(error.filename).name} is missing"
    except ValueError as error:
        return f"its {MANIFEST} cannot be read ({error})"
    return f"its {', '.join(differing)} is damaged" if differing else None


def take_over(folders: RunFolders) -> None:
    """Copy the newest whole checkpoint of the earlier attempts, and that of its best model, and remove those attempts.

    While this process copies, an earlier one may rotate its checkpoints, and a third may take them over itself: so
    they are looked for again until one has been copied whole, or none is left.

    Args:
        folders: of the run.

    Raises:
        ProjectError: this attempt's folder cannot be written, or another process has begun a later attempt.
    """
    if ranks.index():
        ranks.wait()
        return
    tried: set[Path] = set()
    while found := [path for attempt in folders.earlier() for path in _sealed(attempt) if path not in tried]:
        newest = max(found, key=_step)
        tried.add(newest)
        try:
            best = read_state(newest).get("best_global_step")
            if best not in (None, _step(newest)):
                copy_checkpoint(checkpoint_folder(newest.parent, best), checkpoint_folder(folders.work, best))
            copy_checkpoint(newest, checkpoint_folder(folders.work, _step(newest)))
        except (DamagedError, FileNotFoundError, ValueError) as error:
            logger.warning("%s: passed over (%s)", newest, error)
        else:
            logger.info("%s: taken over", newest)
            break
    folders.refuse_later()
    for attempt in folders.earlier():
        with contextlib.suppress(OSError):  # shutil's own error is one
            shutil.copytree(attempt / TRACKERS, folders.trackers, symlinks=True, dirs_exist_ok=True)
        remove(attempt)
    ranks.wait()


def copy_checkpoint(source: Path, target: Path) -> None:
    """Copy a checkpoint into the folder of this process's own attempt.

    Raises:
        DamagedError: the copy is not whole, or holds more than tensors and numbers.
        ProjectError: it cannot be written.
    """
    with atomic_path(target) as partial:
        try:
            for name in [*_manifest(source), MANIFEST]:
                (partial / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source / name, partial / name)
        except (FileNotFoundError, ValueError) as error:
            raise DamagedError(f"{source}: {fault(source) or error}") from error
        if found := fault(partial):
            raise DamagedError(f"{source}: {found}")
        _refuse_code(partial)
        # The best model's path is that of the attempt it was copied from.
        best = read_state(partial).get("best_global_step")
        change_state(partial, best_model_checkpoint=best and str(checkpoint_folder(target.parent, best)))


def _refuse_code(checkpoint: Path) -> None:
    """Refuse a checkpoint with a pickle that the Trainer will not load, before it has loaded half of the rest.

    Raises:
        DamagedError: there is one.
    """
    for path in sorted([*checkpoint.glob("*.pt"), *checkpoint.glob("*.pth")]):
        try:
            with safe_globals():
                # As the Trainer will, but numbers stay on the disk.
                torch.load(path, map_location="cpu", weights_only=True, mmap=True)  # noqa: TID251
        except (UnpicklingError, RuntimeError, EOFError) as error:
            first = str(error).splitlines()[0]
            raise DamagedError(f"{path.name} holds more than tensors and numbers ({first})") from error


def rotate(work: Path, best: int | None) -> None:
    """Remove all checkpoints in `work` but the last ones and that of the step `best`."""
    for checkpoint in sorted(_sealed(work), key=_step)[:-KEPT]:
        if _step(checkpoint) != best:
            remove(checkpoint)


def check_start(checkpoint: Path, args: TrainingArguments, steps: int | None) -> None:
    """Refuse a start from the training state of another run that is not whole, or has had all steps.

    Args:
        checkpoint: folder given as the start.
        args: the run's arguments.
        steps: of the run's recipe; None = those of all epochs.

    Raises:
        RunError: the checkpoint is not whole, or there is nothing left to train.
    """
    if found := fault(checkpoint):
        raise RunError(
            f"{checkpoint}: {found}. Expected a whole working checkpoint, since start.load_only_model_state is false; "
            "set it to true to take the weights alone, or give another checkpoint."
        )
    refuse_other_number(checkpoint, "set start.load_only_model_state to true to take the weights alone")
    state = read_state(checkpoint)
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


def refuse_other_number(checkpoint: Path, remedy: str) -> None:
    """Refuse to go on from a checkpoint that as many processes as train now did not write.

    Args:
        checkpoint: whole.
        remedy: what else can be done.

    Raises:
        RunError: they could not go on exactly.
    """
    written, processes = len(list(checkpoint.glob(RANDOM_STATES))), ranks.count()
    if written != processes:
        raise RunError(
            f"{checkpoint}: written by {written} process(es), each with random numbers of its own, but {processes} are "
            f"to go on. Expected as many: set execution.gpus_per_run to {written} until the run is finished, or "
            f"{remedy}."
        )


def read_state(checkpoint: Path) -> dict[str, Any]:
    """Return the Trainer's state in a checkpoint."""
    return json.loads((checkpoint / TRAINER_STATE_NAME).read_text(encoding="utf-8"))


def change_state(checkpoint: Path, **changes: object) -> None:
    """Change the Trainer's state in a checkpoint, and seal it again."""
    write_json(checkpoint / TRAINER_STATE_NAME, read_state(checkpoint) | changes)
    seal(checkpoint)


def _sealed(attempt: Path) -> list[Path]:
    """Return the checkpoints in an attempt that have a manifest; those without were never finished."""
    return [path.parent for path in attempt.glob(f"*/{MANIFEST}") if NAME.fullmatch(path.parent.name)]


def _step(checkpoint: Path) -> int:
    return int(checkpoint.name.rpartition("-")[2])


def _manifest(checkpoint: Path) -> dict[str, str]:
    manifest = json.loads((checkpoint / MANIFEST).read_text(encoding="utf-8"))
    if not isinstance(manifest, dict) or TRAINER_STATE_NAME not in manifest:
        raise ValueError(f"no {TRAINER_STATE_NAME} in it")
    if outside := [name for name in manifest if not (checkpoint / name).resolve().is_relative_to(checkpoint.resolve())]:
        raise ValueError(f"{outside[0]} is not in it")
    return manifest
