"""Import run records of other code, so that tables and figures can be made from them.

python studies/imported/scripts/import_runs.py --runs FILE --history FILE --out results/reference
snakemake --configfile studies/imported/imported.yaml --cores all

The function `studies.imported.importing.import_runs` describes the files. A study with `execution.runs: imported`
reads the imported records.
"""

from lib.core import program
from studies.imported.importing import import_runs


def main(argv: program.Argv = None) -> None:
    """Run the program."""
    parser = program.parser(__doc__)
    parser.add_argument("--runs", required=True, metavar="FILE", help="Parquet file, one row per run")
    parser.add_argument("--history", required=True, metavar="FILE", help="Parquet file, rows per run and epoch")
    parser.add_argument("--hardware", metavar="TEXT", help="their hardware, such as 'NVIDIA A100 (40 GB)'")
    parser.add_argument("--out", required=True, metavar="FOLDER", help="folder of the study's results")
    arguments = parser.parse_args(argv)
    folders = import_runs(arguments.runs, arguments.history, arguments.out, arguments.hardware)
    print(f"{arguments.out}: {len(folders)} run records")


if __name__ == "__main__":
    program.start(main)
