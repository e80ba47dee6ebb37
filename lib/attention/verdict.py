"""The verdict on a layer: its padding, lengths, random draws, types and costs.

A module of another package is measured with its own mask, without the protection that the grid gives it. Each check
builds the layer again, so that none sees what another one left.

Shapes: B batch, H heads, N tokens, d head width, D width of the states.
"""

import functools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lib.attention.contract import Attention, build
from lib.attention.kept_bytes import KeptBytes
from lib.attention.settings import MECHANISMS
from lib.core.errors import ConfigError, cut

LENGTHS = (1, 2, 3, 63, 64, 65, 127, 1_000, 1_024, 4_097)
TIMED = (512, 2_048, 8_192)
"""Lengths in tokens of the passes that are timed."""
MOST_SECONDS = 20
"""A length is left out if the one before it lets expect that a pass takes more."""
ROUNDING = 1e-5
"""Largest relative difference that counts as rounding: many layers compute in float32 whatever they are given."""
GARBAGE = 1e4
"""Standard deviation of the numbers in padding; that of real tokens is 1."""
APART = "Keep padding: apart, the default: texts of one length at a time."

Make = Callable[[], Attention]


class Finding(NamedTuple):
    """A row of the verdict."""

    subject: str
    found: str
    """A phrase to quote, with details in brackets."""
    is_fine: bool = True
    """Whether the layer is usable in this respect; a reading alone is fine."""
    remedy: str = ""
    """What to change if it is not."""


def verdict(make: Make, reference: Callable[..., Tensor] | None = None, *, quick: bool = False) -> list[Finding]:
    """Return the findings about a layer; the last one is that it `fails`, if it cannot be built or called.

    Args:
        make: builds the layer in evaluation mode, always with the same weights.
        reference: the correct computation: maps the module and its inputs, in float64, to its output.
        quick: whether costs are left out.
    """
    findings: list[Finding] = []
    try:
        findings.extend(_findings(make, reference, quick=quick))
    except Exception as error:  # another's code may raise anything
        findings.append(refused(error))
    return findings


def _findings(make: Make, reference: Callable[..., Tensor] | None, *, quick: bool) -> Iterator[Finding]:
    layer: Any = make()
    described = layer.described() if layer.settings.kind == "module" else "those of its settings; attention_mask"
    yield Finding("arguments", described)
    alone, several = drawn(layer, 1, 128), drawn(layer, 3, 128)
    with torch.no_grad():
        others = difference([read(layer, several)[:1]], [read(layer, [row[:1] for row in several])])
        one_way = MECHANISMS.load("module", "mechanism").is_causal(functools.partial(read, layer), alone)
        ways = ((False, 0), (False, 1), (True, 0), (True, 0), (True, 1))  # whether it trains, and the seed
        outputs = [read(make().train(training), alone, seed=seed) for training, seed in ways]
    types = {dtype: failure(make, 128, dtype) for dtype in (torch.float64, torch.bfloat16)}
    yield Finding("types", "; ".join(f"{str(dtype)[6:]} {said or 'runs'}" for dtype, said in types.items()))
    errors = padding_errors(make, torch.float32 if types[torch.float64] else torch.float64)
    worst, by_input, by_weight = (max(each) for each in zip(*errors.values(), strict=True))
    places = ", ".join(f"{place} {each[0]:.1g}" for place, each in errors.items())
    how = f"exact under padding with{'out a' if described.endswith('no mask') else ' its'} mask, to {worst:.1g}"
    fine = worst <= ROUNDING
    yield Finding("padding", f"{'' if fine else 'not '}{how} ({places})", fine, APART)
    found = f"with padding, those of inputs to {by_input:.1g}, of weights to {by_weight:.1g}"
    yield Finding("gradients", found, max(by_input, by_weight) <= 10 * ROUNDING, APART)
    yield Finding("other texts", f"change an output by {others:.1g}", others <= ROUNDING, "Read each by itself.")
    yield Finding("direction", "causal" if one_way else "bidirectional", not one_way, "Set two_directions: true.")
    failing = failing_lengths(make)
    numbers, first = ", ".join(map("{:,}".format, failing)), next(iter(failing.values()), "")
    found = f"fails at {numbers} tokens ({first})" if failing else f"any length to {LENGTHS[-1]:,}"
    yield Finding("lengths", found, not failing, "Pad inside of the layer, or let `options` make its table longer.")
    evaluation, seeded, training = (torch.equal(*outputs[first : first + 2]) for first in (0, 2, 3))
    found = f"{'' if evaluation and seeded else 'not '}repeatable{'' if training else ' (training draws at random)'}"
    remedy = "Draw from torch's generator, and in training or construction alone."
    yield Finding("draws", found, evaluation and seeded, remedy)
    if reference:
        exact: Any = make().double()
        rows, module = drawn(exact, 2, 128, torch.float64), getattr(exact, "modules_of_directions", [exact])[0]
        error = difference([read(exact, rows)], [reference(module, *rows)])
        yield Finding("reference", f"its reference to {error:.1g}", error <= ROUNDING, "Correct one of the two.")
    if not quick:
        yield from _costs(make)


def refused(error: Exception) -> Finding:
    """Return the finding that a layer failed; the last sentence of an error of the project says what to do."""
    said, _, remedy = str(error).removesuffix(".").rpartition(". ")
    if not isinstance(error, ConfigError):
        said, remedy = f"{type(error).__name__}: {error}", "Correct the layer"
    return Finding("fails", cut(" ".join(said.split()), 160), False, f"{remedy}.")


def read(mechanism: Attention, rows: Sequence[Tensor], real: Tensor | None = None, seed: int = 0) -> Tensor:
    """Return the outputs [..., N, d or D] for what `drawn` returns, by the layer's own mask if it takes one."""
    torch.manual_seed(seed)
    if mechanism.settings.kind == "module":
        return mechanism.read(rows, real, "mask")  # type: ignore[operator]
    query, key, value, *states = rows
    key = query if mechanism.settings.shares_query_and_key else key
    return mechanism(query, key, value, real, **({"states": states[0]} if states else {}))


def drawn(mechanism: Attention, texts: int, tokens: int, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """Return inputs: states [B, N, D], or queries, keys and values [B, H, N, d], or both if the layer reads both."""
    heads, width, reads = mechanism.num_heads, mechanism.head_size, mechanism.settings.reads()
    shapes: list[tuple[int, ...]] = [(texts, tokens, heads * width)] if reads != "heads" else []
    if mechanism.settings.kind != "module" or not shapes:
        shapes = [(texts, heads, tokens, width)] * 3 + shapes
    generator = torch.Generator().manual_seed(tokens)
    return [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]


def difference(found: Sequence[Tensor], expected: Sequence[Tensor]) -> float:
    """Return the largest difference, relative to the largest number expected; inf if there is a nan."""
    pairs = [(one, other) for one, other in zip(found, expected, strict=True) if other.numel()]
    largest = max((other.abs().max().item() for _, other in pairs), default=0.0) or 1.0
    return max(((one - other).abs().max().nan_to_num(math.inf).item() / largest for one, other in pairs), default=0.0)


@torch.no_grad()
def failure(make: Make, tokens: int, dtype: torch.dtype = torch.float32) -> str:
    """Return why a layer does not read a text of `tokens` tokens; nothing if it does."""
    mechanism = make().to(dtype)
    try:
        finite = read(mechanism, drawn(mechanism, 1, tokens, dtype)).isfinite().all()
    except (ConfigError, ValueError) as error:
        return refused(error).found
    return "" if finite else "NaN or inf"


def failing_lengths(make: Make) -> dict[int, str]:
    """Return the lengths in tokens that a layer does not read, of `LENGTHS`, and why."""
    return {tokens: said for tokens in LENGTHS if (said := failure(make, tokens))}


def padding_errors(
    make: Make, dtype: torch.dtype, sizes: tuple[int, int] = (128, 192), content: float = GARBAGE
) -> dict[str, list[float]]:
    """Return what padding does to a text, by its place: right, left, inside.

    Args:
        make: builds the layer in evaluation mode.
        dtype: to compute in.
        sizes: real tokens of the text, and tokens with padding.
        content: standard deviation of the numbers in padding.

    Returns:
        Differences from the text alone, relative to the largest number there: of outputs at real tokens, of gradients
        of the inputs, those at padding from zero, and of gradients of the weights.
    """
    tokens, whole = sizes
    order, found = torch.arange(tokens), {}
    alone, garbage = (drawn(make(), 1, length, dtype) for length in sizes)
    outputs, inputs, weights = _pass(make().to(dtype), alone, order, None)
    for name, places in {"right": order, "left": order + whole - tokens, "inside": order * whole // tokens}.items():
        rows = [(content * row).index_copy(-2, places, own) for row, own in zip(garbage, alone, strict=True)]
        real = torch.zeros(1, whole, dtype=torch.bool).index_fill(1, places, value=True)
        padded = _pass(make().to(dtype), rows, places, real)
        wanted = [torch.zeros_like(row).index_copy(-2, places, own) for row, own in zip(rows, inputs, strict=True)]
        found[name] = [difference(*pair) for pair in zip(padded, (outputs, wanted, weights), strict=True)]
    return found


def _pass(mechanism: Attention, rows: Sequence[Tensor], places: Tensor, real: Tensor | None) -> list[Sequence[Tensor]]:
    """Return the outputs at `places`, and the gradients of a sum of these by the rows and by the weights."""
    leaves = [row.detach().requires_grad_() for row in rows]
    weights = [weight for weight in mechanism.parameters() if weight.requires_grad]
    output = read(mechanism, leaves, real).index_select(-2, places)
    total = (output * torch.linspace(-1, 1, output.numel()).view_as(output)).sum()
    total.backward()  # `grad` would refuse layers with checkpoints
    found = [torch.zeros_like(each) if each.grad is None else each.grad for each in (*leaves, *weights)]
    return [[output.detach()], found[: len(leaves)], found[len(leaves) :]]


def _costs(make: Make) -> Iterator[Finding]:
    layer = make()
    state = layer.settings.state_numbers(TIMED[1], layer.head_size)
    known = "not known" if state is None else f"{layer.num_heads * state:,} numbers of {TIMED[1]:,} tokens"
    yield Finding("size", f"{sum(each.numel() for each in layer.parameters()):,} weights; state: {known}")
    module = {"kind": "module", "class": "torch.nn.MultiheadAttention"}
    settings = MECHANISMS.parse(module if layer.settings.reads() == "states" else {"kind": "sdpa"})
    exact = build(settings, num_heads=layer.num_heads, head_size=layer.head_size, width=layer.width, layer=0, seed=0)
    seconds = 0.0
    for tokens in TIMED:
        if 16 * seconds > MOST_SECONDS:
            yield Finding(f"cost of {tokens:,}", f"not measured at {tokens:,} tokens (more than {MOST_SECONDS} s)")
            break
        (seconds, kept), (others, others_kept) = _cost(layer, tokens), _cost(exact, tokens)
        mib, ratio = f"keeps {kept / 2**20:,.1f} MiB, exact {others_kept / 2**20:,.1f} MiB", seconds / others
        found = f"{ratio:.1f} x exact attention at {tokens:,} tokens ({1000 * seconds:,.0f} ms of CPU time; {mib})"
        yield Finding(f"cost of {tokens:,}", found)


def _cost(layer: Attention, tokens: int) -> tuple[float, int]:
    """Return the CPU seconds of a pass of training, forward and backward, and the bytes kept between the two."""
    rows, times = [each.requires_grad_() for each in drawn(layer.train(), 1, tokens)], []
    for _ in range(3):
        begun = time.process_time()
        with KeptBytes(layer.parameters()) as kept:
            output = read(layer, rows)
        output.sum().backward()
        times.append(time.process_time() - begun)
    return min(times), kept.total
