"""Working folders: one per run, with a folder and a heartbeat for each process (attempt) that has executed it.

In the folder `work` of a study's results:

    <stage>-<model>-<dataset>-seed-<n>-<key>/<number>-<host>-<random>/heartbeat.json

An attempt at a search contains the runs and attempts of its trials. No process writes to the folder of another one, and
folders are moved away before they are removed, so that nothing here needs a lock.
"""

import contextlib
import os
import re
import shutil
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from pydantic import AwareDatetime, ConfigDict

from lib.core.files import folders_in
from lib.core.record import NamesRun

HEARTBEAT = "heartbeat.json"
NAME = re.compile(r"(\d{4,})-.+")
"""Names of attempts begin with a number; a larger number is a later attempt."""
SILENCE = timedelta(hours=1)
"""A process without a heartbeat for this long is considered dead."""
TRASH = ".trash-"


class Heartbeat(NamesRun):
    """Progress of a training process, written every few seconds."""

    model_config = ConfigDict(extra="ignore")  # also of a process with other code, which is alive

    out: str
    """Absolute path of the folder that the results go to."""
    host: str
    process: int
    started: AwareDatetime
    """Start of this process. Earlier attempts of the run have their own heartbeats."""
    updated: AwareDatetime
    state: Literal["running", "finished", "failed"] = "running"
    """`finished`: its results are in place; `failed`: it ended with an error."""
    error: str | None = None
    """First line of the error."""
    step: int = 0
    """Optimiser steps of the run so far, earlier attempts included; for a search, trials."""
    steps: int | None = None
    """Total number of steps; null = not known yet, or no training loop, here and in the next fields."""
    epoch: float = 0.0
    epochs: float | None = None
    loss: float | None = None
    """Mean training loss since the last evaluation."""
    tokens_per_second: float | None = None
    ends: AwareDatetime | None = None
    """Estimated end of the training loop."""

    def write(self, attempt: Path) -> None:
        """Write the heartbeat of `attempt` atomically.

        Raises:
            OSError: the folder of the attempt was removed, or cannot be written.
        """
        partial = attempt / f".{HEARTBEAT}"
        partial.write_text(self.model_dump_json(indent=2) + "\n", encoding="utf-8")
        os.replace(partial, attempt / HEARTBEAT)

    @property
    def is_alive(self) -> bool:
        """Whether the process may still be at work."""
        return self.state == "running" and datetime.now(UTC) - self.updated < SILENCE


def read_heartbeat(attempt: Path) -> Heartbeat | None:
    """Return the heartbeat of `attempt`; None if it is missing or unreadable."""
    try:
        return Heartbeat.model_validate_json((attempt / HEARTBEAT).read_bytes())
    except (OSError, ValueError):
        return None


def attempts(run: Path) -> list[Path]:
    """Return the attempts in the working folder of a run, the oldest first.

    Two processes that start at the same time may have the same number; the order is the same for all processes.
    """
    found = [path for path in folders_in(run) if NAME.fullmatch(path.name)]
    return sorted(found, key=lambda path: (int(path.name.split("-")[0]), path.name))


def last_heartbeat(attempt: Path) -> Heartbeat | None:
    """Return the heartbeat of `attempt`, while it runs as new as the newest of a trial that runs inside it.

    None if it is missing or unreadable.
    """
    own = read_heartbeat(attempt)
    if own is None or own.state != "running":
        return own
    # `os.walk` passes over folders that the process removes meanwhile; `rglob` raises an error before Python 3.13.
    folders = [Path(folder) for folder, _, files in os.walk(attempt) if HEARTBEAT in files]
    inside = [beat for folder in folders if (beat := read_heartbeat(folder))]
    updated = max(beat.updated for beat in [own, *inside] if beat.state == "running")
    return own.model_copy(update={"updated": updated})


def is_alive(attempt: Path) -> bool:
    """Whether a process may still be at work in `attempt` or in an attempt of a trial inside it."""
    heartbeat = last_heartbeat(attempt)
    return heartbeat is not None and heartbeat.is_alive


def remove(folder: Path) -> None:
    """Rename `folder` so that no process finds it, then delete it as far as possible."""
    trash = folder.parent / f"{TRASH}{uuid.uuid4().hex}"
    with contextlib.suppress(OSError):
        os.rename(folder, trash)
        shutil.rmtree(trash, ignore_errors=True)


def sweep(work: Path, is_accepted: Callable[[Path], bool]) -> None:
    """Remove the working folders of runs whose results are accepted and that no process is at work on.

    Until then the workflow may still reject and remove the results, and the next attempt needs the checkpoints.

    Args:
        work: folder of the working folders of a study.
        is_accepted: whether the results in a folder are kept.
    """
    for run in folders_in(work):
        if run.name.startswith(TRASH):
            shutil.rmtree(run, ignore_errors=True)
            continue
        found = attempts(run)
        heartbeats = [heartbeat for attempt in found if (heartbeat := read_heartbeat(attempt))]
        if heartbeats and is_accepted(Path(heartbeats[-1].out)) and not any(map(is_alive, found)):
            remove(run)
    with contextlib.suppress(OSError):  # others are at work there
        work.rmdir()
