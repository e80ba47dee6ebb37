"""Where runs are at work: a folder per run, in it one per process that has tried it, in each a heartbeat.

In the folder `work` of a study's results:

    <stage>-<model>-<dataset>-seed-<n>-<key>/<number>-<host>-<random>/heartbeat.json

An attempt of a search holds its trials' own runs and attempts, which are further down. No process writes to another
one's folder, and folders are moved away before they are removed, so that nothing here needs a lock.
"""

import contextlib
import os
import re
import shutil
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from pydantic import AwareDatetime, ConfigDict, Field

from lib.core.files import folders_in
from lib.core.identity import NamesRun
from lib.core.record import RUN

HEARTBEAT = "heartbeat.json"
NAME = re.compile(r"(\d{4,})-.+")
"""Names of attempts begin with a number; a greater one is a later attempt."""
SILENCE = timedelta(hours=1)
"""After it, a process that has said nothing is held for dead."""
PARTS = 40
"""Into so many equal parts the losses of a training are divided."""
TRASH = ".trash-"


class Heartbeat(NamesRun):
    """What a process that trains says of itself every few seconds."""

    model_config = ConfigDict(extra="forbid")

    out: str
    """Absolute path of the folder that the results go to."""
    host: str
    process: int
    slurm_job: str | None = None
    started: AwareDatetime
    """Start of this process. Earlier attempts of the run have their own heartbeats."""
    updated: AwareDatetime
    state: Literal["running", "finished", "failed"] = "running"
    """`finished`: its results are in their place; `failed`: it has left with an error."""
    error: str | None = None
    """The error's first line."""
    step: int = 0
    """Optimiser steps of the run so far; of a search, trials. The run goes on where the attempt before it left off."""
    steps: int | None = None
    """Total number of steps; null = not known yet, or no training loop. The next fields likewise."""
    epoch: float = 0.0
    epochs: float | None = None
    loss: float | None = None
    """Mean in training since the last evaluation."""
    losses: list[float | None] = Field(default_factory=list)
    """Means over equal parts of the training, up to the one under way; null = of earlier attempts, or no number."""
    tokens_per_second: float | None = None
    ends: AwareDatetime | None = None
    """Estimated end of the training loop."""

    def write(self, attempt: Path) -> None:
        """Write the heartbeat of `attempt` atomically.

        Raises:
            OSError: the attempt's folder is gone, or cannot be written.
        """
        partial = attempt / f".{HEARTBEAT}"
        partial.write_text(self.model_dump_json(indent=2) + "\n", encoding="utf-8")
        os.replace(partial, attempt / HEARTBEAT)

    @property
    def is_alive(self) -> bool:
        """Whether the process may still be at work."""
        return self.state == "running" and datetime.now(UTC) - self.updated < SILENCE


def read_heartbeat(attempt: Path) -> Heartbeat | None:
    """Return the heartbeat of `attempt`, None if there is none that can be read."""
    try:
        return Heartbeat.model_validate_json((attempt / HEARTBEAT).read_bytes())
    except (OSError, ValueError):
        return None


def attempts(run: Path) -> list[Path]:
    """Return the attempts in the working folder of a run, the oldest first.

    Two processes that start at the same time may have the same number; all agree on which of them is the later one.
    """
    found = [path for path in folders_in(run) if NAME.fullmatch(path.name)]
    return sorted(found, key=lambda path: (int(path.name.split("-")[0]), path.name))


def is_alive(attempt: Path) -> bool:
    """Whether a process may still be at work in `attempt`, or in that of a trial inside it."""
    own = read_heartbeat(attempt)
    if own is None or own.state != "running":
        return False
    found = [read_heartbeat(path.parent) for path in attempt.rglob(HEARTBEAT)]
    return any(heartbeat is not None and heartbeat.is_alive for heartbeat in found)


def remove(folder: Path) -> None:
    """Move `folder` out of every process's sight at once, then delete it, as far as that can be done."""
    trash = folder.parent / f"{TRASH}{uuid.uuid4().hex}"
    with contextlib.suppress(OSError):
        os.rename(folder, trash)
        shutil.rmtree(trash, ignore_errors=True)


def sweep(work: Path, patience: timedelta = SILENCE) -> None:
    """Remove the working folders of runs whose record has been in its place for a while.

    Before that the workflow may still refuse the results and remove them, and the next attempt needs the checkpoints.

    Args:
        work: folder of the working folders of a study.
        patience: how old the record must be.
    """
    for run in folders_in(work):
        if run.name.startswith(TRASH):
            shutil.rmtree(run, ignore_errors=True)
            continue
        found = attempts(run)
        heartbeats = [heartbeat for attempt in found if (heartbeat := read_heartbeat(attempt))]
        if heartbeats and _is_published(Path(heartbeats[-1].out), patience) and not any(map(is_alive, found)):
            remove(run)
    with contextlib.suppress(OSError):  # others are at work there
        work.rmdir()


def _is_published(out: Path, patience: timedelta) -> bool:
    with contextlib.suppress(OSError):
        return datetime.now(UTC).timestamp() - (out / RUN).stat().st_mtime >= patience.total_seconds()
    return False
