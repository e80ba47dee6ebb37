"""Mechanisms, their inputs and their dense references, as the contract of every mechanism is tested with."""

import importlib

import torch
from extending import extended, having

from lib.attention import contract
from lib.attention.block_sparse.computation import BlockSparse
from lib.attention.settings import MECHANISMS
from lib.attention.topk import mechanism as topk

HEADS, WIDTH = 2, 8
SLOPES = (0.5, 0.0625)


EXTENSIONS = having("attention")
with extended(*EXTENSIONS):
    REFERENCES = {
        kind: importlib.import_module(f"references.{kind}")
        if MECHANISMS.place(kind).startswith("lib.")
        else MECHANISMS.load(kind, "reference")
        for kind in MECHANISMS.kinds()
    }
    EXAMPLES = {name: values for reference in REFERENCES.values() for name, values in reference.EXAMPLES.items()}
    OF_KIND = {kind: [name for name in EXAMPLES if EXAMPLES[name]["kind"] == kind] for kind in REFERENCES}
    BIASED = {
        f"{name}-alibi": EXAMPLES[name]
        for names in OF_KIND.values()
        for name in dict.fromkeys((names[0], names[-1]))
        if MECHANISMS.parse(EXAMPLES[name]).takes_bias
    }
    """With ALiBi, the first and the last example of each kind that takes it."""


def build(name, **changes):
    slopes = SLOPES if name in BIASED else None
    values = changes.pop("values", None) or (EXAMPLES | BIASED)[name]
    arguments = {"num_heads": HEADS, "head_size": WIDTH, "layer": 1, "seed": 3, "slopes": slopes} | changes
    arguments["width"] = HEADS * arguments["head_size"]
    return contract.build(MECHANISMS.parse(values), **arguments).eval()


def without_shortcuts(monkeypatch):
    """Let every mechanism compute short texts as it computes long ones."""
    monkeypatch.setattr(contract.Attention, "is_exact_at", lambda self, query: False)
    monkeypatch.setattr(BlockSparse, "_is_dense_at", lambda self, tokens: False)
    monkeypatch.setattr(topk, "DENSE", 0)


def draw(mechanism, batch, length, seed=0, dtype=torch.float32, device="cpu"):
    """Return query, key and value, leaves that want gradients; query and key are one where they are shared.

    States [B, 1, N, D] follow, if the mechanism reads them.
    """
    generator = torch.Generator().manual_seed(seed)
    heads, width = mechanism.num_heads, mechanism.head_size
    shapes = [(heads, width)] * 3 + ([(1, heads * width)] if mechanism.settings.reads() != "heads" else [])
    drawn = [torch.randn(batch, many, length, wide, generator=generator) for many, wide in shapes]
    query, key, *others = (rows.to(device, dtype).requires_grad_() for rows in drawn)
    return (query, query if mechanism.settings.shares_query_and_key else key, *others)


def attend(mechanism, rows, mask=None, **others):
    """Return the output of a mechanism for what `draw` returns."""
    states = {"states": rows[3][:, 0]} if len(rows) > 3 else {}
    return mechanism(*rows[:3], mask, **states, **others)


def has_weights(mechanism):
    """Whether the mechanism can show its weights."""
    return mechanism.settings.linear_in_values and mechanism.settings.reads() == "heads"


def detached(tensors, dtype):
    """Return copies of what `draw` returns in `dtype`, as new leaves; shared ones stay shared."""
    query, key, *others = tensors
    copy, *others = (rows.detach().to(dtype).requires_grad_() for rows in (query, *others))
    return (copy, copy if key is query else key.detach().to(dtype).requires_grad_(), *others)


def run(function, tensors, cotangent):
    """Return the output and the gradients of the sum of `cotangent` times it, in float64."""
    output = function(*tensors)
    gradients = torch.autograd.grad((output.double() * cotangent).sum(), tensors, materialize_grads=True)
    return [output.detach().double(), *(gradient.double() for gradient in gradients)]


def truth(mechanism, tensors, mask, cotangent):
    reference = REFERENCES[mechanism.settings.kind].reference
    return run(
        lambda *rows: reference(mechanism, *rows[:3], mask, *(each[:, 0] for each in rows[3:])),
        detached(tensors, torch.float64),
        cotangent,
    )


def assert_close(actual, expected, tolerance, of_gradients=None):
    for number, (mine, theirs) in enumerate(zip(actual, expected, strict=True)):
        allowed = of_gradients if number and of_gradients else tolerance
        torch.testing.assert_close(mine, theirs, atol=allowed, rtol=allowed)


def masks(length):
    """Return a mask of four rows: all real, padded right, padded left, padded at random."""
    mask = torch.ones(4, length, dtype=torch.long)
    mask[1, length // 2 + 1 :] = 0
    mask[2, : length // 3] = 0
    mask[3] = torch.rand(length, generator=torch.Generator().manual_seed(length)) < 0.6
    return mask


def cotangent_of(batch, length, width=WIDTH):
    return torch.randn(batch, HEADS, length, width, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
