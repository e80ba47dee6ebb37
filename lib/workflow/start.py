"""Start a program of the workflow: python -m lib.workflow.start [--code FILE] COMMAND ...

The program is refused if the plan meant another one: its code differs from FILE, which the plan left, or it should read
a file of the plan that is not there. It runs in a fork of a process that has imported its libraries if there is
one (`lib.workflow.preloaded`), and else in place of this one.
"""

import argparse
import json
import logging
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from lib.core import program
from lib.core.errors import ConfigError
from lib.core.extensions import sources
from lib.workflow.planning.paths import PLANNED
from lib.workflow.planning.planned import NAME
from lib.workflow.preloaded import hand_over
from lib.workflow.staleness.kept_code import code_since

logger = logging.getLogger(__name__)

REMEDY = "Nothing was done. Undo the change, or stop snakemake and start it again: it makes a new plan."


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program with the arguments `argv`."""
    # Not the parser of other programs: arguments like @FILE belong to the command.
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--code", metavar="FILE", help="the code that was planned")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="program and arguments")
    arguments = parser.parse_args(argv)
    if arguments.code:
        states = program.states_of(*(file for folder in sources().values() for file in folder.rglob("*.py")))
        planned = Path(arguments.code)  # named after its digest
        if changes := code_since(planned.parent, planned.stem):
            raise ConfigError(f"the code has changed since this job was planned: {'; '.join(changes)}. {REMEDY}")
        os.environ[program.CHECKED] = json.dumps(states)
    check_files(arguments.command)
    status = hand_over(arguments.command)
    if status is None:
        os.execvp(arguments.command[0], arguments.command)
    if status - 128 in signal.valid_signals() - {signal.SIGALRM}:  # whose sender, `in_time`, says why
        logger.error("%s", killed(status - 128))
    return status


def killed(number: int) -> str:
    """Explain the death of a program by a signal, which leaves no word in its log."""
    causes: dict[int, str] = {
        signal.SIGKILL: "The memory probably ran out: let fewer jobs run at once (--cores).",
        signal.SIGBUS: "A disk or the shared memory (/dev/shm) is probably full.",
    }
    name = signal.strsignal(number) or "unknown"
    return f"the program was killed by signal {number} ({name}). {causes.get(number, '')} Start again; it resumes."


def check_files(command: Sequence[str]) -> None:
    """Refuse a command that names a file of the plan that is not there.

    Raises:
        ConfigError: the plan had other settings.
    """
    for path in (Path(word.removeprefix("@")) for word in command):
        if path.parent.name == PLANNED and NAME.fullmatch(path.name) and not path.is_file():
            raise ConfigError(f"{path}: not there, so the settings have changed since this job was planned. {REMEDY}")


if __name__ == "__main__":
    sys.exit(program.run(main, sys.argv[1:]))
