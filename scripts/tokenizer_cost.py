"""Measure the cost of tokenising: texts that are cut first, beside texts that are tokenised completely.

python scripts/tokenizer_cost.py --texts FILE.parquet --vocabulary vocab.txt --out FILE
"""

import sys
from collections.abc import Sequence

import pyarrow.parquet as pq

from lib.core import program
from lib.measure.options import table_parser, write_table
from lib.measure.tokenizer_cost import tokenizer_cost


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    parser = table_parser(__doc__)
    parser.add_argument("--texts", required=True, metavar="FILE", help="Parquet file with a column `text`")
    parser.add_argument("--vocabulary", required=True, metavar="FILE", help="vocab.txt")
    parser.add_argument("--max-tokens", type=int, default=128, metavar="N", help="tokens to keep of each text (128)")
    arguments = parser.parse_args(argv)
    texts = pq.read_table(arguments.texts, columns=["text"])["text"].to_pylist()
    write_table(arguments.out, tokenizer_cost(texts, arguments.vocabulary, arguments.max_tokens))


if __name__ == "__main__":
    sys.exit(program.run(main))
