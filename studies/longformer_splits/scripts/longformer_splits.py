"""Split the labelled articles of Hyperpartisan as published for Longformer, and without the leak of that split.

python studies/longformer_splits/scripts/longformer_splits.py
    --splits hp-splits.json --data data/hyperpartisan --out data/longformer_splits
snakemake --configfile studies/longformer_splits/longformer_splits.yaml --cores 2

`hp-splits.json` is in `scripts/` of github.com/allenai/longformer. Its training articles include most test articles
(docs/fidelity.md). `clean` has the same test articles; all others are for training or validation.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from lib.core import program
from lib.core.errors import DataError

ARTICLES = "articles-training-byarticle-20181122.xml.gz"
TRUTH = "ground-truth-training-byarticle-20181122.xml.gz"
NAMES = {"train": "train", "dev": "validation", "test": "test"}


def main(argv: program.Argv = None) -> None:
    """Run the program."""
    import pandas as pd

    from lib.core.files import atomic_path, require_new
    from lib.reading.readers import read_records

    parser = program.parser(__doc__)
    parser.add_argument("--splits", required=True, metavar="FILE", help="hp-splits.json")
    parser.add_argument("--data", required=True, metavar="FOLDER", help=f"with {ARTICLES} and {TRUTH}")
    parser.add_argument("--out", required=True, metavar="FOLDER", help="new folder of published/ and clean/")
    arguments = parser.parse_args(argv)
    require_new(arguments.out)
    folder = Path(arguments.data)
    records = read_records(
        {"all": [folder / ARTICLES]},
        label="hyperpartisan",
        labels=["false", "true"],
        ground_truth={"all": [folder / TRUTH]},
    )
    articles = pd.DataFrame(
        [(int(each.id), each.text, each.label) for each in records], columns=["id", "text", "label"]
    )
    articles = articles.set_index("id", drop=False)
    published = _read(arguments.splits, set(articles.index))
    test, validation = set(published["test"]), set(published["validation"])
    clean = {
        "train": [number for number in articles.index if number not in test | validation],
        "validation": [number for number in published["validation"] if number not in test],
        "test": published["test"],
    }
    with atomic_path(arguments.out) as partial:
        for name, splits in {"published": published, "clean": clean}.items():
            (partial / name).mkdir(parents=True)
            for split, numbers in splits.items():
                articles.loc[list(numbers)].to_parquet(partial / name / f"{split}.parquet", index=False)
            leaked = len(test & set(splits["train"]))
            sizes = ", ".join(f"{len(numbers)} {split}" for split, numbers in splits.items())
            print(f"{arguments.out}/{name}: {sizes}; {leaked} of the test articles are in training")


def _read(file: str, known: set[int]) -> Mapping[str, list[int]]:
    """Return the article numbers by split."""
    try:
        splits = {
            ours: [int(number) for number in json.loads(Path(file).read_text())[name]] for name, ours in NAMES.items()
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{file}: cannot be read ({error!r}). Expected lists of numbers: train, dev and test."
        ) from error
    if unknown := set().union(*splits.values()) - known:
        raise DataError(f"{file}: there are no articles {sorted(unknown)[:5]}. Expected numbers of the given articles.")
    return splits


if __name__ == "__main__":
    program.start(main)
