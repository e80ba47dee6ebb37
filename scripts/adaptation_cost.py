"""Measure the cost of adapting an opened decoder, compared with transformers and peft: a step of MNTP with LoRA.

All inputs are random ids.

python scripts/adaptation_cost.py --out FILE
"""

import sys
from collections.abc import Sequence

from lib.core import program
from lib.measure import options
from lib.measure.adaptation_cost import MODELS, adaptation_cost


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    parser = options.parser(__doc__, on_device=True, models=MODELS, batch=8, length=512, repetitions=3)
    options.measure(parser, adaptation_cost, argv)


if __name__ == "__main__":
    sys.exit(program.run(main))
