"""Cost of one long sequence, by its length: time of a layer per token, and memory of attention.

A recurrent layer computes a token after the other, a state-space layer a chunk after the other; attention computes all
at once, but each over all others. Memory is compared with that of the N x N matrices.
Shapes: N tokens, D hidden size.
"""

import itertools
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn

from lib.attention.contract import set_step
from lib.attention.settings import each_of, parse_mechanisms
from lib.backbones.encoder.block import self_attention
from lib.backbones.encoder.configuration import EncoderConfig
from lib.backbones.encoder.settings import Settings as Encoder
from lib.backbones.positions import Phases
from lib.backbones.ssm.configuration import SsmConfig
from lib.backbones.ssm.model import Mixer
from lib.measure.compared import NAIVE
from lib.measure.cost import machine, repeated, spread, timed, with_peak_mb
from lib.measure.implementations import AttentionCase, Called, own_cases
from lib.measure.tables import COLUMNS

logger = logging.getLogger(__name__)

SEQUENCE_LENGTHS = (64, 256, 1024, 4096, 16_384)
"""Tokens of a sequence, N, whose time is measured."""

MEMORY_LENGTHS = (512, 2048, 8192, 32_768, 128_000)
"""Tokens of a sequence, N, whose memory is measured."""

RECURRENT: dict[str, Callable[..., nn.RNNBase]] = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}
"""torch's recurrent layers, by name."""

PASSES = {"forward": False, "forward_backward": True}
"""Kinds of passes, and whether they train."""

WARM_UP = 128
"""Tokens of the sequence that warms libraries up, few compared with any that is measured."""

PEAK_MATRICES = 3
"""N x N matrices of a head that exist at once in plain operations: the weights, which are kept, and in the backward
pass the gradients of weights and scores. In the forward pass it is two, scores and weights."""

Last = tuple[AttentionCase, float, float]
"""Last measured seconds and MiB of a mechanism."""


@dataclass(frozen=True)
class Limits:
    """The most that a pass may be expected to take.

    Args:
        minutes: time.
        gibibytes: memory.
    """

    minutes: float
    gibibytes: float

    def exceeded(self, seconds: float, mb: float) -> str:
        """Return, in words, which limit `seconds` and `mb` MiB exceed; nothing if none."""
        if mb > 1024 * self.gibibytes:
            return f"more than {self.gibibytes:g} GiB"
        time = f"{self.minutes:g} min" if self.minutes >= 1 else f"{60 * self.minutes:g} s"
        return f"more than {time}" if seconds > 60 * self.minutes else ""


def growth(mechanism: Any) -> int:
    """Return the power of N that the time of a mechanism, or of a list, grows with: 2 if one is exact, else about 1."""
    return 2 if any(each.kind == "sdpa" for each in each_of(parse_mechanisms(mechanism))) else 1


def matrix_mb(length: int, heads: int, dtype: str) -> float:
    """Return the MiB of an N x N matrix of each head.

    Args:
        length: N.
        heads: H.
        dtype: of an entry, such as `float32`.
    """
    return heads * length**2 * getattr(torch, dtype).itemsize / 2**20


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


def memory_cost(
    mechanisms: Mapping[str, dict[str, Any]],
    *,
    lengths: Sequence[int],
    minutes: float,
    gibibytes: float,
    **setting: Any,
) -> pd.DataFrame:
    """Return time and memory of a forward and backward pass over one sequence, one row per mechanism and length.

    Args:
        mechanisms: parameters by name; exact attention in plain operations is added.
        lengths: N in tokens.
        minutes: a pass that is expected to take longer, by the last one that was measured, is left out: its row says so
            in `skipped`. Exact attention is tried with a single head before, since each head takes an equal share.
        gibibytes: likewise for memory.
        setting: `heads`, `head_size`, `device` and `dtype` of the cases, see `AttentionCase`.

    Returns:
        Table `memory_cost` of `lib.measure.tables`; `matrix_mb` are the MiB of one N x N matrix of all heads, and
        `computed_mb` those of all that exist at once; only exact attention in plain operations has them. `peak_mb` is
        the peak memory in MiB of one pass, `kept_mb` what its forward pass keeps, and `seconds` its time, unrepeated.

    Raises:
        RunError: memory did not suffice.
    """
    limits = Limits(minutes, gibibytes)
    rows = []
    last: dict[str, Last] = {}
    for length in sorted(lengths):
        for case in own_cases({**mechanisms, **NAIVE}, [length], length, **setting):
            if case.kernels != "torch":
                continue
            name = case.mechanism
            skipped = limits.exceeded(*_expected(case, last.get(name)))
            one_head = replace(case, heads=1)
            if skipped and growth(case.parameters) == 2 and not limits.exceeded(*_expected(one_head, last.get(name))):
                case, skipped = one_head, ""
            seconds = kept = peak = math.nan
            if not skipped:
                short = replace(case, length=min(length, WARM_UP))
                (seconds, kept), peak = with_peak_mb(one_pass, case, device=torch.device(case.device), warm_up=(short,))
                last[name] = case, seconds, peak
            matrix = matrix_mb(length, case.heads, case.dtype) if name in NAIVE else math.nan
            rows.append(
                {
                    **vars(case),
                    **machine(case.device, case.dtype),
                    "matrix_mb": matrix,
                    "computed_mb": PEAK_MATRICES * matrix,
                    "peak_mb": peak,
                    "kept_mb": kept / 2**20,
                    "seconds": seconds,
                    "skipped": skipped or None,
                }
            )
            logger.info("%s, %d tokens: %s", name, length, f"left out, {skipped}" if skipped else f"{peak:.0f} MiB")
    return pd.DataFrame(rows, columns=COLUMNS["memory_cost"])


def one_pass(case: AttentionCase) -> tuple[float, int]:
    """Return the seconds of one forward and backward pass, and the bytes that the forward pass keeps."""
    attention, kept = case.prepare(), 0

    def run() -> None:
        nonlocal kept
        kept = attention.kept_bytes()

    seconds = timed(run, torch.device(case.device))
    return seconds, kept


def _pass(layer: nn.Module, states: Tensor, *, trains: bool) -> Callable[[], None]:
    def forward() -> None:
        with torch.no_grad():
            layer.eval()(states)

    def forward_and_backward() -> None:
        output = layer.train()(states.detach().requires_grad_())
        output.backward(torch.ones_like(output))
        layer.zero_grad()

    return forward_and_backward if trains else forward


def _expected(case: AttentionCase, last: Last | None) -> tuple[float, float]:
    """Return the seconds and the MiB that `case` is expected to take, after the last one that was measured."""
    seconds = mb = 0.0
    if last:
        before, seconds, mb = last
        longer, heads = case.length / before.length, case.heads / before.heads
        seconds, mb = seconds * heads * longer ** growth(case.parameters), mb * heads * longer
    if case.mechanism in NAIVE:
        mb = PEAK_MATRICES * matrix_mb(case.length, case.heads, case.dtype)
    return seconds, mb
