"""Measure the cost of tokenising: texts that are cut first, compared with complete texts.

python scripts/tools/tokenizer_cost.py --texts FILE.parquet --vocabulary vocab.txt --out FILE
"""

import sys
from collections.abc import Sequence
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

from lib.core import program
from lib.measure import options
from lib.measure.tokenizer_cost import tokenizer_cost


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""

    def cost(texts: str, **rest: Any) -> pd.DataFrame:
        return tokenizer_cost(pq.read_table(texts, columns=["text"])["text"].to_pylist(), **rest)

    options.measure(options.parser(__doc__, texts=str, vocabulary=str, max_tokens=128), cost, argv)


if __name__ == "__main__":
    sys.exit(program.run(main))
