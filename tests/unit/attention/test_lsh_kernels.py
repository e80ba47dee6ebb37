"""The kernels run compiled where there is a GPU, elsewhere by Triton's interpreter."""

import importlib

import pytest
import torch
from torch.nn import functional

from lib.advice.cost import KeptBytes
from lib.attention.contract import build
from lib.attention.lsh.reference import reference
from lib.attention.settings import MECHANISMS
from lib.core.errors import RunError

triton = pytest.importorskip("triton", reason="without triton: make .venv/.kernels")
tl = importlib.import_module("triton.language")
kernels = importlib.import_module("lib.attention.lsh.kernels")  # an error of its own is no reason to skip
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
HEADS = 2
SLOPES = (0.5, 0.0625)
CASES = {  # chunk, rounds, bucket mask, head width, slopes, tokens
    "lonely": (4, 2, True, 16, None, 1),
    "one short chunk": (64, 1, False, 32, None, 20),
    "tiles over many chunks": (3, 3, True, 5, SLOPES, 50),
    "tiles over some chunks": (8, 2, False, 32, None, 70),
    "tiles within chunks": (64, 1, False, 64, SLOPES, 150),
    "wide": (8, 1, True, 128, None, 40),
}


def lsh(chunk=8, rounds=2, masked=False, width=16, **changes):
    values = {"kind": "lsh", "num_hashes": rounds, "chunk_size": chunk, "mask_within_chunks": masked}
    arguments = {"num_heads": HEADS, "head_size": width, "layer": 1, "seed": 3} | changes
    mechanism = build(MECHANISMS.parse(values), **arguments).eval()
    mechanism.kernels = "triton"
    return mechanism


def draw(batch, length, width=16, seed=0, dtype=torch.float32):
    """Return rows as a model has them: the heads of a token beside each other."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, length, HEADS, width, generator=generator).to(DEVICE, dtype).transpose(1, 2)


def masks(length):
    """Return a mask of four rows: all real, padded right, padded at random, none real."""
    mask = torch.ones(4, length, dtype=torch.long)
    mask[1, (2 * length + 2) // 3 :] = 0
    mask[2] = torch.rand(length, generator=torch.Generator().manual_seed(length)) < 0.6
    mask[3] = 0
    return mask.to(DEVICE)


def run(function, query, value, cotangent):
    """Return the output and the gradients of query and value, in float64."""
    query, value = query.detach().requires_grad_(), value.detach().requires_grad_()
    output = function(query, query, value)
    gradients = torch.autograd.grad((output * cotangent.to(output.dtype)).sum(), (query, value))
    return [part.detach().double() for part in (output, *gradients)]


@pytest.fixture(scope="module", params=CASES)
def case(request):
    """A mechanism, its arguments, and what comes out by kernels: output and gradients."""
    chunk, rounds, masked, width, slopes, length = CASES[request.param]
    mechanism, mask = lsh(chunk, rounds, masked, width, slopes=slopes), masks(length)
    rows = [draw(4, length, width, seed) for seed in range(3)]
    return mechanism, rows, mask, run(lambda *rows: mechanism(*rows, mask), *rows)


def test_output_and_gradients_equal_the_reference(case):
    mechanism, rows, mask, actual = case
    assert mechanism.computed_by == "triton"
    expected = run(lambda *rows: reference(mechanism, *rows, mask), *(part.double() for part in rows))
    for mine, theirs in zip(actual, expected, strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-5, rtol=1e-5)


def test_everything_repeats_bit_by_bit():
    mechanism, mask = lsh(chunk=4, rounds=3), masks(40)
    rows = [draw(4, 40, seed=seed) for seed in range(3)]
    expected = run(lambda *rows: mechanism(*rows, mask), *rows)
    again = run(lambda *rows: mechanism(*rows, mask), *(part.contiguous() for part in rows))
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(again, expected, strict=True))
    # Nor does it matter where a row stands in the batch.
    alone = run(lambda *rows: mechanism(*rows, mask[2:3]), *(part[2:3] for part in rows))
    assert all(torch.equal(mine, theirs[2:3]) for mine, theirs in zip(alone, expected, strict=True))


def test_no_mask_is_a_mask_of_ones(case):
    mechanism, rows, _, expected = case
    actual = run(mechanism, *(part[:1] for part in rows))
    for mine, theirs in zip(actual, expected, strict=True):
        torch.testing.assert_close(mine, theirs[:1], atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize(("place", "masked"), [("left", False), ("middle", True), ("scattered", False)])
def test_padding_is_exact(place, masked):
    mechanism, length, longer = lsh(chunk=4, masked=masked), 19, 44
    kept = {
        "left": torch.arange(longer - length, longer),
        "middle": torch.cat([torch.arange(9), torch.arange(longer - length + 9, longer)]),
        "scattered": torch.randperm(longer, generator=torch.Generator().manual_seed(5))[:length].sort().values,
    }[place].to(DEVICE)
    alone = [draw(1, length, seed=seed) for seed in range(3)]
    mask = torch.zeros(2, longer, device=DEVICE)
    mask[0], mask[1, kept] = 1, 1
    padded = [draw(2, longer, seed=seed) for seed in range(3, 6)]
    for rows, content, row in zip(padded, (float("nan"), float("inf"), 0.0), alone, strict=True):
        rows[1] = content
        rows[1, :, kept] = row[0]
    actual = run(lambda *rows: mechanism(*rows, mask), *padded)
    for mine, theirs in zip(actual, run(mechanism, *alone), strict=True):
        torch.testing.assert_close(mine[1:, :, kept], theirs, atol=1e-6, rtol=1e-6)
        assert (mine[1, :, mask[1] == 0] == 0).all()


# The hash


def sorted_tokens(mechanism, query, real):
    """Return buckets and tokens in sorted order, by kernels."""
    rotations = mechanism.rotations(mechanism._columns(query.shape[2]), DEVICE)
    counts = None if real is None else real.sum(-1)
    packed = kernels.sort(query, real, counts, rotations, mechanism.settings.chunk_size)
    bits = kernels.bits_of(query.shape[2])
    return packed >> bits, packed & ((1 << bits) - 1)


@pytest.mark.parametrize("length", [1, 2, 65, 130])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_tokens_are_sorted_by_the_hash_of_the_torch_path(length, dtype):
    mechanism, query = lsh(chunk=3, rounds=3, width=5), draw(4, length, 5, dtype=dtype)
    query = query.masked_fill(masks(length)[:, None, :, None] == 0, 0)
    for real in (masks(length).bool(), None):
        shown = torch.ones(4, length, dtype=torch.bool, device=DEVICE) if real is None else real
        buckets, order = mechanism.hash(query, shown).sort(dim=-1, stable=True)
        mine, tokens = sorted_tokens(mechanism, query, real)
        assert torch.equal(tokens, order.flatten(0, 1).to(tokens.dtype))
        first = torch.arange(length, device=DEVICE) < shown.sum(-1)[:, None, None, None]
        first = first.expand(buckets.shape)
        assert torch.equal(mine.view(buckets.shape)[first], buckets[first].to(mine.dtype))
        assert (mine.view(buckets.shape)[~first] >= 2 * mechanism._columns(length)).all()


@pytest.mark.slow
def test_a_few_tokens_in_a_very_long_row():
    # Buckets and tokens need more than 32 bits together.
    length, places = 2**15 + 1, [0, 7, 30_000, 2**15]
    mechanism, query = lsh(chunk=1, rounds=1, width=4), torch.zeros(1, HEADS, length, 4, device=DEVICE)
    rows = draw(1, len(places), 4)
    query[:, :, places] = rows
    mask = torch.zeros(1, length, device=DEVICE)
    mask[0, places] = 1
    assert sorted_tokens(mechanism, query, mask.bool())[0].dtype == torch.int64
    output = mechanism(query, query, query, mask)
    torch.testing.assert_close(output[:, :, places], mechanism(rows, rows, rows))
    assert output.count_nonzero() == rows.numel()


# Dropout


@pytest.fixture(scope="module")
def dropped():
    """A mechanism in training, rows, and the N x N matrix that it applies to the values, with and without dropout."""
    mechanism, length, width = lsh(rounds=1, dropout=0.4).train(), 80, 16
    query = draw(2, length)
    whole = mechanism.weights(query, query)
    columns = torch.eye(length, device=DEVICE).split(width, dim=1)
    parts = []
    for part in columns:
        torch.manual_seed(5)
        parts.append(mechanism(query, query, part.expand(query.shape)))
    return mechanism, query, whole, torch.cat(parts, dim=-1)


def test_what_is_kept_is_scaled_and_as_frequent_as_it_should_be(dropped):
    _, _, whole, weights = dropped
    kept = weights > 0
    torch.testing.assert_close(weights[kept], whole[kept] / 0.6, atol=1e-6, rtol=1e-5)
    assert not (kept & (whole == 0)).any()
    assert kept.sum().item() / (whole > 0).sum().item() == pytest.approx(0.6, abs=0.03)
    # Sequences, heads and both directions of a pair draw for themselves.
    flat = kept.flatten(0, 1).double()
    seen = (whole > 0).flatten(0, 1)
    others = [*flat.roll(1, 0), *flat.transpose(1, 2)]
    for mine, theirs, pairs in zip([*flat, *flat], others, [*seen, *seen], strict=True):
        both = pairs & (theirs >= 0)
        assert (mine[both] == theirs[both]).double().mean().item() < 0.75


@triton.jit
def write_draws(out, seed, stream, SIZE: tl.constexpr, DROPPED: tl.constexpr):
    """Write whether the weights of all pairs of ranks are kept, both ways."""
    ranks = tl.arange(0, SIZE)
    kept, back = kernels._drawn(seed, ranks[:, None], ranks[None, :], stream, DROPPED)
    places = out + ranks[:, None] * SIZE + ranks[None, :]
    tl.store(places, kept.to(tl.float32))
    tl.store(places + SIZE * SIZE, back.to(tl.float32))


def test_draws_of_dropout_are_uniform_and_independent():
    size, share = 256, 0.25
    draws = []
    for seed, stream in ((2**62 + 1, 0), (2**62 + 1, 1), (2**62 + 2, 0)):
        out = torch.empty(2, size, size, device=DEVICE)
        write_draws[(1,)](out, seed, stream, SIZE=size, DROPPED=round(share * 2**32))
        kept, back = out.cpu().double()
        assert torch.equal(kept.fill_diagonal_(0), back.T.fill_diagonal_(0))  # one draw, seen from both sides
        draws.append(kept)
    off = ~torch.eye(size, dtype=torch.bool)
    error = (share * (1 - share) / off.sum()) ** 0.5  # standard error of a share
    for kept in draws:
        assert abs(kept[off].mean() - (1 - share)) < 4 * error
        by_row = kept.sum(1) / (size - 1)
        assert abs(by_row.std() / (share * (1 - share) / (size - 1)) ** 0.5 - 1) < 0.2
    first = draws[0] - (1 - share)
    # The other direction, neighbours in rows and columns, another round or head, another seed.
    others = [first.T, first.roll(1, 0), first.roll(1, 1), *(each - (1 - share) for each in draws[1:])]
    for other in others:
        both = off & off.roll(1, 0) & off.roll(1, 1)
        correlation = (first * other)[both].mean() / (share * (1 - share))
        assert abs(correlation) < 4 / both.sum() ** 0.5


def test_the_backward_pass_drops_what_the_forward_pass_dropped(dropped):
    mechanism, query, whole, weights = dropped
    value, cotangent = draw(2, 80, seed=1), draw(2, 80, seed=2)

    def truth(query, _, value):
        scores = (query @ query.transpose(-1, -2) / 4).masked_fill(whole == 0, float("-inf"))
        return (scores.softmax(-1) * (weights > 0) / 0.6) @ value

    torch.manual_seed(5)
    actual = run(mechanism, query, value, cotangent)
    expected = run(truth, query.double(), value.double(), cotangent.double())
    for mine, theirs in zip(actual, expected, strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-5, rtol=1e-5)


def test_dropout_follows_the_global_generator():
    mechanism, rows = lsh(dropout=0.5).train(), [draw(1, 40, seed=seed) for seed in range(3)]
    torch.manual_seed(1)
    first, second = run(mechanism, *rows), run(mechanism, *rows)
    assert not any(torch.equal(one, other) for one, other in zip(first, second, strict=True))
    torch.manual_seed(1)
    again = run(mechanism, *rows)
    assert all(torch.equal(one, other) for one, other in zip(first, again, strict=True))


def test_rounds_drop_for_themselves():
    query = draw(1, 40)
    ones = torch.ones_like(query)
    # With equal draws in every round, outputs would vary as those of one round.
    deviations = []
    for rounds in (1, 8):
        torch.manual_seed(2)
        # One chunk: the rounds differ in the order of tokens, and in what is dropped.
        deviations.append((lsh(chunk=64, rounds=rounds, dropout=0.5).train()(query, query, ones) - 1).std().item())
    assert deviations[1] < 0.6 * deviations[0]


# Precision and memory


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_as_near_to_the_truth_as_that_of_exact_attention(dtype):
    mechanism, length, width = lsh(chunk=64, width=64), 128, 64  # one window covers all
    rows = [draw(2, length, width, seed, dtype) for seed in range(3)]
    others = ~torch.eye(length, dtype=torch.bool, device=DEVICE)

    def exact(query, key, value):
        return functional.scaled_dot_product_attention(query, key, value, attn_mask=others)

    truth = run(exact, *(part.double() for part in rows))
    actual, published = run(mechanism, *rows), run(exact, *rows)
    # The interpreter cuts bfloat16 off where a GPU rounds.
    allowed = 3 if dtype is torch.bfloat16 and DEVICE.type == "cpu" else 1.05
    for mine, theirs, true in zip(actual, published, truth, strict=True):
        assert (mine - true).norm() <= allowed * (theirs - true).norm()


@pytest.mark.parametrize("width", [32, 64, 128])
@pytest.mark.parametrize(("chunk", "rounds"), [(64, 2), (64, 4)])
def test_no_more_is_kept_than_exact_attention_keeps(chunk, rounds, width):
    def kept(function, copies):
        rows = [draw(1, 64, width, seed, torch.bfloat16).requires_grad_() for seed in range(copies)]
        with KeptBytes() as counted:
            function(rows[0], rows[0] if copies == 2 else rows[1], rows[-1])
        return counted.total

    rows, sums = 64 * HEADS * width * 2, 64 * HEADS * 4
    exact = 4 * rows + sums  # query, key, value, output and normalisers
    mine = kept(lsh(chunk, rounds, masked=True, width=width), 2)
    assert mine == 2 * rows + rounds * 2 * sums  # query, value, order and normalisers
    assert mine <= exact


# The contract


@pytest.mark.parametrize("masked", [False, True])
def test_weights_are_what_is_applied_to_the_values(masked):
    mechanism, query, value, mask = lsh(chunk=4, masked=masked), draw(4, 26), draw(4, 26, seed=1), masks(26)
    weights = mechanism.weights(query, query, mask)
    assert mechanism.computed_by == "triton"
    torch.testing.assert_close(weights @ value, mechanism(query, query, value, mask), atol=1e-5, rtol=1e-5)
    mechanism.kernels = "torch"
    torch.testing.assert_close(weights, mechanism.weights(query, query, mask), atol=1e-6, rtol=1e-5)


def test_alibi_moved_in_inference_mode_serves_training():
    mechanism, query = lsh(slopes=SLOPES), draw(1, 20)
    with torch.inference_mode():
        mechanism(query, query, query)
    query.requires_grad_()
    mechanism.train()(query, query, query).sum().backward()
    assert query.grad.isfinite().all()


def test_a_batch_without_rows_is_left_to_torch():
    mechanism, empty = lsh(), torch.empty(0, HEADS, 5, 16, device=DEVICE)
    assert mechanism(empty, empty, empty).shape == empty.shape
    assert mechanism.computed_by == "torch"


def test_heads_that_are_too_wide_are_refused():
    query = draw(1, 4, 129)
    with pytest.raises(RunError, match=r"heads are 129 wide. Expected 128 at most; use 'auto' or 'torch'"):
        lsh(width=129)(query, query, query)
