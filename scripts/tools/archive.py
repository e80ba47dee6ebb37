"""Archive a finished study: records, tables, figures and settings in one file, without models and texts.

python scripts/tools/archive.py --configfile config/demo.yaml --out demo.tar.gz

Unpacked at the root of another checkout, it gives every table and figure without training; docs/results.md has
the commands.
"""

from pathlib import Path

from lib.core import program

CITATION = Path(__file__).resolve().parents[2] / "CITATION.cff"


def main(argv: program.Argv = None) -> None:
    """Run the program."""
    parser = program.study_parser(__doc__)
    parser.add_argument("--out", type=program.file_to_write, required=True, metavar="FILE", help="the archive, .tar.gz")
    arguments = parser.parse_args(argv)
    from lib.study.configuration import load_study, merged, read_layers
    from lib.workflow.commands.archive import archive
    from lib.workflow.planning.plan import Plan

    layers = read_layers(arguments.configfile)
    packed = archive(Plan(load_study(layers)), merged(layers), CITATION, arguments.out)
    print(f"{arguments.out}: {packed.runs} runs, {packed.files} files, {packed.size / 2**20:.1f} MiB")


if __name__ == "__main__":
    program.start(main)
