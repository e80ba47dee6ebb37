"""Recommend an attention mechanism for your own texts, and estimate its cost on this machine.

python scripts/tools/advise.py --texts my_documents.parquet --column text
python scripts/tools/advise.py --texts reviews.csv --column review --label sentiment --labels negative positive

Prints a summary of the texts and possible problems (few documents, another language). Then it prints, for each length
limit and model, the share of the text that is lost, the time of adaptation and fine-tuning relative to exact attention,
with its interval, the memory, and the scores of finished runs; then the advice, and the recommended study, which --out
writes to a file. Training steps of all models are measured in turns, within the time of --seconds.
"""

import os
import sys
import time
from collections.abc import Sequence

from lib.core import program
from lib.core.files import write_text


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program with the arguments `argv`."""
    begun = time.monotonic()
    # Waiting threads yield their core. Otherwise a busy machine slows two threads down tenfold.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from lib.advice.advice import LIMITS, advise
    from lib.advice.question import Question

    parser = program.parser(__doc__)
    parser.add_argument(
        "--texts", required=True, nargs="+", metavar="FILE", help="Parquet, CSV, JSONL, text or XML, also gzipped"
    )
    parser.add_argument("--column", default="text", help="column of the text, where the format has columns (text)")
    parser.add_argument("--label", metavar="COLUMN", help="column of the label, if there is one; needs --labels")
    parser.add_argument(
        "--labels", nargs="+", default=[], metavar="NAME", help="classes, in the order of their numbers"
    )
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto", help="the GPU if any (auto)")
    parser.add_argument(
        "--study", default="config/config.yaml", metavar="FILE", help="study whose encoder and recipes are estimated"
    )
    parser.add_argument("--vocabulary", metavar="FILE", help="a vocab.txt instead of the study's vocabulary")
    parser.add_argument("--limits", nargs="+", type=int, metavar="N", help=f"tokens to cut documents to {LIMITS}")
    parser.add_argument("--sample", type=int, default=1000, metavar="D", help="documents to count tokens of (1000)")
    parser.add_argument(
        "--points", type=float, default=1.0, metavar="P", help="most points of F1 to lose for speed (1)"
    )
    parser.add_argument("--seconds", type=float, default=90.0, metavar="S", help="time of the whole answer (90)")
    parser.add_argument("--encoder", metavar="FOLDER", help="a published encoder to start from, instead of the hub's")
    parser.add_argument(
        "--weights",
        metavar="FOLDER",
        help="model folder of a pretraining, from which the study then starts",
    )
    parser.add_argument("--out", metavar="FILE", help="write the study there, for instance to config/texts.yaml")
    arguments = vars(parser.parse_args(argv))
    if bool(arguments["label"]) != bool(arguments["labels"]):
        parser.error("--label needs --labels, and the reverse: the column, and its classes")
    out = arguments.pop("out")
    advice, study = advise(Question(**arguments), out or "config/texts.yaml", begun)
    print(f"{advice}\n\n```yaml\n{study}```")
    if out:
        write_text(out, study)


if __name__ == "__main__":
    sys.exit(program.run(main))
