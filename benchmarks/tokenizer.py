"""Compare cutting texts before tokenising them with tokenising them whole.

In: a Parquet file with a column `text`, a vocab.txt. Out: MB of text a second for both, as JSON on standard output.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence

import pyarrow.parquet as pq

from lib.core import program
from lib.core.errors import ProjectError
from lib.data.tokenizer import WordPieceTokenizer


def rate(encode: Callable[[list[str]], list[list[int]]], texts: list[str]) -> tuple[float, list[list[int]]]:
    """Return MB of text a second, and the ids."""
    start = time.perf_counter()
    ids = [row for i in range(0, len(texts), 512) for row in encode(texts[i : i + 512])]
    return sum(len(text.encode()) for text in texts) / 1e6 / (time.perf_counter() - start), ids


def main(argv: Sequence[str] | None = None) -> None:
    """Run the comparison."""
    parser: argparse.ArgumentParser = program.parser(__doc__)
    parser.add_argument("--texts", required=True, help="Parquet file with a column `text`")
    parser.add_argument("--vocabulary", required=True, help="vocab.txt")
    parser.add_argument("--max-tokens", type=int, default=128, help="tokens to keep of each text")
    arguments = parser.parse_args(argv)
    texts = pq.read_table(arguments.texts, columns=["text"])["text"].to_pylist()
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = WordPieceTokenizer.from_vocabulary(arguments.vocabulary, f"{folder}/tokenizer")
    whole, expected = rate(
        lambda batch: tokenizer.backend(batch, truncation=True, max_length=arguments.max_tokens)["input_ids"], texts
    )
    cut, found = rate(lambda batch: tokenizer.encode_ragged(batch, arguments.max_tokens), texts)
    if found != expected:
        raise ProjectError("the ids differ from those of the whole texts; expected them equal. Report this as a bug.")
    json.dump({"whole_mb_per_second": whole, "cut_mb_per_second": cut, "ratio": cut / whole}, sys.stdout, indent=2)
    sys.stdout.write("\n")


if __name__ == "__main__":
    sys.exit(program.run(main))
