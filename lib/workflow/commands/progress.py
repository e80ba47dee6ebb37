"""How far a study is, from what its runs leave on disk: records, heartbeats, logs. Touches no job."""

import itertools
import os
import platform
import re
import statistics
import sys
import time
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from lib.core.attempts import Heartbeat, attempts, last_heartbeat
from lib.core.files import folders_in
from lib.core.program import FINISHED
from lib.core.record import MODEL, RUN, RunId, missing_files, read_record
from lib.workflow.planning.plan import Plan

STATES = ("done", "running", "waiting", "failed", "missing")
QUIET = timedelta(minutes=5)
"""After it, a process that beats every few seconds is shown with the time since it was last heard of."""
TAIL = 8
"""Lines of a failed run's log that are shown."""
LEAKS = "nanobind: leaked"
"""Triton's bindings write so, and dozens of lines more, behind the last line of a program that has imported Triton."""
FAILED = re.compile(r"(^|\s)ERROR |Traceback \(most recent call last\)")
"""What the log of a run that failed holds, from its program or from `lib.workflow.start`."""


class RunProgress(NamedTuple):
    """How far one run is."""

    state: str
    """One of `STATES`."""
    seconds: float
    """Spent so far, on all attempts; of a finished run, on its training."""
    heartbeat: Heartbeat | None = None
    """Heartbeat of the latest attempt, if the run is not done."""
    error: str | None = None
    """Why it failed, or what is missing of a finished one."""
    log: Path | None = None
    """Log of a failed run."""


def progress(plan: Plan) -> dict[RunId, RunProgress]:
    """Return how far every run of a study is, or of a part of it every run that the part needs."""
    beats = _heartbeats(Path(plan.paths.work))
    return {run.id: _progress(plan, run.id, beats) for run in plan.needed()}


def _heartbeats(work: Path) -> dict[Path, list[Heartbeat]]:
    """Return the heartbeats of all attempts, the oldest first, by the folder that the results go to."""
    beats = [beat for run in folders_in(work) for attempt in attempts(run) if (beat := last_heartbeat(attempt))]
    found: dict[Path, list[Heartbeat]] = {}
    for beat in sorted(beats, key=lambda each: each.started):
        found.setdefault(Path(beat.out).resolve(), []).append(beat)
    return found


def _progress(plan: Plan, run: RunId, beats: Mapping[Path, list[Heartbeat]]) -> RunProgress:
    folder = Path(plan.paths.folder(run))
    if (folder / RUN).is_file():
        record = read_record(folder)
        gone = [] if plan.paths.is_recorded(run) else missing_files(folder, record)
        if plan.study.execution.runs == "archived":  # without models
            gone = [name for name in gone if MODEL not in Path(name).parts]
        if gone:
            return RunProgress("missing", record.seconds, error=", ".join(gone))
        return RunProgress("done", record.seconds)
    found = beats.get(folder.resolve(), [])
    spent = sum((beat.updated - beat.started).total_seconds() for beat in found)
    log = Path(plan.paths.log(run.path))
    if not found:
        # Its working folder is gone, or it ended before it had one: its log alone tells.
        if not log.is_file():
            return RunProgress("waiting", 0.0)
        tail = _tail(log)  # Snakemake removes the log when a run starts
        if any(FINISHED in line for line in tail):
            return RunProgress("missing", 0.0, error=f"all of {folder}")
        failed = any(map(FAILED.search, tail))
        return RunProgress("failed", 0.0, None, "see its log", log) if failed else RunProgress("running", 0.0)
    last = found[-1]
    if last.state == "failed":
        return RunProgress("failed", spent, last, last.error, log)
    if last.state == "finished":
        # Its results are being accepted; where that has not happened for long, they were refused.
        return RunProgress("running" if _silence(last) < QUIET else "waiting", spent, last)
    if not _is_alive(last):
        return RunProgress("failed", spent, last, f"dead: no heartbeat for {_span(_silence(last))}", log)
    return RunProgress("running", spent, last)


def _is_alive(heartbeat: Heartbeat) -> bool:
    """Whether a process is at work; of one on this machine the system knows."""
    if heartbeat.host == platform.node():
        try:
            os.kill(heartbeat.process, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
    return heartbeat.is_alive


def _silence(heartbeat: Heartbeat) -> timedelta:
    return datetime.now(UTC) - heartbeat.updated


def _tail(path: Path) -> list[str]:
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return list(itertools.takewhile(lambda line: not line.startswith(LEAKS), lines))[-TAIL:]


def seconds_left(found: Mapping[RunId, RunProgress]) -> tuple[float, int]:
    """Return the seconds of work that are left, and the number of runs that this does not cover.

    A waiting run is estimated by the mean of the other runs of its stage on its dataset. Without any, it is not
    covered.
    """
    taken: dict[tuple[str, str], list[float]] = {}
    for key, run in found.items():
        if run.state == "done":
            taken.setdefault((key.stage, key.dataset), []).append(run.seconds)
        elif run.heartbeat is not None and run.heartbeat.ends is not None:
            rest = (run.heartbeat.ends - run.heartbeat.updated).total_seconds()
            taken.setdefault((key.stage, key.dataset), []).append(run.seconds + rest)
    left, unknown = 0.0, 0
    for key, run in found.items():
        if run.state == "done":
            continue
        if run.state == "running" and run.heartbeat is not None and run.heartbeat.ends is not None:
            left += max(0.0, (run.heartbeat.ends - datetime.now(UTC)).total_seconds())
        elif alike := taken.get((key.stage, key.dataset)):
            left += statistics.mean(alike)
        else:
            unknown += 1
    return left, unknown


def _hours(found: Mapping[RunId, RunProgress]) -> str:
    """Return a sentence about the hours spent and left."""
    left, unknown = seconds_left(found)
    spent = sum(run.seconds for run in found.values())
    hours_left = f"about {left / 3600:.1f}" if left or not unknown else "an unknown number of"
    apart = f", without {unknown} runs: none of their stage and dataset has finished yet" if unknown else ""
    return f"{spent / 3600:.1f} hours spent, {hours_left} hours left, one run at a time{apart}."


def progress_report(plan: Plan, found: Mapping[RunId, RunProgress]) -> str:
    """Return how far a study is, in words."""
    counts = Counter((key.stage, run.state) for key, run in found.items())
    lines = [f"{plan.paths.results}: {len(found)} runs", "", _line("stage", *STATES)]
    for stage in dict.fromkeys(key.stage for key in found):
        lines.append(_line(stage, *(counts[stage, state] for state in STATES)))
    lines += _running_lines(plan, found)
    for key, run in found.items():
        if run.state == "failed":
            lines += ["", f"failed: {key.path}: {run.error}"]
            if run.log is not None and run.log.is_file():
                lines += [f"{run.log}:", *(f"    {line}" for line in _tail(run.log))]
    missing = [f"    {key.path}: {run.error}" for key, run in found.items() if run.state == "missing"]
    if missing:
        lines += ["", "finished runs that lack files; make why says how to make them again:", *missing]
    return "\n".join([*lines, "", _hours(found)])


SECONDS = 2.0
"""Between two views of a study."""
BAR = 20
"""Signs of the bar of a view."""
STEPS = re.compile(r"\d+ of \d+ steps")
"""How Snakemake counts its steps."""


def follow(plan: Plan, log: str) -> None:
    """Show how far a study is that snakemake makes with its output in `log`, until this process is ended or orphaned.

    In a terminal the view is renewed in place, elsewhere each further tenth of the work has a line.
    """
    height, tenths, parent = 0, -1, os.getppid()
    while os.getppid() == parent:
        time.sleep(SECONDS)
        steps = STEPS.findall(Path(log).read_text(encoding="utf-8", errors="replace"))
        share, lines = progress_view(plan, progress(plan), ["no step", *steps][-1])
        if sys.stdout.isatty():
            print(f"\x1b[{height}F\x1b[J" * bool(height) + "\n".join(lines), flush=True)
            height = len(lines)
        elif int(10 * share) > tenths:
            tenths = int(10 * share)
            print(lines[0], flush=True)


def progress_view(plan: Plan, found: Mapping[RunId, RunProgress], steps: str) -> tuple[float, list[str]]:
    """Return the share of a study's work that is done, and lines of at most 80 signs on it and the runs in progress.

    Work is the seconds of all runs; a run without any estimate counts as the mean of the others.

    Args:
        plan: the study.
        found: how far its runs are.
        steps: words on the steps of the workflow that are done.
    """
    spent = sum(run.seconds for run in found.values())
    left, unknown = seconds_left(found)
    known, states = len(found) - unknown, Counter(run.state for run in found.values())
    total = (spent + left) * len(found) / known if known else 0.0
    share = spent / total if total else 0.0
    minutes = -(-(total - spent) // (60 * max(1, states["running"])))  # rounded up
    rest = f"{_span(timedelta(minutes=minutes))} left" if total else "time unknown"
    runs = f"{states['done']} of {len(found)} runs"
    bar = f"{'#' * int(BAR * share):-<{BAR}} {100 * share:3.0f} %, {rest}; {runs}, {steps}"
    return share, [bar[:79], *(line[:76].rstrip() for line in _running_lines(plan, found))]


def _running_lines(plan: Plan, found: Mapping[RunId, RunProgress]) -> list[str]:
    """Return a line on each run that is running, below a line that names the columns, if there is any."""
    running = {key: run.heartbeat for key, run in found.items() if run.state == "running"}
    lines = [_running_line(key.path, *_running(plan, key, heartbeat)) for key, heartbeat in running.items()]
    return ["", _running_line("running", "epoch", "loss", "tokens/s", "ends"), *lines] if lines else []


def _running(plan: Plan, run: RunId, beat: Heartbeat | None) -> tuple[str, str, str, str]:
    """Return epoch, loss, tokens per second and end of a run, empty where they are not known."""
    if beat is None:
        return "", "", "", ""
    epoch = f"{beat.epoch:.1f}/{'?' if beat.epochs is None else f'{beat.epochs:g}'}"
    if plan.run(run).tuning:
        epoch = f"trial {beat.step}/{beat.steps or '?'}"
    loss = "" if beat.loss is None else f"{beat.loss:.3f}"
    speed = "" if beat.tokens_per_second is None else f"{beat.tokens_per_second:,.0f}"
    ends = "" if beat.ends is None else f"{beat.ends.astimezone():%a %H:%M}, in {_span(beat.ends - datetime.now(UTC))}"
    quiet = f" (no heartbeat for {_span(_silence(beat))})" if _silence(beat) > QUIET else ""
    return epoch, loss, speed, ends + quiet


def _line(name: str, *values: object) -> str:
    return f"{name:<24}" + "".join(f"{value:>9}" for value in values)


def _running_line(name: str, epoch: str, loss: str, speed: str, ends: str) -> str:
    return f"{name:<44}{epoch:>12}{loss:>9}{speed:>11}  {ends}".rstrip()


def _span(time: timedelta) -> str:
    """Return a time span in hours and minutes."""
    minutes = max(0, round(time.total_seconds() / 60))
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"
