"""Measure the cost of adapting an opened decoder: a step of MNTP with LoRA, beside transformers and peft.

All inputs are random ids.

python scripts/adaptation_cost.py --out FILE
"""

import json
import sys
from collections.abc import Sequence

from lib.core import program
from lib.measure.adaptation_cost import MODELS, adaptation_cost
from lib.measure.options import device_parser, write_table


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    parser = device_parser(__doc__)
    parser.add_argument(
        "--models", type=json.loads, default=MODELS, metavar="JSON", help=f"architectures by name ({', '.join(MODELS)})"
    )
    parser.add_argument("--batch", type=int, default=8, metavar="B", help="sequences of a step (8)")
    parser.add_argument("--length", type=int, default=512, metavar="N", help="tokens of a sequence (512)")
    parser.add_argument("--repetitions", type=int, default=3, metavar="R", help="repetitions of a step (3)")
    arguments = vars(parser.parse_args(argv))
    out = arguments.pop("out")
    write_table(out, adaptation_cost(**arguments))


if __name__ == "__main__":
    sys.exit(program.run(main))
