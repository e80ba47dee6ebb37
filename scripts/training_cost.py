"""Measure training, compared with BERT: a step of masked language modelling, and an epoch of fine-tuning.

All inputs are random ids; those of the epoch are as long as IMDb's reviews.

Without further options it measures all mechanisms of config/config.yaml in an encoder of BERT-small's sizes. On a GPU
it needs only torch, transformers, pydantic and pandas, and also measures the Triton kernels of mechanisms that have
them, the shorter sequences of a pretraining, attention within a window, and the state-space encoder.

python scripts/training_cost.py --out FILE
python scripts/training_cost.py --names sdpa favor-m64 ssm --compile --steps mlm --out FILE
"""

import sys
from collections.abc import Sequence
from typing import get_args

import torch

from lib.backbones.encoder.settings import Settings as Encoder
from lib.core import program
from lib.measure import options
from lib.measure.compared import IN_ADDITION_TO_THE_GRID
from lib.measure.training_cost import LENGTH, SHORT, Work, training_cost


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    on_gpu = torch.cuda.is_available()
    batch = 64 if on_gpu else 4
    parser = options.parser(
        __doc__,
        on_device=True,
        mechanisms=options.of_the_grid() | (IN_ADDITION_TO_THE_GRID if on_gpu else {}),
        encoder={},
        lengths=(SHORT, LENGTH) if on_gpu else (LENGTH,),
        steps=get_args(Work),
        compile=False,
        batch=batch,
        documents=4096 if on_gpu else 64,
        document_batch=batch,
        repetitions=20 if on_gpu else 3,
    )
    options.measure(parser, lambda encoder, **rest: training_cost(encoder=Encoder(**encoder), **rest), argv)


if __name__ == "__main__":
    sys.exit(program.run(main))
