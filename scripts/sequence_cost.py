"""Measure the cost of a layer per token of one sequence: recurrent layers compared with attention.

python scripts/sequence_cost.py --mechanisms '{"sdpa": {"kind": "sdpa"}, ...}' --encoder '{...}' --out FILE
"""

import sys
from collections.abc import Sequence

from lib.backbones.encoder.settings import Settings as Encoder
from lib.core import program
from lib.measure import options
from lib.measure.length_cost import SEQUENCE_LENGTHS, sequence_cost


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    parser = options.parser(
        __doc__,
        on_device=True,
        mechanisms=options.of_the_grid(),
        encoder={},
        lengths=SEQUENCE_LENGTHS,
        seconds=0.5,
        minutes=1.0,
        gibibytes=8.0,
    )
    options.measure(parser, lambda encoder, **rest: sequence_cost(encoder=Encoder(**encoder), **rest), argv)


if __name__ == "__main__":
    sys.exit(program.run(main))
