"""Why a job failed if its program could not say so: it was killed, or its log could not be written."""

import re
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path
from subprocess import CalledProcessError
from typing import Any

from snakemake.exceptions import RuleException
from snakemake.executors import local

TAIL = 4_000
"""Characters at the end of a log that are searched for a reason."""
NO_REASON = re.compile(r"\S+ \S+ (INFO|WARNING) ")
"""Start of a line about the work of a program, not about its failure."""
RANK = re.compile(r"exitcode +: -(\d+) \(pid")
"""Signal that killed a process of a training, as torchrun reports it. It sends SIGTERM to the others."""

_run = local.run_wrapper


def explain_failures() -> None:
    """Let Snakemake, in this process, name the reason of a failed job on the terminal and in its log.

    Snakemake itself prints a long command, or "non-zero exit code" alone.
    """

    def run(rule: Any, *arguments: Any) -> None:
        try:
            _run(rule, *arguments)
        except RuleException as error:
            failed, (resources, logs) = error.__context__, arguments[5:7]
            if isinstance(failed, CalledProcessError) and (
                reason := failure(failed.returncode, logs, resources.get("mem_mb"))
            ):
                error.args = (f"{rule.name}: {reason}",)
            raise

    local.run_wrapper = run


def failure(status: int, logs: Sequence[str], memory: int | None) -> str | None:
    """Return why a program failed, and add it to its log; None if the log says so already.

    Args:
        status: of the program, or of the shell that started it; negative = the signal that killed it.
        logs: of the job.
        memory: MB that the job asked for.
    """
    log = Path(logs[0]) if logs else None
    end = _end(log)
    ranks = [number for number in map(int, RANK.findall(end)) if number != signal.SIGTERM]
    # A shell adds 128 to a signal; programs end with other statuses above that, too, as apptainer with 255.
    number = ranks[-1] if ranks else -status if status < 0 else status - 128
    if number in signal.valid_signals() and number != signal.SIGALRM:  # whose sender, `in_time`, writes into the log
        who = "a process of the training" if ranks else "the program"
        reason = f"{who} was killed by signal {_name(number)}. {_remedy(number, memory)}"
    elif end and not NO_REASON.match(end.splitlines()[-1]):
        return None
    else:
        reason = (
            f"the program ended with status {status}, and its log does not say why. {_space(log)} If that is little, "
            "free some and start again."
        )
    if log is not None:
        try:
            with log.open("a", encoding="utf-8") as file:
                file.write(f"ERROR {reason}\n")
        except OSError as error:
            reason = f"{reason} {log}: cannot be written ({error.strerror})."
    return reason


def _end(log: Path | None) -> str:
    """Return the end of a log; nothing if there is none."""
    if log is None or not log.is_file():
        return ""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - TAIL))
        return file.read().decode(errors="replace").strip()


def _name(number: int) -> str:
    try:
        return f"{number} ({signal.strsignal(number)})"
    except ValueError:
        return str(number)


def _remedy(number: int, memory: int | None) -> str:
    if number == signal.SIGKILL:
        asked = f"; this job asked for {memory} MB" if memory else ""
        return (
            f"The memory probably ran out{asked}. Let fewer jobs run at once (--cores), or ask a cluster for more "
            "memory (execution.job.mem_mb, --set-resources), and start again."
        )
    if number == signal.SIGBUS:
        return "A disk or the shared memory (/dev/shm) is probably full. Free some space, and start again."
    return "Start again; it continues from its results so far."


def _space(log: Path | None) -> str:
    """Return how much space is left where results go."""
    folder = next(path for path in (log or Path()).absolute().parents if path.is_dir())
    return f"{folder} has {shutil.disk_usage(folder).free / 2**20:,.1f} MiB of free space."
