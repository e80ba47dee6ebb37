"""What `window`, `bigbird` and `strided` share: who sees whom by the ranks of real tokens, and dropout."""

import pytest
import torch
from mechanism_cases import without_shortcuts
from torch.nn import functional

from lib.attention import contract
from lib.attention.block_sparse import computation
from lib.attention.contract import build
from lib.attention.settings import MECHANISMS

HEADS = 2


def made(values, **changes):
    arguments = {"num_heads": HEADS, "head_size": 8, "layer": 1, "seed": 3} | changes
    return build(MECHANISMS.parse(values), **arguments).eval()


def rows(batch, length, width=8, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    shape = (batch, HEADS, length, width)
    return [torch.randn(shape, generator=generator).to(dtype).requires_grad_() for _ in range(3)]


def with_gradients(function, tensors):
    output = function(*tensors)
    cotangent = torch.randn(output.shape, generator=torch.Generator().manual_seed(1), dtype=output.dtype)
    return [output.detach(), *torch.autograd.grad(output, tensors, cotangent)]


def masks(length):
    """Return rows with padding nowhere, right, left and in between, and one with a single token."""
    mask = torch.ones(5, length, dtype=torch.long)
    mask[1, length // 2 :] = 0
    mask[2, : length // 3] = 0
    mask[3] = torch.rand(length, generator=torch.Generator().manual_seed(5)) < 0.7
    mask[4] = 0
    mask[4, length // 2] = 1
    return mask


def window_of(tokens, width, global_tokens=0, dilation=1):
    """Return whom each token sees, one after the other."""
    seen = torch.zeros(tokens, tokens, dtype=torch.bool)
    for token in range(tokens):
        seen[token, token] = True
        for step in range(1, width // 2 + 1):
            for other in (token - step * dilation, token + step * dilation):
                if 0 <= other < tokens:
                    seen[token, other] = True
    seen[:global_tokens] = True
    seen[:, :global_tokens] = True
    return seen


def strided_of(tokens, stride):
    """Return whom each token sees, one after the other."""
    seen = torch.zeros(tokens, tokens, dtype=torch.bool)
    for token in range(tokens):
        seen[token, max(0, token - stride + 1) : token + stride] = True
        seen[token, token % stride :: stride] = True
    return seen


def bigbird_of(tokens, block_size, window_blocks, global_blocks, random_blocks):
    """Return whom each token sees; of random blocks alone what is drawn is the mechanism's."""
    count = -(-tokens // block_size)
    drawn = bigbird(block_size, window_blocks, global_blocks, random_blocks).lists(count)
    seen = torch.zeros(HEADS, count, count, dtype=torch.bool)
    first, last = (global_blocks + 1) // 2, global_blocks // 2
    few = {block for block in range(count) if block < first or block >= count - last}
    for head in range(HEADS):
        for block in range(count):
            near = {other for other in range(count) if abs(other - block) <= window_blocks // 2}
            chosen = {int(other) for other in drawn[head, block] if other >= 0} - near - few
            assert len(chosen) == (0 if block in few else min(random_blocks, count - len(near | few)))
            sees = range(count) if block in few else sorted(near | few | chosen)
            seen[head, block, sees] = True
    ranks = torch.arange(tokens) // block_size
    return seen[:, ranks][:, :, ranks]


def bigbird(*settings):
    names = ("block_size", "window_blocks", "global_blocks", "random_blocks")
    return made({"kind": "bigbird", **dict(zip(names, settings, strict=True))})


PATTERNS = {
    "window-w2-g0": (window_of, {"width": 2}),
    "window-w36-g0": (window_of, {"width": 36}),
    "window-w130-g1": (window_of, {"width": 130, "global_tokens": 1}),
    "window-w8-g5-d3": (window_of, {"width": 8, "global_tokens": 5, "dilation": 3}),
    "window-w6-g70-d500": (window_of, {"width": 6, "global_tokens": 70, "dilation": 500}),
    "strided-s2": (strided_of, {"stride": 2}),
    "strided-s12": (strided_of, {"stride": 12}),
    "strided-s70": (strided_of, {"stride": 70}),
    "strided-s500": (strided_of, {"stride": 500}),
} | {
    f"bigbird-b{size}-w{window}-g{few}-r{drawn}": (
        bigbird_of,
        {"block_size": size, "window_blocks": window, "global_blocks": few, "random_blocks": drawn},
    )
    for size, window, few, drawn in ((8, 3, 2, 3), (7, 1, 0, 0), (16, 1, 3, 2), (4, 5, 1, 30), (64, 3, 2, 3))
}
"""Who sees whom by settings, and the settings, by name of the mechanism."""


SPARSE = {
    "window": {"kind": "window", "width": 32, "global_tokens": 2},
    "strided": {"kind": "strided", "stride": 48},
    "bigbird": {"kind": "bigbird", "block_size": 32, "random_blocks": 2},
}
"""One of each kind that sees few of many tokens."""


@pytest.mark.parametrize("name", PATTERNS)
def test_pairs_seen_by_ranks(name, monkeypatch):
    """By one call under a dense mask, and by blocks."""
    pattern, settings = PATTERNS[name]
    monkeypatch.setattr(computation.BlockSparse, "_is_dense_at", lambda self, tokens: True)
    monkeypatch.setattr(contract.Attention, "is_exact_at", lambda self, query: False)
    for way in ("one call", "blocks"):
        if way == "blocks":
            without_shortcuts(monkeypatch)
        for length in (1, 16, 150):
            mechanism = made({"kind": name.split("-")[0], **settings})
            assert mechanism.settings.name() == name
            mask, tensors = masks(length), rows(5, length)
            found = with_gradients(lambda *each: mechanism(*each, mask), tensors)  # noqa: B023 - called at once
            spread = torch.zeros_like(found[0])
            for row, real in enumerate(mask.bool()):
                few = [tensor[row : row + 1, :, real] for tensor in tensors]
                seen = pattern(int(real.sum()), **settings)
                spread[row, :, real] = functional.scaled_dot_product_attention(*few, attn_mask=seen)
            torch.testing.assert_close(found[0], spread, atol=1e-5, rtol=1e-5)
            cotangent = torch.randn(spread.shape, generator=torch.Generator().manual_seed(1))
            for mine, theirs in zip(found[1:], torch.autograd.grad(spread, tensors, cotangent), strict=True):
                torch.testing.assert_close(mine, theirs, atol=5e-5, rtol=5e-5)


@pytest.mark.parametrize("kind", SPARSE)
def test_gradients_with_dropout(kind, monkeypatch):
    """They are those of what was drawn, and the mean of the values stays."""
    without_shortcuts(monkeypatch)
    mechanism = made(SPARSE[kind], dropout=0.4, head_size=2).train()

    def attend(*tensors):
        torch.manual_seed(0)
        return mechanism(*tensors)

    tensors = rows(1, 9, 2, dtype=torch.float64)
    assert not torch.allclose(attend(*tensors), mechanism.eval()(*tensors))
    mechanism.train()
    assert torch.autograd.gradcheck(attend, tensors, fast_mode=True)
    query, key, _ = rows(4, 200, 2)
    output = attend(query, key, torch.ones_like(query))
    assert output.std() > 0.01
    assert output.mean().item() == pytest.approx(1, abs=0.02)
