"""Archive a finished study: records, tables, figures and settings in one file, without models and texts.

python scripts/tools/archive.py --configfile config/demo.yaml --out demo.tar.gz

Unpacked at the root of another checkout, it gives every table and figure without training. With --records it is a folder
of records that execution.recorded of another study may name. docs/results.md has the commands.
"""

from pathlib import Path

from lib.core import program

CITATION = Path(__file__).resolve().parents[2] / "CITATION.cff"


def main(argv: program.Argv = None) -> None:
    """Run the program."""
    parser = program.study_parser(__doc__)
    parser.add_argument("--out", type=program.file_to_write, required=True, metavar="FILE", help="the archive, .tar.gz")
    parser.add_argument("--records", action="store_true", help="write a folder for execution.recorded, no archive")
    arguments = parser.parse_args(argv)
    from lib.study.configuration import load_study, merged, read_layers
    from lib.workflow.commands.archive import archive, write_records
    from lib.workflow.planning.plan import Plan

    layers = read_layers(arguments.configfile)
    plan = Plan(load_study(layers))
    if arguments.records:
        packed = write_records(plan, arguments.out)
    else:
        packed = archive(plan, merged(layers), CITATION, arguments.out)
    print(f"{arguments.out}: {packed.runs} runs, {packed.files} files, {packed.size / 2**20:.1f} MiB")


if __name__ == "__main__":
    program.start(main)
