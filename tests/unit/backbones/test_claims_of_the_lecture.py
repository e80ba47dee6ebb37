"""Claims of the lecture on transformers that a calculation can check; the numbers are those of the page of toys."""

import pytest
import torch
from encoder_cases import tiny_config
from torch import nn

from lib.backbones.encoder.model import EncoderBlock

pytestmark = pytest.mark.extended


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def change_after(steps, gain, width=64):
    """By how much a change of the state is larger after `steps` of a tanh cell with recurrent weights of this gain."""
    cell = nn.RNNCell(width, width, bias=False)
    with torch.no_grad():
        cell.weight_hh.copy_(gain * width**-0.5 * torch.randn(width, width, generator=generator()))
        cell.weight_ih.copy_(0.01 * torch.randn(width, width, generator=generator(1)))
    inputs = torch.randn(steps, 1, width, generator=generator(2))
    first = torch.zeros(1, width, requires_grad=True)
    state = first
    for each in inputs:
        state = cell(each, state)
    weights = torch.randn(1, width, generator=generator(3))
    (gradient,) = torch.autograd.grad((state * weights).sum(), first)
    return (gradient.norm() / weights.norm()).item()


@pytest.mark.parametrize(("gain", "expected"), [(0.5, 3e-16), (1.0, 0.03), (1.5, 360), (2.0, 24_000)])
def test_gradients_by_the_gain_of_recurrent_weights(gain, expected):
    assert change_after(50, gain) == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize(("width", "scaled", "plain"), [(32, 0.11, 0.70), (512, 0.11, 0.93)])
def test_softmax_without_the_root_of_the_width(width, scaled, plain):
    query, key = (torch.randn(256, 64, width, generator=generator(seed)) for seed in (0, 1))
    scores = query @ key.transpose(1, 2)
    for divisor, greatest in ((width**0.5, scaled), (1, plain)):
        weights = (scores / divisor).softmax(-1)
        assert weights.amax(-1).mean().item() == pytest.approx(greatest, abs=0.005)


def without_residuals(block, states):
    states = block.attention_layer_norm(block.attention(states, None, None))
    return block.output_layer_norm(block.output(nn.functional.gelu(block.intermediate(states))))


def test_tokens_without_residuals():
    """24 untrained blocks: the share of the states that tells the tokens of a document apart.

    Source: Dong et al. 2021, "Attention is not all you need", on the collapse of attention without residual sums.
    """
    config = tiny_config(
        hidden_size=32, num_attention_heads=1, intermediate_size=64, mlp_dropout=0.0, attention_output_dropout=0.0
    )
    torch.manual_seed(0)
    blocks = [EncoderBlock(config, layer) for layer in range(24)]
    for module in nn.ModuleList(blocks).modules():
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=0.02)
            nn.init.zeros_(module.bias)
    apart = {}
    for name, apply in (("with", lambda block, states: block(states, None, None)), ("without", without_residuals)):
        first = torch.randn(1, 20, 32, generator=generator(4))
        states = first
        for block in blocks:
            states = apply(block, states)
        apart[name] = ((states - states.mean(1, keepdim=True)).norm() / states.norm()).item()
    assert apart["with"] > 0.9
    assert apart["without"] < 1e-6
