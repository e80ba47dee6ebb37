"""The Triton kernels of the scan, interpreted where there is no GPU and compiled where there is one."""

import importlib

import pytest
import torch
from scans import by_torch, errors, run, truth

from lib.attention.kernels import set_kernels
from lib.backbones.ssm.configuration import SsmConfig
from lib.backbones.ssm.model import SsmModel
from lib.core.errors import RunError

pytest.importorskip("triton", reason="without triton: make .venv/.kernels")
kernels = importlib.import_module("lib.backbones.ssm.kernels")  # an error of its own is no reason to skip
pytestmark = pytest.mark.extended

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
TOLERANCES = {torch.float32: 3e-6, torch.float16: 1e-3}
"""Relative errors of norms: some times that of a rounded number."""

both_directions = pytest.mark.parametrize("reverse", [False, True], ids=["forwards", "reversed"])


def drawn(length, *, batch=2, heads=3, width=16, size=16, rate=1.0, dtype=torch.float32):
    """Return inputs, log-decays, write and read directions, and a cotangent of the outputs."""
    generator = torch.Generator().manual_seed(length)

    def normal(*shape):
        return torch.randn(*shape, generator=generator).to(DEVICE, dtype)

    decay = -rate * torch.rand(batch, length, heads, generator=generator).to(DEVICE)
    shape = (batch, length, heads, width)
    return [normal(*shape), decay, normal(batch, length, size), normal(batch, length, size), normal(*shape)]


def by_kernels(tensors, reverse=False):
    return run(lambda *leaves: kernels.ScanByTriton.apply(*leaves, reverse), tensors)


def assert_near(found, expected, tolerance):
    far = errors(found, expected)
    assert max(far) <= tolerance, far


@both_directions
@pytest.mark.parametrize("dtype", TOLERANCES, ids=["float32", "float16"])
@pytest.mark.parametrize(
    "sizes",
    [
        {"length": 1},
        {"length": 64},
        {"length": 75, "width": 10, "size": 20},
        {"length": 20, "heads": 17, "batch": 1},  # more heads than a program adds up decays of
        {"length": 40, "width": 70, "size": 100, "heads": 1, "batch": 1},
    ],
    ids=["one token", "a chunk", "odd sizes", "many heads", "wide"],
)
def test_output_and_gradients(sizes, dtype, reverse):
    tensors = drawn(**sizes, dtype=dtype)
    found, expected = by_kernels(tensors, reverse), truth(tensors, reverse)
    assert [each.dtype for each in found] == [dtype, dtype, torch.float32, dtype, dtype]
    if sizes["length"] == 1:  # nothing is left of a state before it
        assert found.pop(2).eq(0).all()
        expected.pop(2)
    assert_near(found, expected, TOLERANCES[dtype])


@pytest.mark.parametrize("rate", [1e-3, 1e5])
def test_errors_by_the_decays(rate):
    """Also where one strong decay makes cumulative sums large, and a weak one follows, which decides the output."""
    tensors = drawn(100, batch=1, heads=2, rate=1e-3)
    tensors[1][:, ::5] *= rate / 1e-3
    expected = truth(tensors)
    found, by_operations = errors(by_kernels(tensors), expected), errors(by_torch(tensors), expected)
    for mine, theirs in zip(found, by_operations, strict=True):
        assert mine <= 10 * max(theirs, 1e-7), (found, by_operations)


def test_small_gradients_of_strong_decays():
    """The exponent of a token and itself is 0, so its large gradient must not be part of any difference."""
    tensors = drawn(64, heads=1, batch=1, rate=0.0)
    tensors[1][:] = -12.0
    (found, expected) = (each[2] for each in (by_kernels(tensors), truth(tensors)))
    assert expected.abs().max() < 1e-3 * tensors[0].abs().max()
    torch.testing.assert_close(found.double(), expected, rtol=1e-3, atol=1e-10)


@both_directions
def test_heads_in_groups_and_tokens_in_parts(reverse, monkeypatch):
    tensors = drawn(40, heads=3, batch=1, width=10, size=20)
    whole = by_kernels(tensors, reverse)
    monkeypatch.setattr(kernels, "PROGRAMS", 2 * 3)
    monkeypatch.setitem(kernels.LAUNCHES, "single", kernels.LAUNCHES["single"]._replace(chunk=16, rows=16, numbers=64))
    assert kernels._plan(tensors[0], tensors[2], reverse).groups == 2
    assert_near(by_kernels(tensors, reverse), [each.double() for each in whole], 1e-6)


SIZES = {
    "vocab_size": 50,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "head_size": 8,
    "state_size": 5,
    "convolution": 3,
    "embedding_dropout": 0.0,
    "layer_dropout": 0.0,
}


def model_of(way, **changes):
    torch.manual_seed(0)
    model = SsmModel(SsmConfig(**SIZES | changes)).to(DEVICE)
    set_kernels(model, way)
    return model


def states_and_gradients(model, dtype=None):
    ids = torch.arange(60, device=DEVICE).view(2, 30) % 50
    mask = torch.ones_like(ids)
    mask[1, 11:] = 0
    with torch.autocast(DEVICE, dtype=dtype, enabled=dtype is not None):
        states = model(ids, mask).last_hidden_state
    gradients = torch.autograd.grad(states.float().sin().sum(), list(model.layers.parameters()))
    return [states.float(), *gradients]


def test_model_by_kernels():
    results = []
    for way in ("torch", "triton"):
        model = model_of(way)
        results.append([each.double() for each in states_and_gradients(model)])
        assert {layer.mixer.computed_by for layer in model.layers} == {way}
    for mine, theirs in zip(*reversed(results), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)


def test_refusals_of_kernels():
    model = model_of("triton", state_size=129)
    with pytest.raises(RunError, match="129"):
        states_and_gradients(model)
    set_kernels(model, "auto")
    states_and_gradients(model)
    assert model.layers[0].mixer.computed_by == "torch"
