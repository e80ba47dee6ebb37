"""Write the description of every configuration key: config/README.md and config/schema.json."""

from lib.core import program
from lib.workflow.commands.config_reference import write_reference


def main(argv: program.Argv = None) -> None:
    """Run the program with the arguments `argv`."""
    parser = program.parser(__doc__)
    parser.add_argument("--out", default="config", metavar="FOLDER", help="folder of README.md and schema.json")
    write_reference(parser.parse_args(argv).out)


if __name__ == "__main__":
    program.start(main)
