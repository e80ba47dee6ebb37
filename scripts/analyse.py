"""Analyse the models of finished runs, and write the results as a table.

python scripts/analyse.py --analysis '{"kind": "heads", "options": {"documents": 200}}' --runs FOLDER ...
    --tokenizers FOLDER ... --tokens FOLDER ... --out FILE

Runs, tokenisers and tokenised documents come in the same order. The table has a column `model`, then the columns of
`lib.analysis.<kind>`.
"""

import importlib
import json
import sys
from collections.abc import Sequence

from lib.core import program


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    import pandas as pd

    from lib.analysis.subjects import Subject
    from lib.core.files import write_text

    parser = program.parser(__doc__)
    parser.add_argument("--analysis", required=True, type=json.loads, metavar="JSON", help="kind and options")
    parser.add_argument("--runs", required=True, nargs="+", metavar="FOLDER", help="folder of each run")
    parser.add_argument("--tokenizers", required=True, nargs="+", metavar="FOLDER", help="tokeniser of each run")
    parser.add_argument("--tokens", required=True, nargs="+", metavar="FOLDER", help="tokenised split for each run")
    parser.add_argument("--out", required=True, metavar="FILE", help="table to write, as CSV")
    arguments = parser.parse_args(argv)
    kind = importlib.import_module(f"lib.analysis.{arguments.analysis['kind']}")
    frames = []
    for places in zip(arguments.runs, arguments.tokenizers, arguments.tokens, strict=True):
        subject = Subject.load(*places)
        frame = kind.analyse(subject, **arguments.analysis["options"])
        frame.insert(0, "model", subject.run.model)
        frames.append(frame)
    write_text(arguments.out, pd.concat(frames).to_csv(index=False, float_format="%.6g", lineterminator="\n"))


if __name__ == "__main__":
    sys.exit(program.run(main))
