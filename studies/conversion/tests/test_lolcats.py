"""LoLCATs' attention with maps and factors that have learnt something, and its window alone."""

import pytest
import torch
from mechanism_cases import assert_close, build, cotangent_of, draw, masks, without_shortcuts

from studies.conversion.attention.lolcats.reference import reference

pytestmark = pytest.mark.extended


@pytest.fixture(autouse=True)
def _shortcuts(monkeypatch):
    without_shortcuts(monkeypatch)


def learnt(**settings):
    mechanism = build("", values={"kind": "lolcats", "block_size": 4, "window_blocks": 3} | settings)
    generator = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for weight in mechanism.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator) * 0.5)
    return mechanism


def gradients(output, mechanism, tensors, cotangent):
    leaves = [*tensors, *mechanism.parameters()]
    found = torch.autograd.grad((output.double() * cotangent).sum(), leaves)
    return [output.detach().double(), *(each.double() for each in found)]


@pytest.mark.parametrize(("window", "length"), [(1, 26), (3, 41), (5, 9), (5, 41)])
def test_learnt_weights_by_the_reference(window, length):
    mechanism = learnt(window_blocks=window)
    tensors, mask, cotangent = draw(mechanism, 4, length), masks(length), cotangent_of(4, length)
    actual = gradients(mechanism(*tensors, mask), mechanism, tensors, cotangent)
    expected = reference(mechanism, *(each.double() for each in tensors), mask)
    assert len(actual) == 1 + 3 + 3
    assert_close(actual, gradients(expected, mechanism, tensors, cotangent), 1e-5, of_gradients=1e-4)


def test_window_alone_by_bigbird():
    """So a row with this BigBird and the same weights shows what the linear branch does."""
    mechanism = learnt(window_blocks=3)
    alone = {"kind": "bigbird", "block_size": 4, "window_blocks": 3, "global_blocks": 0, "random_blocks": 0}
    (query, key, _), mask = draw(mechanism, 4, 30), masks(30)
    expected = build("", values=alone).weights(query, key, mask)
    weights = mechanism.weights(query, key, mask).masked_fill(expected == 0, 0)
    assert (weights.sum(-1)[mask.bool()[:, None].expand(-1, 2, -1)] < 1).any()
    renormalised = weights / weights.sum(-1, keepdim=True).clamp(min=1e-9)
    torch.testing.assert_close(renormalised, expected, atol=1e-5, rtol=1e-5)


def test_linear_branch_of_long_queries():
    """The greatest weight of a window is its factor, however large scores are."""
    mechanism = learnt()
    query, key, value = (each.detach() for each in draw(mechanism, 1, 40))
    expected = reference(mechanism, *(each.double() for each in (query * 30, key * 30, value)), torch.ones(1, 40))
    torch.testing.assert_close(mechanism(query * 30, key * 30, value).double(), expected, atol=1e-4, rtol=1e-4)
    weights = mechanism.weights(query * 30, key * 30)
    block = torch.arange(40) // 4
    beyond = weights.masked_fill((block[:, None] - block).abs() <= 1, 0).sum(-1)
    assert (beyond > 0.1).float().mean() > 0.5


@torch.no_grad()
def test_lengths_that_are_read_exactly():
    mechanism = learnt()
    assert mechanism.settings.exact_up_to() == 8
    for length, exact in ((8, True), (9, False)):
        query, key, _ = draw(mechanism, 1, length, dtype=torch.float64)
        expected = (query @ key.mT / 8**0.5).softmax(-1)
        assert mechanism.weights(query, key).allclose(expected, atol=1e-6) == exact
