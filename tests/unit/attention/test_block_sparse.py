"""What `window`, `bigbird` and `strided` share: who sees whom by the ranks of real tokens, and what it costs."""

import time

import pytest
import torch
from mechanism_cases import without_shortcuts
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from lib.attention import contract
from lib.attention.block_sparse import computation
from lib.attention.contract import build
from lib.attention.settings import MECHANISMS

HEADS = 2
WAYS = ["blocks", "one call"]


@pytest.fixture(autouse=True)
def _way(request, monkeypatch):
    """Compute by blocks unless a test asks for one call under a dense mask, as short texts are computed."""
    if getattr(request.node, "callspec", None) and request.node.callspec.params.get("way") == "one call":
        monkeypatch.setattr(computation.BlockSparse, "_is_dense_at", lambda self, tokens: True)
        monkeypatch.setattr(contract.Attention, "is_exact_at", lambda self, query: False)
    else:
        without_shortcuts(monkeypatch)


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

COVERING = {
    "window": {"kind": "window", "width": 298},
    "window-dilated": {"kind": "window", "width": 2, "global_tokens": 150, "dilation": 2},
    "strided": {"kind": "strided", "stride": 1},
    "strided-far": {"kind": "strided", "stride": 150},
    "bigbird": {"kind": "bigbird", "block_size": 16, "random_blocks": 10},
    "bigbird-global": {"kind": "bigbird", "block_size": 16, "window_blocks": 1, "global_blocks": 20},
}
"""Mechanisms by which each of 150 tokens sees all."""

SPARSE = {
    "window": {"kind": "window", "width": 32, "global_tokens": 2},
    "strided": {"kind": "strided", "stride": 48},
    "bigbird": {"kind": "bigbird", "block_size": 32, "random_blocks": 2},
}
"""One of each kind that sees few of many tokens."""


@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize("length", [1, 16, 150])
@pytest.mark.parametrize("way", WAYS)
def test_tokens_see_each_other_by_their_ranks(way, name, length):
    pattern, settings = PATTERNS[name]
    mechanism = made({"kind": name.split("-")[0], **settings})
    assert mechanism.settings.name() == name
    mask = masks(length)
    tensors = rows(len(mask), length)
    found = with_gradients(lambda *each: mechanism(*each, mask), tensors)
    expected = []
    for row, real in enumerate(mask.bool()):
        seen = pattern(int(real.sum()), **settings)
        few = [tensor[row : row + 1, :, real] for tensor in tensors]
        expected.append(functional.scaled_dot_product_attention(*few, attn_mask=seen))
    spread = torch.zeros_like(found[0])
    for row, real in enumerate(mask.bool()):
        spread[row, :, real] = expected[row][0]
    torch.testing.assert_close(found[0], spread, atol=1e-5, rtol=1e-5)
    cotangent = torch.randn(spread.shape, generator=torch.Generator().manual_seed(1))
    for mine, theirs in zip(found[1:], torch.autograd.grad(spread, tensors, cotangent), strict=True):
        torch.testing.assert_close(mine, theirs, atol=5e-5, rtol=5e-5)


@pytest.mark.parametrize("name", COVERING)
@pytest.mark.parametrize("way", WAYS)
def test_it_is_exact_attention_where_a_token_sees_all(way, name):
    tensors, mask = rows(5, 150), masks(150)
    exact, mechanism = made({"kind": "sdpa"}), made(COVERING[name])
    expected = with_gradients(lambda *each: exact(*each, mask), tensors)
    for mine, theirs in zip(with_gradients(lambda *each: mechanism(*each, mask), tensors), expected, strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", SPARSE)
@pytest.mark.parametrize("width", [32, 64, 80])
@pytest.mark.parametrize("way", WAYS)
def test_heads_of_any_width(way, kind, width):
    mechanism, mask = made(SPARSE[kind], head_size=width), masks(70)
    tensors = rows(5, 70, width, dtype=torch.float64)
    weights = mechanism.weights(*tensors[:2], mask)
    torch.testing.assert_close(mechanism(*tensors, mask), weights @ tensors[2])
    scores = (tensors[0] @ tensors[1].mT / width**0.5).masked_fill(weights == 0, float("-inf"))
    real = mask[:, None, :, None].bool()
    torch.testing.assert_close(weights, scores.softmax(-1).where(real, 0.0))


@pytest.mark.parametrize("kind", SPARSE)
def test_long_texts_and_dropout_are_computed_by_blocks(kind, monkeypatch):
    monkeypatch.undo()
    mechanism = made(SPARSE[kind], num_heads=1, dropout=0.5)
    monkeypatch.setattr(computation, "_AttendToBlocks", None)
    mechanism(*(each[:, :1] for each in rows(1, 256)))
    with pytest.raises(AttributeError):
        mechanism(*(each[:, :1] for each in rows(1, 1_024)))
    with pytest.raises(AttributeError):
        mechanism.train()(*(each[:, :1] for each in rows(1, 256)))


@pytest.mark.parametrize("kind", SPARSE)
def test_gradients_with_dropout_are_those_of_what_was_drawn(kind):
    mechanism = made(SPARSE[kind], dropout=0.4, head_size=2).train()

    def attend(*tensors):
        torch.manual_seed(0)
        return mechanism(*tensors)

    tensors = rows(1, 9, 2, dtype=torch.float64)
    assert not torch.allclose(attend(*tensors), mechanism.eval()(*tensors))
    mechanism.train()
    assert torch.autograd.gradcheck(attend, tensors, fast_mode=True)


@pytest.mark.parametrize(
    "values", [{"kind": "window", "width": 2, "global_tokens": 1}, {"kind": "strided", "stride": 2}]
)
def test_weights_are_dropped_independently_of_each_other(values):
    mechanism = made(values, num_heads=1, head_size=6, dropout=0.5).train()
    alike, value = torch.ones(1, 1, 6, 6), torch.eye(6)[None, None]
    kept = []
    for seed in range(200):
        torch.manual_seed(seed)
        kept.append(mechanism(alike, alike, value).flatten() > 0)
    seen = mechanism.weights(alike, alike).flatten() > 0
    kept = torch.stack(kept)[:, seen].float()
    correlations = torch.corrcoef(kept.T) - torch.eye(int(seen.sum()))
    assert correlations.abs().max() < 0.5
    torch.testing.assert_close(kept.mean(0), torch.full_like(kept[0], 0.5), atol=0.15, rtol=0)


@pytest.mark.parametrize("kind", SPARSE)
def test_dropout_keeps_the_mean(kind):
    query, key, _ = rows(4, 200)
    mechanism = made(SPARSE[kind], dropout=0.25).train()
    torch.manual_seed(0)
    output = mechanism(query, key, torch.ones_like(query))
    assert output.std() > 0.01
    assert output.mean().item() == pytest.approx(1, abs=0.01)


class Largest(TorchDispatchMode):
    """Records the most numbers that a tensor has."""

    numbers = 0

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        made = function(*arguments, **(keywords or {}))
        for tensor in made if isinstance(made, (tuple, list)) else [made]:
            if isinstance(tensor, torch.Tensor):
                self.numbers = max(self.numbers, tensor.untyped_storage().nbytes() // tensor.element_size())
        return made


@pytest.mark.parametrize("kind", SPARSE)
def test_no_tensor_grows_with_the_square_of_the_tokens(kind, monkeypatch):
    monkeypatch.setitem(computation.SCORES, "cpu", 2**12)
    mechanism = made(SPARSE[kind], num_heads=1)
    largest = []
    for length in (2_048, 4_096):
        tensors = [each[:, :1] for each in rows(1, length)]
        with Largest() as recorded:
            with_gradients(mechanism, tensors)
        largest.append(recorded.numbers)
    assert largest[1] <= 2.1 * largest[0]
    assert largest[1] < 4_096**2 / 16


@pytest.mark.parametrize("kind", SPARSE)
def test_it_takes_less_time_than_exact_attention(kind):
    tensors = rows(1, 4_096, 64)
    seconds = {}
    for _ in range(2):
        for values in ({"kind": "sdpa"}, SPARSE[kind]):
            mechanism, start = made(values, head_size=64).train(), time.process_time()
            with_gradients(mechanism, tensors)
            seconds.setdefault(values["kind"], []).append(time.process_time() - start)
    assert min(seconds[kind]) < min(seconds["sdpa"]) / 2, seconds
