"""Measure how many times as fast a training step is where oneDNN computes the linear layers, on one thread of the CPU.

python benchmarks/linear_cost.py --length 256 --out FILE
"""

import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import torch
from torch import nn
from transformers import BertConfig, BertForSequenceClassification

from benchmarks import options
from benchmarks.cost import machine
from lib.backbones.faster import Linear

MODELS = {
    "minilm": {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536},
    "bert-small": {"hidden_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8, "intermediate_size": 2048},
    "tiny": {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 128},
}
"""Sizes of BERT by name."""


def linear_cost(*, models: Mapping[str, Mapping[str, Any]], length: int, tokens: int, turns: int) -> pd.DataFrame:
    """Return how many times as fast a forward and backward pass in float32 is with oneDNN on one thread, by CPU time.

    Args:
        models: sizes of BERT by name, as its configuration has them.
        length: N; the ids are random.
        tokens: of the batch.
        turns: passes of each, one after the other; the first ones before them are not counted.

    Returns:
        A row per model: the median, the lowest and the highest ratio of a turn, and the machine.
    """
    torch.set_num_threads(1)
    rows = []
    for name, sizes in models.items():
        torch.manual_seed(0)
        model = BertForSequenceClassification(BertConfig(**sizes, max_position_embeddings=length)).train()
        ids = torch.randint(1000, model.config.vocab_size, (max(1, tokens // length), length))
        layers = [layer for layer in model.modules() if type(layer) is nn.Linear]
        taken = [[_seconds(model, layers, ids, kind) for kind in (nn.Linear, Linear)] for _ in range(turns + 1)]
        ratios = [by_torch / by_onednn for by_torch, by_onednn in taken[1:]]
        faster = {"faster": statistics.median(ratios), "lowest": min(ratios), "highest": max(ratios)}
        rows.append({"model": name, "length": length, "batch": len(ids), **faster, **machine("cpu", "float32")})
    return pd.DataFrame(rows)


def _seconds(model: nn.Module, layers: list[nn.Linear], ids: torch.Tensor, kind: type[nn.Linear]) -> float:
    """Return the CPU time of a pass whose linear layers are of a class."""
    for layer in layers:
        layer.__class__ = kind
    start = time.process_time()
    model(input_ids=ids, labels=torch.zeros(len(ids), dtype=torch.long)).loss.backward()
    model.zero_grad()
    return time.process_time() - start


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    options.measure(options.parser(__doc__, models=MODELS, length=256, tokens=2_048, turns=5), linear_cost, argv)


if __name__ == "__main__":
    sys.exit(options.run(__file__))
