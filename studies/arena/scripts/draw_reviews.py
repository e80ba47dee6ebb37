"""Draw the reviews of the arena from IMDb, the same ones from any copy of it.

python studies/arena/scripts/draw_reviews.py --train data/imdb/train.parquet --test data/imdb/test.parquet

Writes data/arena/{train,validation,test}.parquet. The files are those of stanfordnlp/imdb on the hub, or others with
the columns `text` and `label` (0 and 1). Line breaks and repeated spaces of a text become one space. Reviews are
drawn and sorted by the SHA-256 of this text, so the order of the source does not matter. As many of each class are
drawn, none twice.
"""

import argparse
import hashlib
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

SIZES = {"train": 2000, "validation": 400, "test": 1000}


def draw(file: Path, sizes: list[int]) -> list[pa.Table]:
    """Return tables of so many reviews each, half of each class, in the order of the digests of their texts."""
    table = pq.read_table(file, columns=["text", "label"])
    texts = (" ".join(re.sub(r"<br\s*/?>", " ", text).split()) for text in table["text"].to_pylist())
    label_of = dict(zip(texts, table["label"].to_pylist(), strict=True))
    ordered = sorted(label_of, key=lambda text: hashlib.sha256(text.encode()).digest())
    by_class = [[text for text in ordered if label_of[text] == label] for label in (0, 1)]
    drawn, start = [], 0
    for size in sizes:
        chosen = {text for texts in by_class for text in texts[start : start + size // 2]}
        kept = [text for text in ordered if text in chosen]
        drawn.append(pa.table({"text": kept, "label": [label_of[text] for text in kept]}))
        start += size // 2
    return drawn


def main() -> None:
    """Run the program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("train", "test"):
        parser.add_argument(f"--{name}", type=Path, required=True, help="reviews of this part of IMDb, as Parquet")
    parser.add_argument("--out", type=Path, default=Path("data/arena"), help="folder of the drawn ones")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    tables = [
        *draw(arguments.train, [SIZES["train"], SIZES["validation"]]),
        *draw(arguments.test, [SIZES["test"]]),
    ]
    for name, table in zip(SIZES, tables, strict=True):
        pq.write_table(table, arguments.out / f"{name}.parquet")


if __name__ == "__main__":
    main()
