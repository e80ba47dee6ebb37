"""oneDNN's linear layers have torch's values and gradients, and take its place only where they are faster."""

import copy

import hypothesis
import pytest
import torch
from hypothesis import strategies
from torch import nn

from lib.backbones import faster as onednn
from lib.backbones.faster import Linear, use_onednn


@pytest.fixture
def everywhere(monkeypatch):
    """Let oneDNN compute products of any size, on any processor."""
    monkeypatch.setattr(onednn, "LEAST", 0)
    monkeypatch.setattr(onednn, "_faster", lambda: True)


def layer(inputs, outputs, **options):
    torch.manual_seed(inputs * 100 + outputs)
    return nn.Linear(inputs, outputs, **options)


@pytest.mark.usefixtures("everywhere")
@hypothesis.settings(suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture], max_examples=20)
@hypothesis.given(
    shape=strategies.lists(strategies.integers(1, 5), min_size=0, max_size=3),
    sizes=strategies.tuples(strategies.integers(1, 40), strategies.integers(1, 40)),
    bias=strategies.booleans(),
    trained=strategies.tuples(strategies.booleans(), strategies.booleans()),
    transposed=strategies.booleans(),
)
def test_values_and_gradients(shape, sizes, bias, trained, transposed):
    theirs = layer(*sizes, bias=bias)
    theirs.weight.requires_grad_(trained[1])
    ours = copy.deepcopy(theirs)
    use_onednn(nn.Sequential(ours))
    assert type(ours) is Linear
    states = torch.randn(*shape, sizes[0])
    states = states.transpose(0, -2).contiguous().transpose(0, -2) if transposed and len(shape) > 1 else states
    expected, found = (
        each(given) for each, given in ((theirs, states.clone().requires_grad_(trained[0])), (ours, states))
    )
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    inputs = [states.clone().requires_grad_(trained[0]) for _ in range(2)]
    gradient = torch.randn_like(expected)
    for each, given in zip((theirs, ours), inputs, strict=True):
        if any(trained) or bias:
            each(given).backward(gradient)
    for one, other in zip([inputs[0], *theirs.parameters()], [inputs[1], *ours.parameters()], strict=True):
        assert (one.grad is None) == (other.grad is None)
        if one.grad is not None:
            torch.testing.assert_close(other.grad, one.grad, atol=1e-4, rtol=1e-4)


@pytest.mark.usefixtures("everywhere")
def test_layers_left_to_torch():
    model = nn.Sequential(layer(8, 8))
    use_onednn(model)
    assert model(torch.randn(0, 8)).shape == (0, 8)
    states = torch.randn(3, 8)
    with torch.autocast("cpu", torch.bfloat16):
        assert model(states).dtype == torch.bfloat16
    for dtype in (torch.float64, torch.bfloat16):
        assert torch.equal(
            model.to(dtype)(states.to(dtype)), nn.functional.linear(states.to(dtype), *model.parameters())
        )
