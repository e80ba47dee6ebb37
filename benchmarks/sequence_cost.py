"""Measure the cost of a layer per token of one sequence: recurrent layers compared with attention.

A recurrent layer computes a token after the other, a state-space layer a chunk after the other; attention computes all
at once, but each over all others. Shapes: N tokens, D hidden size.

python benchmarks/sequence_cost.py --mechanisms '{"sdpa": {"kind": "sdpa"}, ...}' --encoder '{...}' --out FILE
"""

import itertools
import logging
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn

from benchmarks import options
from benchmarks.compared import NAIVE
from benchmarks.cost import machine, repeated, spread
from benchmarks.implementations import Called
from benchmarks.limits import PEAK_MATRICES, Limits, growth, matrix_mb
from benchmarks.tables import COLUMNS
from lib.attention.contract import set_step
from lib.backbones.encoder.configuration import EncoderConfig
from lib.backbones.encoder.model import self_attention
from lib.backbones.encoder.settings import Settings as Encoder
from lib.backbones.positions import Phases
from lib.backbones.ssm.configuration import SsmConfig
from lib.backbones.ssm.model import Mixer

logger = logging.getLogger(__name__)

SEQUENCE_LENGTHS = (64, 256, 1024, 4096, 16_384)
"""Tokens of a sequence, N, whose time is measured."""

RECURRENT: dict[str, Callable[..., nn.RNNBase]] = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}
"""torch's recurrent layers, by name."""

PASSES = {"forward": False, "forward_backward": True}
"""Kinds of passes, and whether they train."""


def recurrent_layer(kind: str, hidden_size: int) -> nn.Module:
    """Return a recurrent layer over both directions, each with half of the hidden size.

    Args:
        kind: a name of `RECURRENT`.
        hidden_size: D, of inputs and outputs.
    """
    recurrent = RECURRENT[kind](hidden_size, hidden_size // 2, batch_first=True, bidirectional=True)
    return Called(recurrent, lambda layer, states: layer(states)[0])


def state_space_layer(hidden_size: int) -> nn.Module:
    """Return the mixer of the state-space encoder with its projections."""
    mixer = Mixer(SsmConfig(hidden_size=hidden_size))
    mixer.draw()
    return Called(mixer, lambda layer, states: layer(states, states.new_ones(states.shape[:2], dtype=torch.bool)))


def attention_layer(mechanism: Mapping[str, Any], encoder: Encoder) -> nn.Module:
    """Return the encoder's self-attention with its projections and rotary positions."""
    config = EncoderConfig(mechanism=dict(mechanism), **encoder.model_dump(exclude={"kind", "mechanism"}))
    rotary = config.position_embedding_type == "rope"
    phases = Phases(config.head_size, config.rope_theta, config.rope_scale) if rotary else None
    steps = itertools.count(1)

    def attend(attention: nn.Module, states: Tensor) -> Tensor:
        set_step(attention, next(steps))  # as in training: rotations of LSH are drawn again at every step
        rotation = torch.stack(phases(states.shape[1], states.device), dim=-1) if phases else None
        return attention(states, None, rotation)

    return Called(self_attention(config, layer=0), attend)


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
        seconds: time for the repetitions of a row; one at least, and `benchmarks.cost.REPETITIONS` at most.
        minutes: a row that is expected to take longer once, by the last one that was measured, has no measurement, and
            says so in `skipped`.
        gibibytes: likewise for the N x N matrices of exact attention in plain operations.

    Returns:
        Table `sequence_cost` of `benchmarks.tables`; `median_ms`, `min_ms` and `max_ms` are over `repetitions`, and
        `us_per_token` is the median's. The pass `forward` keeps nothing for a backward pass.
    """
    limits, attention = Limits(minutes, gibibytes), {**mechanisms, **NAIVE}
    every = torch.get_num_threads()
    rows = []
    last: dict[tuple[int, str, str], tuple[int, float]] = {}  # tokens and seconds
    for length, threads in itertools.product(sorted(lengths), sorted({1, every}) if device == "cpu" else [every]):
        torch.manual_seed(0)
        states = torch.randn(1, length, encoder.hidden_size, device=device, dtype=getattr(torch, dtype))
        layers: dict[str, nn.Module] = {name: recurrent_layer(name, encoder.hidden_size) for name in RECURRENT}
        layers["ssm"] = state_space_layer(encoder.hidden_size)
        layers |= {name: attention_layer(parameters, encoder) for name, parameters in attention.items()}
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
        torch.set_num_threads(threads)
        try:
            times = repeated(computations, expected, seconds, torch.device(device))
            used = machine(device, dtype)
        finally:
            torch.set_num_threads(every)
        for (name, kind), reason in skipped.items():
            columns = spread(times.get((name, kind), [math.nan]))
            milliseconds = columns["median_ms"]
            if not reason:
                last[threads, name, kind] = length, milliseconds / 1000
            rows.append(
                {
                    "layer": name,
                    "family": "state space" if name == "ssm" else "recurrent" if name in RECURRENT else "attention",
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


def _pass(layer: nn.Module, states: Tensor, *, trains: bool) -> Callable[[], None]:
    def forward() -> None:
        with torch.no_grad():
            layer.eval()(states)

    def forward_and_backward() -> None:
        output = layer.train()(states.detach().requires_grad_())
        output.backward(torch.ones_like(output))
        layer.zero_grad()

    return forward_and_backward if trains else forward


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
    sys.exit(options.run(__file__))
