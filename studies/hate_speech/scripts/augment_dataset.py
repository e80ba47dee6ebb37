"""Add copies with replaced words to the training documents of a prepared dataset.

In: prepared Parquet files (id, text, label), and the sources of new words: a WordNet database, a masked language model.
Out: a folder with train.parquet, validation.parquet, test.parquet and summary.json.

Example: augment_dataset.py --settings '{"labels": ["yes"], "by": "synonyms", "synonyms": {"local": "wordnet"}}'
    --preparation '{"labels": ["no", "yes"]}' --train FILE --validation FILE --test FILE --source synonyms wordnet
    --out FOLDER
"""

from lib.core import program

SPLITS = ("train", "validation", "test")


def main(argv: program.Argv = None) -> None:
    """Run the program."""
    from lib.preparing.settings.augmentation import Augmentation
    from lib.preparing.settings.preparation import Preparation
    from studies.hate_speech.augmentation.augmenting import augment_dataset

    parser = program.parser(__doc__)
    parser.add_argument("--settings", required=True, help="of the augmentation: path of a YAML file, or JSON in place")
    parser.add_argument("--preparation", required=True, help="settings that the dataset was prepared by, likewise")
    for split in SPLITS:
        parser.add_argument(f"--{split}", required=True, metavar="FILE", help=f"prepared documents of {split}")
    parser.add_argument(
        "--source", required=True, action="append", nargs="+", metavar=("WAY", "PATH"), help="what a way reads"
    )
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto", help="for models")
    parser.add_argument("--out", required=True, metavar="FOLDER", help="folder to appear")
    options = parser.parse_args(argv)
    settings = program.read_settings(Augmentation, options.settings)
    sources = {way: paths for way, *paths in options.source}
    if missing := [way for way in settings.ways if way not in sources]:
        parser.error(f"--source: missing for {', '.join(missing)}")
    augment_dataset(
        {split: getattr(options, split) for split in SPLITS},
        options.out,
        settings,
        program.read_settings(Preparation, options.preparation),
        sources,
        options.device,
    )


if __name__ == "__main__":
    program.start(main)
