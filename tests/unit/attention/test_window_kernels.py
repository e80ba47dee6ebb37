"""The Triton kernels of windows, interpreted where there is no GPU and compiled where there is one."""

import importlib

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from lib.advice.cost import KeptBytes
from lib.attention.contract import build
from lib.attention.settings import MECHANISMS
from lib.attention.window.reference import reference
from lib.core.errors import RunError

pytest.importorskip("triton", reason="without triton: make .venv/.kernels")
kernels = importlib.import_module("lib.attention.window.kernels")  # an error of its own is no reason to skip

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
HEADS = 2
SLOPES = (0.5, 0.0625)
CASES = {  # width, global tokens, head width, slopes, tokens
    "lonely": (16, 0, 16, None, 1),
    "a window beyond the text": (128, 0, 16, SLOPES, 40),
    "windows within tiles": (16, 0, 32, None, 70),
    "windows over tiles": (128, 0, 64, None, 140),
    "tiles wholly within windows": (64, 0, 80, None, 75),
    "tiles of which all but one pair is near": (30, 0, 80, None, 55),
    "wide heads": (16, 1, 128, None, 40),
    "one global token": (16, 1, 16, SLOPES, 70),
    "several": (64, 3, 5, None, 110),
    "tiles of global tokens": (8, 40, 16, SLOPES, 90),
    "as many as the text has": (8, 5, 8, None, 5),
    "more than the text has": (8, 9, 8, None, 3),
}


def window(width=16, global_tokens=0, size=16, **changes):
    values = {"kind": "window", "width": width, "global_tokens": global_tokens, "dilation": changes.pop("dilation", 1)}
    arguments = {"num_heads": HEADS, "head_size": size, "layer": 0, "seed": 3} | changes
    mechanism = build(MECHANISMS.parse(values), **arguments).eval()
    mechanism.kernels = "triton"
    return mechanism


def rows(number, batch, length, size=16, dtype=torch.float32):
    """Return tensors of standard normal numbers as a model has them: the heads of a token beside each other."""
    generator = torch.Generator().manual_seed(0)
    shape = (batch, length, HEADS, size)
    return [torch.randn(shape, generator=generator).to(DEVICE, dtype).transpose(1, 2) for _ in range(number)]


def masks(length):
    """Return a mask of six rows: all real, padded right, left, in the middle, at random, all padding."""
    mask = torch.ones(6, length, dtype=torch.long)
    mask[1, (2 * length + 2) // 3 :] = 0
    mask[2, : length // 3] = 0
    mask[3, length // 5 : length // 2] = 0
    mask[4] = torch.rand(length, generator=torch.Generator().manual_seed(length)) < 0.6
    mask[5] = 0
    return mask.to(DEVICE)


def run(function, tensors, cotangent):
    """Return the output and the gradients of query, key and value."""
    leaves = [tensor.detach().requires_grad_() for tensor in tensors]
    output = function(*leaves)
    return [output.detach(), *torch.autograd.grad(output, leaves, cotangent.to(output.dtype))]


def truth(mechanism, tensors, mask, cotangent):
    exact = [tensor.double() for tensor in tensors]
    return run(lambda *leaves: reference(mechanism, *leaves, mask), exact, cotangent)


def assert_near(actual, expected, tolerance=1e-5):
    for mine, theirs in zip(actual, expected, strict=True):
        torch.testing.assert_close(mine.double(), theirs.double(), atol=tolerance, rtol=tolerance)


def assert_as_the_reference(mechanism, tensors, mask, cotangent, tolerance=1e-5):
    """Compare with the reference, which gets zeros where the kernels get nan and infinity: at padding."""
    real = mask.bool()[:, None, :, None]
    expected = truth(mechanism, [tensor.where(real, 0) for tensor in tensors], mask, cotangent.where(real, 0))
    holding = zip((*tensors, cotangent), (float("nan"), float("inf"), float("nan"), float("nan")), strict=True)
    *padded, cotangent = (tensor.where(real, content) for tensor, content in holding)
    actual = run(lambda *leaves: mechanism(*leaves, mask), padded, cotangent)
    assert mechanism.computed_by == "triton"
    assert_near(actual, expected, tolerance)
    for part in actual:
        assert (part.movedim(2, 1)[mask == 0] == 0).all()


@pytest.mark.parametrize("name", CASES)
def test_output_and_gradients_equal_the_reference_wherever_padding_stands(name):
    width, global_tokens, size, slopes, length = CASES[name]
    *tensors, cotangent = rows(4, 6, length, size)
    assert_as_the_reference(window(width, global_tokens, size, slopes=slopes), tensors, masks(length), cotangent)


@pytest.mark.parametrize("name", CASES)
def test_without_padding_none_is_looked_for(name):
    width, global_tokens, size, slopes, length = CASES[name]
    mechanism = window(width, global_tokens, size, slopes=slopes)
    *tensors, cotangent = rows(4, 1, length, size)
    expected = truth(mechanism, tensors, torch.ones(1, length, device=DEVICE), cotangent)
    assert_near(run(mechanism, tensors, cotangent), expected)
    assert mechanism.computed_by == "triton"


@pytest.mark.parametrize("global_tokens", [1, 3, 40])
def test_global_tokens_see_and_are_seen_in_parts_even_where_a_part_is_padding_only(global_tokens, monkeypatch):
    monkeypatch.setattr(kernels, "PART", 20)
    length, mask = 90, masks(90)[[1, 4]]
    mask[1, 13:75] = 0
    *tensors, cotangent = rows(4, 2, length)
    assert_as_the_reference(window(8, global_tokens, slopes=SLOPES), tensors, mask, cotangent)


@pytest.mark.parametrize("length", [1, 7, 2048, 2500])
def test_tokens_are_ordered_by_their_ranks(length):
    real = masks(length).bool()
    order, counts = kernels.order_of(real)
    assert torch.equal(counts.long(), real.sum(-1))
    for row, number in enumerate(counts.tolist()):
        assert torch.equal(order[row, :number].long(), real[row].nonzero()[:, 0])
    assert torch.equal(order.sort(-1).values.long(), torch.arange(length, device=DEVICE).expand(6, -1))


@pytest.mark.parametrize("global_tokens", [0, 2])
def test_everything_repeats_bit_by_bit(global_tokens, monkeypatch):
    monkeypatch.setattr(kernels, "PART", 20)
    mechanism, mask = window(8, global_tokens), masks(45)[3:]
    *tensors, cotangent = rows(4, 3, 45, dtype=torch.float16)
    first, second = (run(lambda *leaves: mechanism(*leaves, mask), tensors, cotangent) for _ in range(2))
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(first, second, strict=True))
    # Nor does it matter where a row stands in the batch.
    alone = [tensor[1:2] for tensor in (*tensors, cotangent)]
    third = run(lambda *leaves: mechanism(*leaves, mask[1:2]), alone[:3], alone[3])
    assert all(torch.equal(mine, theirs[1:2]) for mine, theirs in zip(third, first, strict=True))


def test_any_layout_of_the_inputs_will_do():
    mechanism = window(8, 2)
    *tensors, cotangent = rows(4, 1, 37)
    expected = run(mechanism, tensors, cotangent)
    allowed = 1e-6 if DEVICE == "cuda" else 0  # compiled for each layout, sums may be in another order
    for change in (torch.Tensor.contiguous, lambda each: each.mT.contiguous().mT):
        *changed, of_output = map(change, (*tensors, cotangent))
        assert_near(run(mechanism, changed, of_output), expected, allowed)
    ones = torch.ones((), device=DEVICE).expand(cotangent.shape)
    assert_near(run(mechanism, tensors, ones), run(mechanism, tensors, ones.contiguous()), allowed)


# The interpreter cuts numbers to bfloat16 instead of rounding them, which errs twice as much, always to the same side.
FACTORS = {torch.float16: 1.5, torch.bfloat16: 1.5 if DEVICE == "cuda" else 6.0}


@pytest.mark.parametrize("dtype", FACTORS)
@pytest.mark.parametrize("size", [64, 80])
def test_half_precision_errs_as_little_as_exact_attention(dtype, size):
    mechanism, length = window(32, 1, size), 150
    ranks = torch.arange(length, device=DEVICE)
    seen = ((ranks[:, None] - ranks).abs() <= 16) | (ranks == 0) | (ranks == 0)[:, None]

    def exact(*leaves):
        return scaled_dot_product_attention(*leaves, attn_mask=seen)

    *tensors, cotangent = rows(4, 1, length, size, dtype)
    expected = run(exact, [tensor.double() for tensor in tensors], cotangent)
    actual, published = run(mechanism, tensors, cotangent), run(exact, tensors, cotangent)
    for mine, theirs, true in zip(actual, published, expected, strict=True):
        assert (mine.double() - true).norm() <= FACTORS[dtype] * (theirs.double() - true).norm()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_norms_up_to_fifty_stay_finite(dtype):
    *tensors, cotangent = rows(4, 6, 40)
    for tensor in tensors[:2]:
        tensor *= 50 / tensor.norm(dim=-1, keepdim=True)
        tensor[:, :, ::3] *= 0.01
    tensors, mechanism, mask = [tensor.to(dtype) for tensor in tensors], window(16, 1), masks(40)
    for part in run(lambda *leaves: mechanism(*leaves, mask), tensors, cotangent):
        assert part.isfinite().all()


def test_types_may_differ_as_they_do_under_autocast():
    mechanism = window(16, 1)
    *tensors, cotangent = rows(4, 1, 40)
    tensors[2] = tensors[2].half()
    actual = run(mechanism, tensors, cotangent)
    assert [part.dtype for part in actual] == [torch.float16, torch.float32, torch.float32, torch.float16]
    assert_near(actual, truth(mechanism, tensors, torch.ones(1, 40, device=DEVICE), cotangent), 4e-3)


@pytest.mark.parametrize("global_tokens", [0, 3])
@pytest.mark.parametrize("padded", [False, True])
def test_what_exact_attention_keeps_is_kept_and_the_order_of_the_tokens(global_tokens, padded):
    length, size = 64, 64
    tensors = [tensor.requires_grad_() for tensor in rows(3, 6, length, size, torch.bfloat16)]
    with KeptBytes() as kept:
        window(16, global_tokens, size)(*tensors, masks(length) if padded else None)
    normalisers = 6 * HEADS * length * 4
    order = 4 * 6 * (length + 1) if padded else 0  # a token per rank, and the number of real ones
    assert kept.total == 4 * tensors[0].nbytes + normalisers + order


@pytest.mark.parametrize("length", [1, 30])
def test_weights_are_what_is_applied_to_the_values(length):
    mechanism, mask = window(8, 1, slopes=SLOPES), masks(length)
    query, key, value = rows(3, 6, length)
    weights = mechanism.weights(query, key, mask)
    assert mechanism.computed_by == "triton"
    torch.testing.assert_close(weights @ value, mechanism(query, key, value, mask), atol=1e-5, rtol=1e-5)
    mechanism.kernels = "torch"
    torch.testing.assert_close(mechanism.weights(query, key, mask), weights, atol=1e-6, rtol=1e-5)


def test_queries_that_nobody_cleaned_are_hidden_too():
    mechanism, mask = window(8, 1), masks(40)
    mechanism.pads_queries = False  # as in models of other people, which call `attend` alone
    query, key, value = rows(3, 6, 40)
    hostile = query.where(mask.bool()[:, None, :, None], float("nan"))
    assert torch.equal(mechanism.attend(hostile, key, value, mask.bool()), mechanism(query, key, value, mask))


@pytest.mark.parametrize("changes", [{"dilation": 2}, {"dropout": 0.5}])
def test_dilated_windows_and_dropped_weights_are_left_to_torch(changes):
    mechanism = window(4, **changes).train()
    mechanism(*rows(3, 1, 12))
    assert mechanism.computed_by == "torch"
    if "dropout" in changes:
        mechanism.eval()(*rows(3, 1, 12))
        assert mechanism.computed_by == "triton"


def test_alibi_moved_in_inference_mode_serves_training():
    mechanism, tensors = window(slopes=SLOPES), rows(3, 1, 20)
    with torch.inference_mode():
        mechanism(*tensors)
    for part in run(mechanism.train(), tensors, torch.ones_like(tensors[0])):
        assert part.isfinite().all()


def test_a_batch_without_rows_is_left_to_torch():
    mechanism, empty = window(), torch.empty(0, HEADS, 5, 16, device=DEVICE)
    assert mechanism(empty, empty, empty).shape == empty.shape
    assert mechanism.computed_by == "torch"


def test_heads_that_are_too_wide_are_refused():
    with pytest.raises(RunError, match=r"heads are 129 wide. Expected 128 at most; use 'auto' or 'torch'"):
        window(size=129)(*rows(3, 1, 4, 129))


@pytest.mark.gpu
@pytest.mark.skipif(DEVICE == "cpu", reason="needs a GPU")
def test_nothing_waits_for_the_gpu():
    mechanism, mask = window(16, 3, 64, slopes=SLOPES), masks(600)
    *tensors, cotangent = rows(4, 6, 600, 64)
    mechanism(*tensors)  # moves the slopes
    torch.cuda.set_sync_debug_mode("error")
    try:
        run(lambda *leaves: mechanism(*leaves, mask), tensors, cotangent)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.gpu
@pytest.mark.skipif(DEVICE == "cpu" or torch.cuda.mem_get_info()[0] < 50e9, reason="needs a GPU with 50 GB")
def test_sequences_beyond_the_range_of_32_bits_are_computed_as_alone():
    mechanism = window(64, 1, 64)
    *tensors, cotangent = rows(4, 1, 16_384, 64, torch.bfloat16)
    expected = run(mechanism, tensors, cotangent)
    many = [tensor.repeat(1030, 1, 1, 1) for tensor in (*tensors, cotangent)]
    assert many[0].numel() > 2**31
    for mine, theirs in zip(run(mechanism, many[:3], many[3]), expected, strict=True):
        assert torch.equal(mine[-1:], theirs)
