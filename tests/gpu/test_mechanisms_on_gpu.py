"""What every mechanism owes, on a GPU: by torch's operations, and by Triton's kernels where it has some.

It runs with pytest, torch, numpy, pydantic and yaml alone. TEST_DEVICE=cpu runs the same on a CPU, and kernels by
Triton's interpreter, slowly.
"""

import os
from pathlib import Path

import pytest
import torch
import yaml
from mechanism_cases import BIASED, EXAMPLES, EXTENSIONS, build, cotangent_of, detached, draw, masks, run, truth

from lib.attention.kernels import has_kernels, set_kernels

DEVICE = os.environ.get("TEST_DEVICE", "cuda")
pytestmark = [
    pytest.mark.extensions(*EXTENSIONS),
    pytest.mark.gpu,
    pytest.mark.skipif(DEVICE == "cuda" and not torch.cuda.is_available(), reason="torch sees no GPU"),
]
GRID = yaml.safe_load((Path(__file__).parents[2] / "config/config.yaml").read_text())["experiment"]["mechanisms"]
GRID |= {  # which has no mechanism of this kind
    "window-w64-g0": {"kind": "window", "width": 64},
    "window-w16-g3": {"kind": "window", "width": 16, "global_tokens": 3},
}
BY_TRITON = [(name, "triton") for name, values in GRID.items() if has_kernels(values["kind"])]
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
WIDTH = 64
FLOAT32 = 5e-5
"""Relative error that is allowed in float32."""

WAYS = [(name, "torch", DTYPES[number % 3]) for number, name in enumerate(EXAMPLES | BIASED | GRID)]
WAYS += [(*way, dtype) for way in BY_TRITON for dtype in DTYPES]
"""Mechanisms by torch in one type each, in turn, and by kernels in all."""


def named(value):
    return str(value).removeprefix("torch.")


every_way = pytest.mark.parametrize(("name", "kernels", "dtype"), WAYS, ids=named)


def made(name, kernels, width=WIDTH, **changes):
    mechanism = build(name, values=GRID.get(name), head_size=width, **changes).to(DEVICE)
    set_kernels(mechanism, kernels)
    return mechanism


@pytest.fixture(autouse=True)
def _numbers_are_rounded(request):
    parameters = getattr(request.node, "callspec", None) and request.node.callspec.params
    if DEVICE == "cpu" and parameters and "triton" in parameters.values() and torch.bfloat16 in parameters.values():
        pytest.skip("Triton's interpreter cuts bfloat16 off instead of rounding it")


def errors(actual, expected):
    """Return the errors of the output and of the gradients, as norms, relative to what they should be.

    A gradient that vanishes, as where a token sees one alone, is set beside the greatest of the others.
    """
    least = 0.05 * max(theirs.norm() for theirs in expected)
    return [
        ((mine - theirs).norm() / theirs.norm().clamp(min=least)).item()
        for mine, theirs in zip(actual, expected, strict=True)
    ]


def measured(name, kernels, dtype, length, width=WIDTH):
    """Return outputs and gradients of a mechanism, and those of its float64 reference."""
    mechanism = made(name, kernels, width)
    tensors = draw(mechanism, 4, length, dtype=dtype, device=DEVICE)
    mask, cotangent = masks(length).to(DEVICE), cotangent_of(4, length, width).to(DEVICE)
    actual = run(lambda *rows: mechanism(*rows, mask), tensors, cotangent)
    return actual, truth(mechanism, tensors, mask, cotangent)


def allowed(dtype, length, width=WIDTH):
    """Return the relative error that is allowed: in half precision twice that of torch's exact attention.

    At least what the rounding of a single number may cost.
    """
    if dtype == torch.float32:
        return FLOAT32
    return max(torch.finfo(dtype).eps / 2, 2 * max(errors(*measured("sdpa", "torch", dtype, length, width))))


def assert_near(actual, expected, tolerance):
    found = errors(actual, expected)
    assert max(found) <= tolerance, (found, tolerance)


@every_way
def test_output_and_gradients(name, kernels, dtype):
    """They are as near to the reference as those of exact attention, also under autocast."""
    for length, width in ((1, WIDTH), (131, WIDTH), (131, 32), (131, 128)):
        if width == WIDTH or kernels == "triton":
            assert_near(*measured(name, kernels, dtype, length, width), allowed(dtype, length, width))
    if dtype != torch.float32:
        mechanism, length = made(name, kernels), 50
        tensors, mask = draw(mechanism, 4, length, device=DEVICE), masks(length).to(DEVICE)
        cotangent = cotangent_of(4, length, WIDTH).to(DEVICE)
        with torch.autocast(DEVICE, dtype=dtype):
            actual = run(lambda *rows: mechanism(*rows, mask), tensors, cotangent)
        assert_near(actual, truth(mechanism, tensors, mask, cotangent), 2 * allowed(dtype, length))


@every_way
def test_padding(name, kernels, dtype):
    """Neither its amount nor its content counts, and no mask is a mask of ones."""
    mechanism, length, longer = made(name, kernels), 37, 101
    tensors = draw(mechanism, 1, length, dtype=dtype, device=DEVICE)
    cotangent = cotangent_of(1, longer, WIDTH).to(DEVICE)
    expected = run(mechanism, tensors, cotangent[:, :, :length])
    ones = torch.ones(1, length, device=DEVICE)
    assert_near(
        run(lambda *rows: mechanism(*rows, ones), tensors, cotangent[:, :, :length]), expected, allowed(dtype, length)
    )
    padded = []
    for rows in tensors:
        content = torch.full((2, *rows.shape[1:2], longer, WIDTH), float("nan"), dtype=dtype, device=DEVICE)
        content[:1, :, :length] = rows.detach()
        padded.append(content)
    if mechanism.settings.shares_query_and_key:
        padded[1] = padded[0]
    mask = torch.stack([torch.arange(longer) < length, torch.zeros(longer).bool()]).to(DEVICE)
    actual = run(
        lambda *rows: mechanism(*rows, mask),
        [rows.requires_grad_() for rows in padded],
        torch.cat([cotangent, cotangent]),
    )
    assert_near([part[:1, :, :length] for part in actual], expected, allowed(dtype, length))
    assert all((part.movedim(2, 1)[~mask] == 0).all() for part in actual)


@every_way
def test_norms_up_to_fifty_stay_finite(name, kernels, dtype):
    mechanism = made(name, kernels)
    if getattr(mechanism.settings, "stabilize", True) is False:
        pytest.skip("the unstabilised feature map overflows, as documented")
    tensors = draw(mechanism, 4, 40, device=DEVICE)
    with torch.no_grad():
        for tensor in tensors[: 1 if tensors[1] is tensors[0] else 2]:
            tensor *= 50 / tensor.norm(dim=-1, keepdim=True)
            tensor[:, :, ::3] *= 0.01
    mask, cotangent = masks(40).to(DEVICE), cotangent_of(4, 40, WIDTH).to(DEVICE)
    for part in run(lambda *rows: mechanism(*rows, mask), detached(tensors, dtype), cotangent):
        assert part.isfinite().all()
