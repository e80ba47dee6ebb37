"""Analyse what the models of finished runs do inside, and write it as a table.

python scripts/analyse.py --analysis '{"kind": "heads", "options": {"documents": 200}}' --runs FOLDER ...
    --tokenizers FOLDER ... --tokens FOLDER ... --out FILE

Runs, their tokenisers and the tokens of the documents that their models read are in the same order. The table has a
column `model`, then those of `lib.analysis.<kind>.computation`.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lib.analysis.parameters import ANALYSES
from lib.core import program

if TYPE_CHECKING:
    from lib.analysis.subject import Subject


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    import pandas as pd

    from lib.core.files import write_text

    parser = program.parser(__doc__)
    parser.add_argument("--analysis", required=True, type=json.loads, metavar="JSON", help="kind and options")
    parser.add_argument("--runs", required=True, nargs="+", metavar="FOLDER", help="folder of each run")
    parser.add_argument("--tokenizers", required=True, nargs="+", metavar="FOLDER", help="tokeniser of each run")
    parser.add_argument("--tokens", required=True, nargs="+", metavar="FOLDER", help="tokenised split for each run")
    parser.add_argument("--out", required=True, metavar="FILE", help="table to write, as CSV")
    arguments = parser.parse_args(argv)
    computation = ANALYSES.load(arguments.analysis["kind"], "computation")
    frames = []
    for places in zip(arguments.runs, arguments.tokenizers, arguments.tokens, strict=True):
        subject = load_subject(*places)
        frame = computation.analyse(subject, **arguments.analysis["options"])
        frame.insert(0, "model", subject.name)
        frames.append(frame)
    write_text(arguments.out, pd.concat(frames).to_csv(index=False, float_format="%.6g", lineterminator="\n"))


def load_subject(folder: str, tokenizer: str, tokens: str) -> Subject:
    """Return the model of a run with the documents of a tokenised split."""
    from lib.analysis.subject import Subject
    from lib.core.files import read_mapping
    from lib.core.record import CONFIG, MODEL
    from lib.data.tokens import load_tokens
    from lib.study.run import RunSettings
    from lib.training.assembly import assemble

    run = program.read_settings(RunSettings, read_mapping(Path(folder) / CONFIG) | {"tokenizer": tokenizer})
    parts = assemble(run)
    load_trained = functools.partial(parts.backbone.load_weights, folder=Path(folder) / MODEL)
    return Subject(run.model, run.dataset, run.seed, parts.tokenizer, load_tokens(tokens), parts.model, load_trained)


if __name__ == "__main__":
    sys.exit(program.run(main))
