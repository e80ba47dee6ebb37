"""Whether runs survive `kill -9`: killed at random instants, started again each time, and compared bit for bit.

Runs are those of `scripts/train.py`, started as a user does. What takes time, and memory, may differ; nothing else.
"""

import json
import logging
import os
import random
import shutil
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd

from lib.core.attempts import attempts, read_heartbeat
from lib.core.files import files_in, read_mapping, write_json
from lib.core.record import HISTORY, RUN
from lib.workflow.preloaded import THREADS

logger = logging.getLogger(__name__)

PROGRAM = Path(__file__).resolve().parents[2] / "scripts" / "train.py"
OFTEN = 1e-6
"""Minutes between checkpoints: one after every step."""
SPEED = ("seconds", "tokens_per_second", "peak_memory_mb")
OUTCOME = ("epochs", "steps", "tokens", "parameters", "metrics", "stretches")
"""Fields of a record that say what came out."""


@dataclass
class KillCounts:
    """What happened to a run that was killed again and again."""

    run: str
    kills: int = 0
    resumes: int = 0
    """Starts that resumed from a checkpoint."""
    finished: int = 0
    differences: list[str] = field(default_factory=list)
    """What differed from the undisturbed run, in the runs that finished."""


def survive(config: Path, folder: Path, kills: int, seed: int) -> KillCounts:
    """Kill a run at random instants until there have been enough, and compare each time it finishes.

    Instants are drawn evenly from half the time that the undisturbed run takes: of every second kill from the start of
    the program, else from the first checkpoint on. A resumed run has less left, and so comes to be killed in
    all of its parts.

    Args:
        config: the run's settings, as a finished run has them.
        folder: new folder for the files of the runs.
        kills: how many.
        seed: of the instants.
    """
    settings = read_mapping(config)
    counts = KillCounts("/".join(str(settings[name]) for name in ("stage", "model", "dataset")))
    folder.mkdir(parents=True)
    began = time.monotonic()
    whole = folder / "whole"
    if _start(config, settings, whole, None, folder / "whole.log").wait():
        counts.differences.append(f"the undisturbed run failed, see {folder / 'whole.log'}")
        return counts
    seconds, draws = time.monotonic() - began, random.Random(seed)
    while counts.kills < kills:
        out, work = folder / f"{counts.finished}", folder / "work"
        while not (out / RUN).exists():
            log = folder / f"{counts.finished}-{counts.kills}.log"
            process = _start(config, settings, out, work, log)
            if counts.kills % 2:
                _await_checkpoint(process, work)
            try:
                status = process.wait(draws.uniform(0, seconds / 2) if counts.kills < kills else None)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                counts.kills += 1
                status = 0
            counts.resumes += "resuming from" in log.read_text(encoding="utf-8")
            if status:
                counts.differences.append(f"a start failed, see {log}")
                return counts
        counts.differences += [f"{out}: {name} differs" for name in differing(whole, out)]
        counts.finished += 1
        shutil.rmtree(work, ignore_errors=True)
    return counts


def _start(config: Path, settings: dict, out: Path, work: Path | None, log: Path) -> subprocess.Popen:
    execution = json.dumps(settings.get("execution", {}) | {"checkpoint_minutes": OFTEN})
    command = [sys.executable, "-m", "lib.workflow.start", sys.executable, str(PROGRAM), "--config", str(config)]
    command += ["--execution", execution, "--out", str(out)]
    command += ["--work", str(work)] if work else []
    with log.open("w", encoding="utf-8") as file:
        environment = os.environ | dict.fromkeys(THREADS, "1")
        return subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=environment)


def _await_checkpoint(process: subprocess.Popen, work: Path) -> None:
    """Wait until a process that has just been started has a checkpoint to resume from, or has ended."""
    started = datetime.now(UTC)
    while process.poll() is None:
        time.sleep(0.02)
        newest = [attempts(run)[-1] for run in work.glob("[!.]*") if attempts(run)]
        if any((beat := read_heartbeat(attempt)) and beat.started > started and beat.step for attempt in newest):
            return


def differing(one: Path, other: Path) -> list[str]:
    """Return the files that differ between two finished runs, except for time and memory."""
    files = {str(path.relative_to(folder)) for folder in (one, other) for path in files_in(folder)}
    return sorted(name for name in files if not _agree(one / name, other / name))


def _agree(one: Path, other: Path) -> bool:
    if not (one.exists() and other.exists()):
        return False
    if one.name == HISTORY:
        first, second = (
            pd.read_csv(path, float_precision="round_trip").drop(columns=[*SPEED], errors="ignore")
            for path in (one, other)
        )
        return first.equals(second)
    if one.name == RUN:
        records = [json.loads(path.read_text(encoding="utf-8")) for path in (one, other)]
        return all(records[0][name] == records[1][name] for name in OUTCOME)
    return one.read_bytes() == other.read_bytes()


def report(counts: list[KillCounts], folder: Path) -> str:
    """Write the counts to `counts.json` in `folder`, and return them in words."""
    write_json(folder / "counts.json", [asdict(count) for count in counts])
    lines = [
        f"{count.run}: {count.kills} kills, {count.resumes} resumes, {count.finished} runs finished, "
        f"{len(count.differences)} differences"
        for count in counts
    ]
    kills, resumes, finished = (
        sum(getattr(count, name) for count in counts) for name in ("kills", "resumes", "finished")
    )
    differences = [difference for count in counts for difference in count.differences]
    lines.append(
        f"all {len(counts)}: {kills} kills, {resumes} resumes, {finished} runs finished, {len(differences)} differences"
    )
    return "\n".join([*lines, *differences])
