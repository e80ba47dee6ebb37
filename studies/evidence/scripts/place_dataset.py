"""Place the texts of a prepared dataset inside articles of a corpus, at a known place.

In: prepared Parquet files (id, text, label), and the filtered files of the corpus. Out: a folder with train.parquet,
validation.parquet, test.parquet and summary.json.

Example: place_dataset.py --settings '{"corpus": "wikipedia", "place": "middle", "words": 600}' --train FILE
    --validation FILE --test FILE --articles FILE --used 6000 --out FOLDER
"""

from lib.core import program


def main(argv: program.Argv = None) -> None:
    """Parse the options and place the texts."""
    from lib.preparing.folds import SPLITS
    from lib.preparing.settings.placement import Placement
    from studies.evidence.placing import place_dataset

    parser = program.parser(__doc__)
    parser.add_argument("--settings", required=True, help="of the placement: path of a YAML file, or JSON in place")
    for split in SPLITS:
        parser.add_argument(f"--{split}", required=True, metavar="FILE", help=f"prepared documents of {split}")
    parser.add_argument("--articles", required=True, nargs="+", metavar="FILE", help="of the corpus, in dataset order")
    parser.add_argument("--used", type=int, default=0, metavar="N", help="first articles, which others read (0)")
    parser.add_argument("--out", required=True, metavar="FOLDER", help="folder to appear")
    options = parser.parse_args(argv)
    place_dataset(
        {split: getattr(options, split) for split in SPLITS},
        options.articles,
        options.out,
        program.read_settings(Placement, options.settings),
        options.used,
    )


if __name__ == "__main__":
    program.start(main)
