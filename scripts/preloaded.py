"""Run a command, such as snakemake, whose programs share one process that has already imported the libraries.

python scripts/preloaded.py COMMAND ...

Exits with the command's status. A program that cannot share the process runs in its own.
"""

import os
import signal

from lib.attention.settings import MECHANISMS
from lib.backbones.settings import BACKBONES
from lib.core import program
from lib.core.errors import ProjectError
from lib.results.settings import FIGURES, TABLES
from lib.tasks.settings import TASKS
from lib.workflow import preloaded

MODULES = (
    "lib.preparing.filtering",
    "lib.preparing.labelled",
    "lib.tokens.tokenizing",
    "lib.results.scope",
    "lib.results.style",
    "lib.training.evaluate_texts",
    "lib.training.evaluate_tokens",
    "lib.training.run",
)
"""Modules that the programs of the workflow import, in addition to all kinds of the axes."""
PARTS = ((MECHANISMS, "mechanism"), (BACKBONES, "backbone"), (TASKS, "task"), (TABLES, "table"), (FIGURES, "figure"))


def main(argv: program.Argv = None) -> None:
    """Run the program."""
    parser = program.parser(__doc__)
    parser.add_argument("command", nargs="...", help="program and arguments")
    command = parser.parse_args(argv).command
    if not command:
        parser.error("no command. Expected a program and its arguments.")
    kinds = [axis.module(kind, part) for axis, part in PARTS for kind in axis.kinds()]
    call = preloaded.start([*MODULES, *kinds])
    if call is not None:
        call.run()
        return
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and a command would inherit that
    try:
        os.execvp(command[0], command)
    except OSError as error:
        raise ProjectError(f"{command[0]}: cannot be run ({error.strerror}). Expected a program.") from error


if __name__ == "__main__":
    program.start(main)
