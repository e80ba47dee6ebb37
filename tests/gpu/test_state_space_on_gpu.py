"""The scan of the state space by Triton's kernels, on a GPU, against torch's operations in float64.

It runs with pytest, torch and triton alone. TEST_DEVICE=cpu runs the same by Triton's interpreter, slowly.
"""

import importlib
import os

import pytest
import torch
from scans import errors, run, truth

pytest.importorskip("triton", reason="without triton: make .venv/.kernels")
kernels = importlib.import_module("lib.backbones.ssm.kernels")  # an error of its own is no reason to skip

DEVICE = os.environ.get("TEST_DEVICE", "cuda")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(DEVICE == "cuda" and not torch.cuda.is_available(), reason="torch sees no GPU"),
]
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
FLOAT32 = 5e-6
"""Relative error that is allowed in float32; in half precision, it is twice the greatest error of rounding a number."""

every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: str(dtype).removeprefix("torch."))


@pytest.fixture(autouse=True)
def _numbers_are_rounded(request):
    if DEVICE == "cpu" and torch.bfloat16 in request.node.callspec.params.values():
        pytest.skip("Triton's interpreter cuts bfloat16 off instead of rounding it")


def drawn(dtype, length, heads, width, size, rate, batch=2):
    """Return inputs, log-decays, write and read directions, and a cotangent; decays as those of first weights."""
    generator = torch.Generator().manual_seed(length)

    def normal(*shape):
        return torch.randn(*shape, generator=generator).to(DEVICE, dtype)

    steps = rate * torch.logspace(-3, -1, heads) * (2 * torch.rand(batch, length, heads, generator=generator))
    shape = (batch, length, heads, width)
    return [normal(*shape), -steps.to(DEVICE), normal(batch, length, size), normal(batch, length, size), normal(*shape)]


def by_kernels(tensors, reverse):
    return run(lambda *leaves: kernels.ScanByTriton.apply(*leaves, reverse), tensors)


def assert_near(found, tensors, reverse, dtype):
    allowed = FLOAT32 if dtype == torch.float32 else torch.finfo(dtype).eps
    far = errors(found, truth(tensors, reverse, chunk=64))
    assert max(far) <= allowed, (far, allowed)


@every_dtype
@pytest.mark.parametrize(
    ("length", "rate", "reverse"), [(50, 1.0, True), (64, 100.0, False), (1000, 100.0, True), (1000, 1.0, False)]
)
def test_output_and_gradients(dtype, length, rate, reverse):
    tensors = drawn(dtype, length, heads=4, width=64, size=64, rate=rate)
    found = by_kernels(tensors, reverse)
    assert_near(found, tensors, reverse, dtype)
    assert all(map(torch.equal, found, by_kernels(tensors, reverse)))  # repeated bit by bit


@pytest.mark.parametrize(
    ("dtype", "heads", "width", "size"),
    [
        (torch.bfloat16, 17, 64, 16),
        (torch.float32, 3, 16, 128),
        (torch.float16, 2, 128, 64),
        (torch.bfloat16, 1, 128, 128),
        (torch.float32, 2, 20, 5),
    ],
)
def test_other_sizes(dtype, heads, width, size):
    tensors = drawn(dtype, 150, heads, width, size, rate=1.0)
    assert_near(by_kernels(tensors, False), tensors, False, dtype)


@every_dtype
def test_tokens_after_a_strong_decay(dtype):
    tensors = drawn(dtype, 300, heads=2, width=64, size=64, rate=0.01)
    tensors[1][:, ::7] = -20_000.0
    assert_near(by_kernels(tensors, False), tensors, False, dtype)
