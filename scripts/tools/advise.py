"""Recommend a model, an attention mechanism and a length for your own texts, and write the study of the model.

python scripts/tools/advise.py --texts reviews.csv --column review --label sentiment --out config/texts.yaml

First come scores without training: macro-F1 of TF-IDF and of encoders that do not train, with intervals. Then come
the expected gain and time of training, the times of attention mechanisms if texts are long, three
facts about the texts, and the study. `--minutes` bounds the CPU time of the study.
"""

import logging
import os
import time

from lib.advice.question import LIMITS, Question
from lib.core import program
from lib.core.files import write_text


def main(argv: program.Argv = None) -> None:
    """Run the program with the arguments `argv`."""
    begun = time.monotonic()
    parser = program.parser(__doc__)
    parser.add_argument("--texts", required=True, nargs="+", metavar="FILE", help="Parquet, CSV, JSONL, text or XML")
    parser.add_argument("--column", help="column of the text (`text`, else the one with the longest values)")
    labels = parser.add_mutually_exclusive_group()
    labels.add_argument("--label", metavar="COLUMN", help="column of the label (`label`, else the one with few values)")
    labels.add_argument("--unlabelled", dest="labelled", action="store_false", help="there is no column of the label")
    kept = "column whose values are in one split each, such as an author (the one that leaks), or none"
    parser.add_argument("--by", metavar="COLUMN", help=kept)
    parser.add_argument("--dialect", metavar="{KEY: VALUE}", help="how text files are written, as in a study")
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto", help="the GPU if any (auto)")
    parser.add_argument(
        "--study", default="config/config.yaml", metavar="FILE", help="study whose mechanisms are compared"
    )
    parser.add_argument("--vocabulary", metavar="FILE", help="a vocab.txt to count tokens by")
    parser.add_argument("--limits", nargs="+", type=program.positive, metavar="N", help=f"of tokens {LIMITS}")
    parser.add_argument("--seconds", type=float, default=110.0, metavar="S", help="time of the whole answer (110)")
    parser.add_argument("--minutes", type=float, metavar="M", help="CPU time of the whole study, at most")
    encoder = "published encoders, static ones too, instead of the hub's; the first that can be is trained"
    parser.add_argument("--encoder", nargs="+", metavar="FOLDER", help=encoder)
    parser.add_argument("--out", type=program.file_to_write, default="config/texts.yaml", metavar="FILE", help="study")
    arguments = vars(parser.parse_args(argv))
    # Waiting threads yield their core. Otherwise a busy machine slows two threads down tenfold.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from lib.advice.advice import advise
    from lib.preparing.settings.sources import Dialect

    if (dialect := arguments["dialect"]) is not None:
        arguments["dialect"] = program.read_settings(Dialect, dialect)
    out = arguments.pop("out")
    logger = logging.getLogger("lib")
    level = logger.level
    logger.setLevel(logging.ERROR)  # the advice says what matters of the warnings
    try:
        advice, study = advise(Question(**arguments), out, begun)
    finally:
        logger.setLevel(level)
    print(advice)
    write_text(out, study)


if __name__ == "__main__":
    program.start(main)
