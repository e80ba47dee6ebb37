"""Analyse the internals of the models of finished runs, and write a table.

python scripts/analyse.py --analysis '{"kind": "heads", "options": {"documents": 200}}' --runs FOLDER ...
    --tokenizers FOLDER ... --tokens FOLDER ... [--baseline FOLDER --baseline-texts FILE] [--texts FILE] --out FILE

Runs, their tokenisers and their tokenised documents are in the same order. --baseline adds a run without a model, whose
text classifier is fitted again to its texts; it reads the documents of the first run. --texts are the documents as they
are written. The table has a column `model`,
then those of `lib.analysis.computations.<kind>`.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lib.analysis.settings import computation
from lib.core import program
from lib.core.files import read_mapping, write_text
from lib.core.record import CONFIG, MODEL, read_record

if TYPE_CHECKING:
    from lib.analysis.computations.subject import Predict, Subject


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    import pandas as pd

    parser = program.parser(__doc__)
    parser.add_argument("--analysis", required=True, type=program.json_value, metavar="JSON", help="kind and options")
    parser.add_argument("--runs", required=True, nargs="+", metavar="FOLDER", help="folder of each run")
    parser.add_argument("--tokenizers", required=True, nargs="+", metavar="FOLDER", help="tokeniser of each run")
    parser.add_argument("--tokens", required=True, nargs="+", metavar="FOLDER", help="tokenised split for each run")
    parser.add_argument("--baseline", metavar="FOLDER", help="run of a classifier of texts, which is a row, too")
    parser.add_argument("--baseline-texts", metavar="FILE", help="prepared documents that it is fitted to")
    parser.add_argument("--texts", metavar="FILE", help="prepared documents of the split")
    parser.add_argument("--out", required=True, metavar="FILE", help="table to write, as CSV")
    arguments = parser.parse_args(argv)
    kind = importlib.import_module(computation(arguments.analysis["kind"]))
    places = list(zip(arguments.runs, arguments.tokenizers, arguments.tokens, strict=True))
    frames, options, baselines = [], arguments.analysis["options"], []
    if arguments.baseline:
        baselines = [load_baseline(arguments.baseline, arguments.baseline_texts, *places[0][1:])]
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
        open_classifier=functools.partial(open_classifier, model),
    )


def open_classifier(model: Path) -> Predict:
    """Return the predictions of the model in a folder, on a CPU, as a function of texts."""
    from lib.predicting.reader import open_reader

    return open_reader(model, device="cpu").probabilities


def load_baseline(folder: str, texts: str, tokenizer: str, tokens: str) -> Subject:
    """Return the classifier of a run that reads texts, fitted again, with the documents of a tokenised split.

    Args:
        folder: folder of the run.
        texts: prepared documents to fit it to.
        tokenizer: tokeniser of the documents.
        tokens: the tokenised split.
    """
    import pandas as pd

    from lib.analysis.computations.subject import Subject
    from lib.backbones.settings import BACKBONES
    from lib.study.run import RunSettings
    from lib.tokens.stored import load_tokens
    from lib.tokens.tokenizer import TextTokenizer

    run = program.read_settings(RunSettings, read_mapping(Path(folder) / CONFIG))
    settings = run.backbone.model_copy(update=read_record(folder).chosen)
    classifier = BACKBONES.load(run.backbone.kind, "backbone").Backbone(settings, seed=run.seed)
    documents = pd.read_parquet(texts, columns=["text", "label"])
    classifier.fit(documents["text"], documents["label"])
    classes = int(documents["label"].max()) + 1
    return Subject(
        name=run.model,
        dataset=run.dataset,
        seed=run.seed,
        tokenizer=TextTokenizer.load(tokenizer).backend,
        tokens=load_tokens(tokens),
        classifier=classifier,
        open_classifier=lambda: lambda texts: classifier.class_probabilities(pd.Series(texts), classes),
    )


if __name__ == "__main__":
    sys.exit(program.run(main))
