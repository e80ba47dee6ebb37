"""Analyse the internals of the models of finished runs, and write a table.

python scripts/analyse.py --analysis '{"kind": "heads", "options": {"documents": 200}}' --runs FOLDER ...
    --tokenizers FOLDER ... --tokens FOLDER ... [--baseline FOLDER] [--texts FILE] --out FILE

Runs, their tokenisers and their tokenised documents are in the same order. --baseline adds the run of a classifier of
texts; it reads the documents of the first run. --texts are the documents as they are written. The table has a column
`model`, then those of `lib.analysis.computations.<kind>`.
"""

from __future__ import annotations

import functools
import importlib
import itertools
from pathlib import Path
from typing import TYPE_CHECKING

from lib.analysis.settings import computation
from lib.core import program
from lib.core.files import read_mapping, write_text
from lib.core.record import CONFIG, MODEL, read_record

if TYPE_CHECKING:
    from lib.analysis.computations.subject import Subject


def main(argv: program.Argv = None) -> None:
    """Run the program."""
    import pandas as pd

    parser = program.parser(__doc__)
    parser.add_argument("--analysis", required=True, type=program.json_value, metavar="JSON", help="kind and options")
    parser.add_argument("--runs", required=True, nargs="+", metavar="FOLDER", help="folder of each run")
    parser.add_argument("--tokenizers", required=True, nargs="+", metavar="FOLDER", help="tokeniser of each run")
    parser.add_argument("--tokens", required=True, nargs="+", metavar="FOLDER", help="tokenised split for each run")
    parser.add_argument("--baseline", metavar="FOLDER", help="run of a classifier of texts, which is a row, too")
    parser.add_argument("--texts", metavar="FILE", help="prepared documents of the split")
    parser.add_argument("--out", required=True, metavar="FILE", help="table to write, as CSV")
    arguments = parser.parse_args(argv)
    kind = importlib.import_module(computation(arguments.analysis["kind"]))
    places = list(zip(arguments.runs, arguments.tokenizers, arguments.tokens, strict=True))
    frames, options, baselines = [], arguments.analysis["options"], []
    if arguments.baseline:
        baselines = [load_baseline(arguments.baseline, *places[0][1:])]
        options = options | {"text_baseline": baselines[0].classifier}
    written = pd.read_parquet(arguments.texts, columns=["text"])["text"].tolist() if arguments.texts else ()
    for subject in itertools.chain((load_subject(*place) for place in places), baselines):
        frame = kind.analyse(subject._replace(texts=written), **options)
        frame.insert(0, "model", subject.name)
        frames.append(frame)
    write_text(arguments.out, pd.concat(frames).to_csv(index=False, float_format="%.6g", lineterminator="\n"))


def load_subject(folder: str, tokenizer: str, tokens: str) -> Subject:
    """Return the model of a run with the documents of a tokenised split."""
    from lib.analysis.computations.subject import Subject
    from lib.predicting.reader import open_reader
    from lib.study.run import RunSettings
    from lib.tokens.stored import load_tokens
    from lib.training.predictor import assemble

    run = program.read_settings(RunSettings, read_mapping(Path(folder) / CONFIG) | {"tokenizer": tokenizer})
    components = assemble(run)
    model = Path(folder) / MODEL
    return Subject(
        name=run.model,
        dataset=run.dataset,
        seed=run.seed,
        tokenizer=components.tokenizer,
        tokens=load_tokens(tokens),
        drawn=components.model,
        load_trained=functools.partial(components.backbone.load_weights, folder=model, with_head=True),
        open_reader=functools.partial(open_reader, model, device="cpu"),
    )


def load_baseline(folder: str, tokenizer: str, tokens: str) -> Subject:
    """Return the classifier of a run that reads texts, with the documents of a tokenised split.

    Args:
        folder: folder of the run.
        tokenizer: tokeniser of the documents.
        tokens: the tokenised split.
    """
    from lib.analysis.computations.subject import Subject
    from lib.predicting.reader import open_reader
    from lib.predicting.text_reader import TextReader
    from lib.tokens.stored import load_tokens
    from lib.tokens.tokenizer import TextTokenizer

    record, reader = read_record(folder), open_reader(folder)
    assert isinstance(reader, TextReader)  # as the plan chose it
    return Subject(
        name=record.model,
        dataset=record.dataset,
        seed=record.seed,
        tokenizer=TextTokenizer.load(tokenizer).backend,
        tokens=load_tokens(tokens),
        classifier=reader.backbone,
        open_reader=lambda: reader,
    )


if __name__ == "__main__":
    program.start(main)
