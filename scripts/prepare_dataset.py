"""Clean, balance and split one labelled dataset.

In: the raw files of each part. Out: a folder with train.parquet, validation.parquet, test.parquet and summary.json.
Settings: those of `Preparation`, all settings of a dataset except its source and max_tokens.

Example: prepare_dataset.py --settings imdb.yaml --part test test.parquet --part train train.parquet --out FOLDER
"""

from lib.core import program
from lib.core.errors import ConfigError


def main(argv: program.Argv = None) -> None:
    """Parse the options and prepare the dataset."""
    from lib.preparing.labelled import prepare_dataset
    from lib.preparing.settings.preparation import Preparation

    parser = program.parser(__doc__)
    parser.add_argument("--settings", required=True, help="path of a YAML file, or JSON in place")
    pair = ("NAME", "FILE")
    parser.add_argument("--part", required=True, action="append", nargs="+", metavar=pair, help="raw files of a part")
    parser.add_argument("--ground-truth", default=[], action="append", nargs="+", metavar=pair, help="of a part")
    parser.add_argument("--out", required=True, help="folder to appear")
    options = parser.parse_args(argv)
    files = {name: paths for name, *paths in options.part}
    ground_truth = {name: paths for name, *paths in options.ground_truth}
    if unknown := [name for name in ground_truth if name not in files]:
        raise ConfigError(f"--ground-truth: names the parts {unknown}, but --part has {list(files)}.")
    prepare_dataset(files, options.out, program.read_settings(Preparation, options.settings), ground_truth)


if __name__ == "__main__":
    program.start(main)
