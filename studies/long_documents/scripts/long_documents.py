"""Write EURLEX-57K, its inverted form and the CMU book summaries, and pairs of these, as tables with numbered labels.

python studies/long_documents/scripts/long_documents.py --eurlex data/EURLEX57K --books data/booksummaries.txt
    --out data/long_documents
snakemake --configfile studies/long_documents/long_documents.yaml --cores 2

`--eurlex` is the unpacked datasets.zip of nlp.cs.aueb.gr/software_and_datasets/EURLEX57K, with folders train, dev and
test of JSON files; `--books` the table in booksummaries.tar.gz of cs.cmu.edu/~dbamman/booksummaries.html. Texts, splits
and pairs are those of Park et al. 2022, "Efficient Classification of Long Documents Using Transformers"
(github.com/amazon-science/efficient-longdoc-classification). labels.json has the names of the numbers.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from lib.core import program
from lib.core.errors import DataError

SPLITS = {"train": "train", "validation": "dev", "test": "test"}
COLUMNS = ("wikipedia", "freebase", "title", "author", "date", "genres", "text")
SEED = 22
"""Seed of the published splits of the book summaries."""
LEAST_WORDS = 10


def main(argv: program.Argv = None) -> None:
    """Run the program."""
    import pandas as pd

    from lib.core.files import atomic_path, require_new, write_json

    parser = program.parser(__doc__)
    parser.add_argument("--eurlex", metavar="FOLDER", help="with the folders train, dev and test")
    parser.add_argument("--books", metavar="FILE", help="booksummaries.txt")
    parser.add_argument("--out", required=True, metavar="FOLDER", help="new folder of a folder for each dataset")
    arguments = parser.parse_args(argv)
    require_new(arguments.out)
    made: dict[str, dict[str, Any]] = {}
    if arguments.eurlex:
        made["eurlex"] = {split: pd.DataFrame(_laws(Path(arguments.eurlex, name))) for split, name in SPLITS.items()}
    if arguments.books:
        made["books"] = dict(zip(SPLITS, _books(arguments.books), strict=True))
        made["book_pairs"] = {split: _pairs(books) for split, books in made["books"].items()}
    with atomic_path(arguments.out) as partial:
        for name, splits in made.items():
            (partial / name).mkdir(parents=True)
            names = sorted({each for table in splits.values() for found in table["label"] for each in found})
            numbers = {each: number for number, each in enumerate(names)}
            for split, table in splits.items():
                table = table.assign(label=[sorted({numbers[each] for each in found}) for found in table["label"]])
                table.to_parquet(partial / name / f"{split}.parquet", index=False)
            write_json(partial / name / "labels.json", names)
            sizes = ", ".join(f"{len(table):,} {split}" for split, table in splits.items())
            print(f"{arguments.out}/{name}: {sizes}; {len(names):,} labels")


def _laws(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the laws of a split: their sections in order, and with the first ones last."""
    files = sorted(folder.glob("*.json"))
    if not files:
        raise DataError(f"{folder}: has no JSON files. Expected the unpacked datasets.zip with train, dev and test.")
    for file in files:
        law = json.loads(file.read_text(encoding="utf-8"))
        first, body = [law["header"], law["recitals"]], law["main_body"]
        inverted = "\n".join([*body, *reversed(first)])
        yield {"id": file.stem, "text": "\n".join([*first, *body]), "inverted": inverted, "label": law["concepts"]}


def _books(file: str) -> Sequence[Any]:
    """Return the books with genres and a summary, for training, validation and test."""
    import pandas as pd

    books = pd.read_csv(file, sep="\t", names=COLUMNS).dropna(subset=["genres", "text"])
    books = books[books["text"].str.split().str.len() >= LEAST_WORDS]
    genres = [[*json.loads(each).values()] for each in books["genres"]]
    books = books.assign(id=books["wikipedia"].astype(str), label=genres)[["id", "text", "label"]]
    train = books.sample(frac=0.8, random_state=SEED)
    rest = books.drop(train.index)
    validation = rest.sample(frac=0.5, random_state=SEED)
    return train, validation, rest.drop(validation.index)


def _pairs(books: Any) -> Any:
    """Return each two books as one document, with the labels of both."""
    import pandas as pd

    whole = len(books) - len(books) % 2
    first, second = (books.iloc[start:whole:2].reset_index(drop=True) for start in (0, 1))
    ids = first["id"] + "-" + second["id"]
    return pd.DataFrame({"id": ids, "text": first["text"] + second["text"], "label": first["label"] + second["label"]})


if __name__ == "__main__":
    program.start(main)
