"""Commands for users of the package: `attention-grid new NAME` writes the files of a new mechanism."""

import argparse
import sys
from importlib import import_module

from lib.core import program

COMMANDS = {"new": "lib.workflow.commands.new_mechanism", "try": "lib.workflow.commands.trying"}


def main() -> None:
    """Run the command that the command line names, and end this process."""
    parser = argparse.ArgumentParser(prog="attention-grid", description=__doc__)
    parser.add_argument("command", choices=COMMANDS, help="its own arguments follow; --help shows them")
    command = parser.parse_args(sys.argv[1:2]).command
    sys.argv[:2] = [f"attention-grid {command}"]
    sys.exit(program.run(import_module(COMMANDS[command]).main, sys.argv[1:]))


if __name__ == "__main__":
    main()
