"""Measure a forward pass and a training step of whole encoders, compared with ModernBERT, LFM2 and Mamba.

python scripts/encoder_cost.py --out FILE
"""

import sys
from collections.abc import Sequence

from lib.backbones.encoder.settings import Settings as Encoder
from lib.core import program
from lib.measure import options
from lib.measure.compared import ENCODERS
from lib.measure.encoder_cost import ENCODER_LENGTHS, encoder_cost


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    parser = options.parser(
        __doc__,
        on_device=True,
        encoders=ENCODERS,
        encoder={},
        lengths=ENCODER_LENGTHS,
        seconds=6.0,
        minutes=1.0,
    )
    options.measure(parser, lambda encoder, **rest: encoder_cost(encoder=Encoder(**encoder), **rest), argv)


if __name__ == "__main__":
    sys.exit(program.run(main))
