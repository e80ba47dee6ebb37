"""The Triton kernels of FAVOR+, interpreted where there is no GPU and compiled where there is one."""

import importlib

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from lib.advice.cost import KeptBytes
from lib.attention.contract import build
from lib.attention.favor.reference import reference
from lib.attention.kernels import Launch
from lib.attention.settings import MECHANISMS
from lib.core.errors import RunError

pytest.importorskip("triton", reason="without triton: make .venv/.kernels")
kernels = importlib.import_module("lib.attention.favor.kernels")  # an error of its own is no reason to skip

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
HEADS = 2


def favor(draws, width, *, heads=HEADS, **parameters):
    values = {"kind": "favor", "nb_features": 2 * draws} | parameters
    mechanism = build(MECHANISMS.parse(values), num_heads=heads, head_size=width, layer=1, seed=3, dropout=0.0)
    mechanism.kernels = "triton"
    return mechanism.to(DEVICE).eval()


def rows(number, *shape, dtype=torch.float32):
    """Return that many tensors of standard normal numbers."""
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(*shape, generator=generator).to(DEVICE, dtype) for _ in range(number)]


def run(function, tensors, cotangent):
    """Return the output and the gradients of query, key and value."""
    leaves = [tensor.detach().requires_grad_() for tensor in tensors]
    output = function(*leaves)
    return [output.detach(), *torch.autograd.grad(output, leaves, cotangent.to(output.dtype))]


def truth(mechanism, tensors, mask, cotangent):
    exact = [tensor.double() for tensor in tensors]
    return run(lambda *leaves: reference(mechanism, *leaves, mask), exact, cotangent)


def assert_near(actual, expected, tolerance=1e-5, of_gradients=5e-5):
    for number, (mine, theirs) in enumerate(zip(actual, expected, strict=True)):
        allowed = of_gradients if number else tolerance
        torch.testing.assert_close(mine.double(), theirs.double(), atol=allowed, rtol=allowed)


def masks(length):
    """Return a mask of four rows: all real, padded left, padded at random, all padding."""
    mask = torch.ones(4, length, dtype=torch.long)
    mask[1, : length // 2] = 0
    mask[2] = torch.rand(length, generator=torch.Generator().manual_seed(length)) < 0.6
    mask[3] = 0
    return mask.to(DEVICE)


@pytest.mark.parametrize(
    ("draws", "width", "length"), [(16, 32, 33), (32, 64, 40), (128, 64, 20), (10, 20, 65), (5, 8, 1), (32, 128, 7)]
)
def test_output_and_gradients_equal_the_reference(draws, width, length):
    mechanism, mask = favor(draws, width), masks(length)
    *tensors, cotangent = rows(4, 4, HEADS, length, width)
    actual = run(lambda *leaves: mechanism(*leaves, mask), tensors, cotangent)
    assert mechanism.computed_by == "triton"
    assert_near(actual, truth(mechanism, tensors, mask, cotangent))
    for part in actual:
        assert (part.movedim(2, 1)[mask == 0] == 0).all()


@pytest.fixture
def split(monkeypatch):
    """Many splits even of few tokens, and not of whole blocks."""
    monkeypatch.setattr(kernels, "LEAST_TOKENS", 5)


def test_tokens_may_be_split_even_where_a_split_is_padding_only(split):
    length, width = 90, 16
    mechanism, mask = favor(16, width), masks(length)[:2]
    mask[0, 13:60] = 0
    *tensors, cotangent = rows(4, 2, HEADS, length, width)
    assert kernels._plan("summarise", tensors[0], mechanism.features).splits == 18
    actual = run(lambda *leaves: mechanism(*leaves, mask), tensors, cotangent)
    assert_near(actual, truth(mechanism, tensors, mask, cotangent))


@pytest.mark.parametrize(
    ("batch", "length", "draws", "splits"),
    [(1, 16_384, 32, 37), (1, 16_384, 256, 10), (32, 512, 32, 2), (64, 512, 32, 1)],
)
def test_splits_keep_a_gpu_busy(batch, length, draws, splits):
    query = torch.empty(batch, 8, length, 64, dtype=torch.bfloat16, device="meta")
    plan = kernels._plan("summarise", query, torch.empty(8, draws, 64, device="meta"))
    assert plan.splits == splits
    assert plan.splits * plan.tokens >= length > (plan.splits - 1) * plan.tokens
    assert plan.programs >= kernels.PROGRAMS


def test_the_same_comes_out_bit_for_bit(split):
    mechanism = favor(20, 16)
    *tensors, cotangent = rows(4, 1, HEADS, 70, 16, dtype=torch.float16)
    first, second = (run(mechanism, tensors, cotangent) for _ in range(2))
    for mine, theirs in zip(first, second, strict=True):
        assert torch.equal(mine, theirs)


@pytest.mark.parametrize("place", ["left", "middle", "scattered"])
def test_padding_is_exact(place):
    length, longer, width = 19, 70, 16
    mechanism = favor(16, width)
    kept = {
        "left": torch.arange(longer - length, longer),
        "middle": torch.cat([torch.arange(9), torch.arange(longer - length + 9, longer)]),
        "scattered": torch.randperm(longer, generator=torch.Generator().manual_seed(5))[:length].sort().values,
    }[place].to(DEVICE)
    *alone, cotangent = rows(4, 1, HEADS, length, width)
    expected = run(mechanism, alone, cotangent)
    mask = torch.zeros(1, longer, dtype=torch.long, device=DEVICE)
    mask[:, kept] = 1
    padded = []
    for tensor in (*alone, cotangent):
        content = torch.full((1, HEADS, longer, width), float("nan"), device=DEVICE)
        content[:, :, kept] = tensor
        padded.append(content)
    actual = run(lambda *leaves: mechanism(*leaves, mask), padded[:3], padded[3])
    assert_near([part[:, :, kept] for part in actual], expected, 1e-6, 1e-5)
    for part in actual:
        assert (part[:, :, mask[0] == 0] == 0).all()


def test_any_layout_of_the_inputs_will_do():
    mechanism, length, width = favor(16, 16), 21, 16
    *tensors, cotangent = rows(4, 2, HEADS, length, width)
    expected = run(mechanism, tensors, cotangent)
    allowed = 1e-6 if DEVICE == "cuda" else 0  # compiled for each layout, sums are in another order
    by_token = [tensor.transpose(1, 2).contiguous().transpose(1, 2) for tensor in (*tensors, cotangent)]
    assert_near(run(mechanism, by_token[:3], by_token[3]), expected, allowed, allowed)
    by_dimension = [tensor.mT.contiguous().mT for tensor in (*tensors, cotangent)]
    assert_near(run(mechanism, by_dimension[:3], by_dimension[3]), expected, allowed, allowed)
    ones = torch.ones((), device=DEVICE).expand(cotangent.shape)
    assert_near(run(mechanism, tensors, ones), run(mechanism, tensors, ones.contiguous()), allowed, allowed)


def test_a_distant_outlier_among_the_keys_leaves_the_others_their_weights():
    mechanism = favor(32, 8)
    query, key, value, cotangent = rows(4, 1, HEADS, 9, 8)
    key[:, :, 0] *= 12 / key[:, :, 0].norm(dim=-1, keepdim=True)
    query = query - 2 * key[:, :, :1] / 12
    actual = run(mechanism, (query, key, value), cotangent)
    assert_near(actual, truth(mechanism, (query, key, value), torch.ones(1, 9), cotangent))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("opposite", [False, True])
def test_norms_up_to_fifty_stay_finite(dtype, opposite):
    mechanism = favor(16, 16)
    query, key, value, cotangent = rows(4, 1, HEADS, 40, 16)
    for tensor in (query, key):
        tensor *= 50 / tensor.norm(dim=-1, keepdim=True)
        tensor[:, :, ::3] *= 0.01
    tensors = [tensor.to(dtype) for tensor in (query, -query if opposite else key, value)]
    for part in run(mechanism, tensors, cotangent):
        assert part.isfinite().all()


def test_sums_over_many_queries_do_not_overflow_in_half_precision():
    """The gradient of A^T v is such a sum: that of 128 queries, 20,000 each, exceeds 65,504."""
    mechanism, length = favor(8, 16, heads=1), 128
    query, key, value = rows(3, 1, 1, length, 16, dtype=torch.float16)
    query, key = query / 10, key / 10  # near to equal weights, so that the gradients of values do not overflow
    cotangent = torch.full_like(query, 20_000)
    expected = truth(mechanism, (query, key, value), torch.ones(1, length), cotangent)
    actual = run(mechanism, (query, key, value), cotangent)
    assert all(part.isfinite().all() for part in actual)
    torch.testing.assert_close(actual[3].double(), expected[3], atol=20, rtol=5e-3)


# Of SDPA's own errors. The mean gradient of the weights is taken from the rounded output, which costs queries a part.
# The interpreter cuts numbers to bfloat16 instead of rounding them, which errs twice as much, always to the same side.
FACTORS = {torch.float16: 1.75, torch.bfloat16: 1.75 if DEVICE == "cuda" else 6.0}


@pytest.mark.parametrize("dtype", FACTORS)
@pytest.mark.parametrize(("draws", "length"), [(32, 200), (64, 100)])  # A^T v in float32, and in the inputs' type
def test_half_precision_errs_as_little_as_exact_attention(dtype, draws, length):
    mechanism = favor(draws, 64)
    *tensors, cotangent = rows(4, 1, HEADS, length, 64, dtype=dtype)
    expected = truth(mechanism, tensors, torch.ones(1, length), cotangent)
    exact = run(scaled_dot_product_attention, [tensor.double() for tensor in tensors], cotangent)

    def errors(actual, expected):
        return [
            ((mine.double() - theirs).norm() / theirs.norm()).item()
            for mine, theirs in zip(actual, expected, strict=True)
        ]

    mine = errors(run(mechanism, tensors, cotangent), expected)
    theirs = errors(run(scaled_dot_product_attention, tensors, cotangent), exact)
    print(dtype, draws, "favor", mine, "sdpa", theirs)
    assert all(one <= FACTORS[dtype] * other for one, other in zip(mine, theirs, strict=True)), (mine, theirs)


def test_sums_over_65536_tokens_lose_no_digits(monkeypatch):
    length, width = 65_536, 16
    if DEVICE == "cpu":  # fewer turns, which the interpreter takes its time for
        monkeypatch.setitem(kernels.LAUNCHES["single"], "summarise", Launch(16, 1024, 8, 2))
    mechanism = favor(8, width, heads=1)
    key, value = rows(2, 1, 1, length, width)
    key = key / 2
    value = value + 1  # so that sums do not cancel
    sums, summaries = kernels._summarise(key, value, mechanism.features, None, width**-0.25)
    exponents = key.double() @ mechanism.features.double().mT * width**-0.25
    offset = -key.double().square().sum(-1, keepdim=True) * width**-0.5 / 2
    features = torch.cat([exponents + offset, offset - exponents], -1)[0, 0].exp()  # [N, M]
    torch.testing.assert_close(sums[0].double(), features.sum(0).log2(), atol=1e-6, rtol=1e-6)
    expected = features.T @ value[0, 0].double() / features.sum(0)[:, None]
    torch.testing.assert_close(summaries[0].double(), expected, atol=0, rtol=2e-6)


def test_a_batch_without_rows_is_left_to_torch():
    mechanism = favor(8, 16)
    empty = torch.empty(0, HEADS, 5, 16, device=DEVICE)
    assert mechanism(empty, empty, empty).shape == empty.shape
    assert mechanism.computed_by == "torch"


def test_types_may_differ_as_they_do_under_autocast():
    mechanism = favor(16, 16)
    query, key, value, cotangent = rows(4, 1, HEADS, 40, 16)
    value = value.half()
    actual = run(mechanism, (query, key, value), cotangent)
    assert [part.dtype for part in actual] == [torch.float16, torch.float32, torch.float32, torch.float16]
    assert_near(actual, truth(mechanism, (query, key, value), torch.ones(1, 40), cotangent), 4e-3, 4e-3)


@pytest.mark.parametrize("draws", [32, 128, 256])
def test_what_exact_attention_keeps_is_kept_and_a_summary_of_the_keys(draws):
    length = 512
    mechanism = favor(draws, 64, heads=1)
    tensors = [tensor.requires_grad_() for tensor in rows(3, 1, 1, length, 64, dtype=torch.bfloat16)]
    with KeptBytes(mechanism.buffers()) as mine:
        mechanism(*tensors)
    exact = 4 * tensors[0].nbytes + 4 * length  # query, key, value, output and normalisers
    bytes_of_a_summary = 4 if 8 * draws <= 2 * length else 2
    assert mine.total == exact + 2 * draws * (64 * bytes_of_a_summary + 4)


@pytest.mark.parametrize("length", [1, 30])
def test_weights_are_what_is_applied_to_the_values(length):
    mechanism, mask = favor(16, 16), masks(length)
    query, key, value = rows(3, 4, HEADS, length, 16)
    weights = mechanism.weights(query, key, mask)
    assert mechanism.computed_by == "triton"
    torch.testing.assert_close(weights @ value, mechanism(query, key, value, mask), atol=1e-5, rtol=1e-5)
    mechanism.kernels = "torch"
    torch.testing.assert_close(mechanism.weights(query, key, mask), weights, atol=1e-6, rtol=1e-5)


def test_wide_heads_are_refused():
    tensors = rows(3, 1, 1, 4, 130)
    with pytest.raises(RunError, match=r"kernels is 'triton', but attention heads are 130 wide. Expected 128"):
        favor(8, 130, heads=1)(*tensors)


@pytest.mark.parametrize("parameters", [{"phi": "relu"}, {"phi": "elu", "nb_features": None}, {"stabilize": False}])
def test_other_feature_maps_say_that_torch_computed_them(parameters):
    mechanism = favor(8, 8, **parameters)
    mechanism(*rows(3, 1, HEADS, 4, 8))
    assert mechanism.computed_by == "torch"


@pytest.mark.gpu
@pytest.mark.skipif(DEVICE == "cpu" or torch.cuda.mem_get_info()[0] < 50e9, reason="needs a GPU with 50 GB")
def test_sequences_beyond_the_range_of_32_bits_are_computed_as_alone():
    mechanism = favor(32, 64, heads=8)
    *tensors, cotangent = rows(4, 1, 8, 16_384, 64, dtype=torch.bfloat16)
    expected = run(mechanism, tensors, cotangent)
    many = [tensor.repeat(257, 1, 1, 1) for tensor in (*tensors, cotangent)]
    assert many[0].numel() > 2**31
    for mine, theirs in zip(run(mechanism, many[:3], many[3]), expected, strict=True):
        # One row alone is summed in other splits, which now and then rounds a number of half precision otherwise.
        assert (mine[-1:] - theirs).double().norm() <= torch.finfo(torch.bfloat16).eps * theirs.double().norm()


@pytest.mark.gpu
@pytest.mark.skipif(DEVICE == "cpu", reason="needs a GPU")
def test_nothing_waits_for_the_gpu(split):
    mechanism, mask = favor(20, 64), masks(90)
    *tensors, cotangent = rows(4, 4, HEADS, 90, 64)
    torch.cuda.set_sync_debug_mode("error")
    try:
        run(lambda *leaves: mechanism(*leaves, mask), tensors, cotangent)
    finally:
        torch.cuda.set_sync_debug_mode("default")
