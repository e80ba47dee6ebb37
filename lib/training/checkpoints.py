"""Working checkpoints: atomic writes, detection of damage, takeover from earlier attempts.

Every checkpoint has a manifest of its files, which is written last. A training run reads only its own checkpoints:
those that it wrote, and copies that agree with their manifest. In addition to `model.safetensors`, a checkpoint has the
states of optimiser, schedule and random numbers, and `state.json`: progress and history.
"""

import contextlib
import json
import logging
import math
import re
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from lib.core.attempts import remove
from lib.core.errors import RunError, UnpicklingError
from lib.core.files import atomic_path, file_digest, files_in, settle, write_json
from lib.study.recipe import Recipe
from lib.training import distributed
from lib.training.folders import TRACKERS, RunFolders
from lib.training.interruptions import died_of_worker

logger = logging.getLogger(__name__)

RANDOM_STATES = "rng_state"
"""Begin of the names of the files with the states of random number generators, one per process."""
STATE = "state.json"
NAME = re.compile(r"checkpoint-(\d+)")
MANIFEST = "manifest.json"
"""File in a checkpoint: the SHA-256 of every other file in it, by name."""
PARTIAL = ".partial"
"""Subfolder for a checkpoint that is being written."""
KEPT = 2
"""Number of last checkpoints kept, in addition to that of the best model."""


@dataclass
class Progress:
    """Progress of a training run."""

    step: int = 0
    """Optimiser steps done."""
    epoch: float = 0.0
    """Passes over the training documents."""
    tokens: int = 0
    """Tokens seen, without padding."""
    best_score: float | None = None
    """Score of the best evaluation so far, if the best model is kept."""
    best_step: int | None = None

    def note(self, score: float, greater_is_better: bool) -> None:
        """Remember an evaluation of this step if it is the best one; NaN or inf never is."""
        sign = 1 if greater_is_better else -1
        if math.isfinite(score) and (self.best_score is None or sign * score > sign * self.best_score):
            self.best_score, self.best_step = score, self.step


class DamagedError(RunError):
    """A checkpoint is incomplete or damaged."""


def checkpoint_folder(work: str | Path, step: int | None) -> Path:
    """Return the path of the checkpoint of `step` in the folder of an attempt."""
    return Path(work) / f"checkpoint-{step}"


def last_checkpoint(work: str | Path) -> Path | None:
    """Return the newest complete checkpoint in the folder of an attempt; None = it has none."""
    return max(_sealed(Path(work)), key=_step, default=None)


@contextlib.contextmanager
def writing(work: Path, progress: Progress) -> Iterator[Path]:
    """Yield a folder to write a checkpoint to; then move it into place, and remove those it supersedes.

    Args:
        work: folder of the checkpoints.
        progress: progress of the training.

    Raises:
        RunError: it cannot be written.
    """
    place = checkpoint_folder(work, progress.step)
    partial = work / PARTIAL / place.name
    try:
        for folder in (partial.parent, partial):  # never recreates the attempt's folder, which a takeover removes
            folder.mkdir(exist_ok=True)
        yield partial
        distributed.wait()
        if not distributed.index():
            seal(partial)
            remove(place)
            partial.rename(place)
            rotate(work, progress.best_step)
    except (OSError, RuntimeError, SafetensorError) as error:
        if died_of_worker(error):  # this error can come from any call
            raise
        raise RunError(f"{place}: cannot be written ({error}). The next start resumes from the one before.") from error
    finally:
        if not distributed.index():
            shutil.rmtree(work / PARTIAL, ignore_errors=True)
    distributed.wait()


def save_random_states(checkpoint: Path) -> None:
    """Save torch's global random state, which gives the dropout of this process."""
    states = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state()
    torch.save(states, checkpoint / _random_states_file())


def load_random_states(checkpoint: Path) -> None:
    """Restore the random state of this process."""
    states = load_tensors(checkpoint / _random_states_file())
    torch.set_rng_state(states["cpu"])
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(states["cuda"])


def _random_states_file() -> str:
    return f"{RANDOM_STATES}{f'_{distributed.index()}' if distributed.count() > 1 else ''}.pth"


def load_tensors(path: Path) -> Any:
    """Return tensors and numbers that `torch.save` has written.

    Raises:
        UnpicklingError: the file holds other objects, which could run code.
    """
    return torch.load(path, map_location="cpu", weights_only=True)  # noqa: TID251


def seal(checkpoint: Path) -> None:
    """Write the manifest of a checkpoint whose other files are complete, and sync all to disk."""
    files = [path for path in files_in(checkpoint) if path.name != MANIFEST]
    write_json(checkpoint / MANIFEST, {str(path.relative_to(checkpoint)): file_digest(path) for path in files})
    settle(checkpoint)


def error_in(checkpoint: Path) -> str | None:
    """Return the error in a checkpoint, None if it is valid."""
    try:
        differing = [name for name, digest in _manifest(checkpoint).items() if file_digest(checkpoint / name) != digest]
    except OSError as error:
        return f"its {Path(error.filename).name} cannot be read ({error.strerror})"
    except ValueError as error:
        return f"its {MANIFEST} cannot be read ({error})"
    return f"its {', '.join(differing)} is damaged" if differing else None


def take_over(folders: RunFolders) -> None:
    """Copy the newest valid checkpoint of the earlier attempts, and that of its best model, and remove those attempts.

    An earlier process may still rotate its checkpoints, and a third one may take them over. So the search repeats until
    a checkpoint has been copied completely, or none is left.

    Args:
        folders: folders of the run.

    Raises:
        ProjectError: this attempt's folder cannot be written, or another process has begun a later attempt.
    """
    if distributed.index():
        distributed.wait()
        return
    tried: set[Path] = set()
    while found := [path for attempt in folders.earlier() for path in _sealed(attempt) if path not in tried]:
        newest = max(found, key=_step)
        tried.add(newest)
        try:
            best = read_state(newest)["progress"]["best_step"]
            if best not in (None, _step(newest)):
                copy_checkpoint(checkpoint_folder(newest.parent, best), checkpoint_folder(folders.work, best))
            copy_checkpoint(newest, checkpoint_folder(folders.work, _step(newest)))
        except (DamagedError, FileNotFoundError, IsADirectoryError, ValueError, KeyError, TypeError) as error:
            logger.warning("%s: skipped (%s)", newest, error)
        else:
            logger.info("%s: taken over", newest)
            break
    folders.refuse_later()
    for attempt in folders.earlier():
        with contextlib.suppress(OSError):  # shutil.Error is an OSError
            shutil.copytree(attempt / TRACKERS, folders.trackers, symlinks=True, dirs_exist_ok=True)
        remove(attempt)
    distributed.wait()


def copy_checkpoint(source: Path, target: Path) -> None:
    """Copy a checkpoint into the folder of this process's attempt.

    Raises:
        DamagedError: the copy is incomplete, or holds more than tensors and numbers.
        ProjectError: it cannot be written.
    """
    with atomic_path(target) as partial:
        try:
            for name in [*_manifest(source), MANIFEST]:
                (partial / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source / name, partial / name)
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError, ValueError) as error:
            raise DamagedError(f"{source}: {error_in(source) or error}") from error
        if found := error_in(partial):
            raise DamagedError(f"{source}: {found}")
        _refuse_code(partial)


def _refuse_code(checkpoint: Path) -> None:
    """Refuse a checkpoint with a pickle of more than tensors and numbers before any of it is loaded.

    Raises:
        DamagedError: such a pickle is in it.
    """
    for path in files_in(checkpoint, "*.pt*"):
        try:
            load_tensors(path)
        except (UnpicklingError, RuntimeError, EOFError) as error:
            first = str(error).splitlines()[0]
            raise DamagedError(f"{path.name} holds more than tensors and numbers, perhaps code ({first})") from error


def rotate(work: Path, best: int | None) -> None:
    """Remove all checkpoints in `work` except the last ones and that of the step `best`."""
    for checkpoint in sorted(_sealed(work), key=_step)[:-KEPT]:
        if _step(checkpoint) != best:
            remove(checkpoint)


def check_start(checkpoint: Path, recipe: Recipe, documents: int) -> None:
    """Refuse to start from the training state of another run if it is damaged, or the run cannot continue from it.

    Args:
        checkpoint: folder set as the start.
        recipe: recipe of the run.
        documents: number of its training documents.

    Raises:
        RunError: the checkpoint is damaged, it is of another optimiser, its epochs have another number of steps, or no
            steps are left.
    """
    alone = "or set start.load_only_model_state to true to take the weights alone"
    if found := error_in(checkpoint):
        raise RunError(f"{checkpoint}: {found}. Give another checkpoint, {alone}.")
    _refuse_code(checkpoint)
    refuse_other_number(checkpoint, alone)
    state = read_state(checkpoint)
    progress = state["progress"]
    if (before := state.get("optimizer", recipe.optimizer)) != recipe.optimizer:  # older checkpoints do not name it
        raise RunError(
            f"{checkpoint}: has the moments of {before}, but recipe.optimizer is {recipe.optimizer}. "
            f"Set it to {before}, {alone}."
        )
    steps, now = round(progress["step"] / progress["epoch"]), math.ceil(documents / recipe.batch_size)
    if steps != now:
        raise RunError(
            f"{checkpoint}: its epochs have {steps} optimiser steps, but {documents} documents in batches of "
            f"{recipe.batch_size} make {now}. Take the documents and batch size of the earlier run, {alone}."
        )
    if progress["epoch"] >= recipe.epochs or progress["step"] >= (recipe.steps or math.inf):
        raise RunError(
            f"{checkpoint}: was trained for {progress['epoch']:g} epochs, {progress['step']} steps, which leaves "
            f"nothing to do. Raise recipe.epochs or recipe.steps, {alone}."
        )


def refuse_other_number(checkpoint: Path, remedy: str) -> None:
    """Refuse to resume from a checkpoint written by a different number of processes.

    Args:
        checkpoint: a valid checkpoint.
        remedy: another remedy, for the message.

    Raises:
        RunError: the numbers differ, so the training could not resume exactly.
    """
    written, processes = sum(name.startswith(RANDOM_STATES) for name in _manifest(checkpoint)), distributed.count()
    if written != processes:
        raise RunError(
            f"{checkpoint}: written by {written} process(es), each with random numbers of its own, but {processes} are "
            f"to continue. Set execution.gpus_per_run to {written} until the run is finished, {remedy}."
        )


def write_state(checkpoint: Path, progress: Progress, others: dict[str, Any]) -> None:
    """Write the progress of a training run, and other values by name, to a checkpoint."""
    (checkpoint / STATE).write_text(json.dumps({"progress": asdict(progress)} | others), encoding="utf-8")


def read_state(checkpoint: Path) -> dict[str, Any]:
    """Return the values that `write_state` wrote."""
    return json.loads((checkpoint / STATE).read_text(encoding="utf-8"))


def forget_best(checkpoint: Path) -> None:
    """Remove the best score from a checkpoint, so that a later run ignores it, and seal it again."""
    state = read_state(checkpoint)
    progress = Progress(**state.pop("progress"))
    progress.best_score = progress.best_step = None
    write_state(checkpoint, progress, state)
    seal(checkpoint)


def _sealed(attempt: Path) -> list[Path]:
    """Return the checkpoints in an attempt that have a manifest; others are unfinished."""
    return [path.parent for path in files_in(attempt, f"*/{MANIFEST}") if NAME.fullmatch(path.parent.name)]


def _step(checkpoint: Path) -> int:
    return int(checkpoint.name.rpartition("-")[2])


def _manifest(checkpoint: Path) -> dict[str, str]:
    manifest = json.loads((checkpoint / MANIFEST).read_text(encoding="utf-8"))
    if not isinstance(manifest, dict) or STATE not in manifest:
        raise ValueError(f"no {STATE} in it")
    if outside := [name for name in manifest if not (checkpoint / name).resolve().is_relative_to(checkpoint.resolve())]:
        raise ValueError(f"{outside[0]} is not in it")
    return manifest
