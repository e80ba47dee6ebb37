"""Describe each prepared document of a dataset: length, language, and whether it repeats another one.

In: the prepared documents of training, validation and test. Out: a Parquet file, one row per document.
Settings: those of `TextDescription`.

Example: describe_dataset.py --settings '{"labels": ["no", "yes"]}' --data train.parquet validation.parquet
test.parquet --out texts.parquet
"""

from lib.core import program


def main(argv: program.Argv = None) -> None:
    """Parse the options and describe the dataset."""
    from lib.preparing.folds import SPLITS
    from lib.preparing.settings.dataset import TextDescription
    from studies.hate_speech.description import describe_dataset

    parser = program.parser(__doc__)
    parser.add_argument("--settings", required=True, help="path of a YAML file, or JSON in place")
    parser.add_argument("--data", required=True, nargs=len(SPLITS), metavar="FILE", help=f"of {', '.join(SPLITS)}")
    parser.add_argument("--out", required=True, metavar="FILE", help="Parquet file to appear")
    options = parser.parse_args(argv)
    files = dict(zip(SPLITS, options.data, strict=True))
    describe_dataset(files, options.out, program.read_settings(TextDescription, options.settings))


if __name__ == "__main__":
    program.start(main)
