"""Cost of one layer per token: recurrent and state-space layers compared with attention, by sequence length.

A recurrent layer computes a token after the other, a state-space layer a chunk after the other; attention computes all
at once, but each over all others.
Shapes: N tokens, D hidden size.
"""

import itertools
import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn

from lib.attention.contract import set_step
from lib.backbones.encoder.block import SelfAttention
from lib.backbones.encoder.configuration import EncoderConfig
from lib.backbones.encoder.settings import Settings as Encoder
from lib.backbones.positions import Phases
from lib.backbones.ssm.configuration import SsmConfig
from lib.backbones.ssm.model import Mixer
from lib.measure.cost import machine, repeated, spread
from lib.measure.implementations import NAIVE
from lib.measure.memory_cost import PEAK_MATRICES, Limits, growth, matrix_mb
from lib.measure.tables import COLUMNS

logger = logging.getLogger(__name__)

LENGTHS = (64, 256, 1024, 4096, 16_384)
"""Tokens of a sequence, N."""

RECURRENT: dict[str, Callable[..., nn.RNNBase]] = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}
"""torch's recurrent layers, by name."""

PASSES = {"forward": False, "forward_backward": True}
"""Kinds of passes, and whether they train."""


class RecurrentLayer(nn.Module):
    """A recurrent layer over both directions, each with half of the hidden size.

    Args:
        kind: a name of `RECURRENT`.
        hidden_size: D, of inputs and outputs.
    """

    def __init__(self, kind: str, hidden_size: int) -> None:
        super().__init__()
        self.recurrent = RECURRENT[kind](hidden_size, hidden_size // 2, batch_first=True, bidirectional=True)

    def forward(self, states: Tensor) -> Tensor:
        """Return the states [1, N, D] of both directions side by side."""
        return self.recurrent(states)[0]


class StateSpaceLayer(nn.Module):
    """The mixer of the state-space encoder with its projections.

    Args:
        hidden_size: D, of inputs and outputs.
    """

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.mixer = Mixer(SsmConfig(hidden_size=hidden_size))
        self.mixer.draw()

    def forward(self, states: Tensor) -> Tensor:
        """Return the output [1, N, D]."""
        return self.mixer(states, states.new_ones(states.shape[:2], dtype=torch.bool))


class AttentionLayer(nn.Module):
    """The encoder's self-attention with its projections and rotary positions.

    Args:
        mechanism: its parameters.
        encoder: sizes.
    """

    def __init__(self, mechanism: Mapping[str, Any], encoder: Encoder) -> None:
        super().__init__()
        sizes = encoder.model_dump(exclude={"kind", "mechanism"})
        config = EncoderConfig(mechanism=dict(mechanism), **sizes)
        self.attention = SelfAttention(config, layer=0)
        rotary = config.position_embedding_type == "rope"
        self.phases = Phases(config.head_size, config.rope_theta, config.rope_scale) if rotary else None
        self.steps = 0

    def forward(self, states: Tensor) -> Tensor:
        """Return the output [1, N, D]."""
        # As in training: rotations of LSH are drawn again at every step.
        self.steps += 1
        set_step(self, self.steps)
        rotation = self.phases(states.shape[1], states.device) if self.phases else None
        return self.attention(states, None, rotation)


def sequence_cost(
    mechanisms: Mapping[str, dict[str, Any]],
    encoder: Encoder,
    *,
    lengths: Sequence[int],
    device: str,
    dtype: str,
    seconds: float,
    minutes: float,
    gibibytes: float,
) -> pd.DataFrame:
    """Return the cost of a layer per token of one sequence, one row per layer, kind of pass, threads and length.

    Args:
        mechanisms: parameters by name; exact attention in plain operations, the recurrent layers and the state-space
            layer are added.
        encoder: sizes of all layers.
        lengths: N in tokens.
        device: `cpu`, with one thread and then with all, or `cuda`.
        dtype: type of inputs and weights.
        seconds: time for the repetitions of a row; one at least, and `lib.measure.cost.REPETITIONS` at most.
        minutes: a row that is expected to take longer once, by the last one that was measured, has no measurement, and
            says so in `skipped`.
        gibibytes: likewise for the N x N matrices of exact attention in plain operations.

    Returns:
        Table `sequence_cost` of `lib.measure.tables`; `median_ms`, `min_ms` and `max_ms` are over `repetitions`, and
        `us_per_token` is the median's. The pass `forward` keeps nothing for a backward pass.
    """
    limits, attention = Limits(minutes, gibibytes), {**mechanisms, **NAIVE}
    every = torch.get_num_threads()
    rows = []
    last: dict[tuple[int, str, str], tuple[int, float]] = {}  # tokens and seconds
    for length, threads in itertools.product(sorted(lengths), sorted({1, every}) if device == "cpu" else [every]):
        torch.manual_seed(0)
        states = torch.randn(1, length, encoder.hidden_size, device=device, dtype=getattr(torch, dtype))
        layers: dict[str, nn.Module] = {name: RecurrentLayer(name, encoder.hidden_size) for name in RECURRENT}
        layers["ssm"] = StateSpaceLayer(encoder.hidden_size)
        layers |= {name: AttentionLayer(parameters, encoder) for name, parameters in attention.items()}
        computations, expected, skipped = {}, {}, {}
        for name, kind in itertools.product(layers, PASSES):
            key = name, kind
            if (threads, *key) in last:
                before, took = last[threads, *key]
                expected[key] = took * (length / before) ** (growth(attention[name]) if name in attention else 1)
            matrices = PEAK_MATRICES * matrix_mb(length, encoder.num_attention_heads, dtype) if name in NAIVE else 0.0
            skipped[key] = limits.exceeded(expected.get(key, 0.0), matrices)
            if not skipped[key]:
                computations[key] = _pass(layers[name].to(states), states, trains=PASSES[kind])
        with _threads(threads):
            times = repeated(computations, expected, seconds, torch.device(device))
            used = machine(device, dtype)
        for (name, kind), reason in skipped.items():
            columns = spread(times.get((name, kind), [math.nan]))
            milliseconds = columns["median_ms"]
            if not reason:
                last[threads, name, kind] = length, milliseconds / 1000
            rows.append(
                {
                    "layer": name,
                    "family": _family(name),
                    "pass": kind,
                    "length": length,
                    "hidden_size": encoder.hidden_size,
                    "heads": encoder.num_attention_heads,
                    "us_per_token": 1000 * milliseconds / length,
                    "skipped": reason or None,
                    **columns,
                    **({"repetitions": 0} if reason else {}),
                    **used,
                }
            )
            logger.info("%s, %s, %d tokens, %d thread(s): %.0f ms", name, kind, length, threads, milliseconds)
    return pd.DataFrame(rows, columns=COLUMNS["sequence_cost"])


def _family(layer: str) -> str:
    return "state space" if layer == "ssm" else "recurrent" if layer in RECURRENT else "attention"


def _pass(layer: nn.Module, states: Tensor, *, trains: bool) -> Callable[[], None]:
    def forward() -> None:
        with torch.no_grad():
            layer.eval()(states)

    def forward_and_backward() -> None:
        output = layer.train()(states.detach().requires_grad_())
        output.backward(torch.ones_like(output))
        layer.zero_grad()

    return forward_and_backward if trains else forward


@contextmanager
def _threads(number: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
