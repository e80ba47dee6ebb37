"""Hedgehog with maps that have learnt something, which the contract's first weights, identities, would not show."""

import pytest
import torch
from mechanism_cases import assert_close, build, cotangent_of, draw, masks

from studies.conversion.attention.hedgehog.reference import features, reference

pytestmark = pytest.mark.extended

PHIS = ("softmax", "exp")


def learnt(phi="softmax", size=0.5):
    """Return the mechanism with random feature maps, different ones for queries and keys."""
    mechanism = build("", values={"kind": "hedgehog", "phi": phi})
    generator = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for matrix in mechanism.parameters():
            matrix.copy_(torch.randn(matrix.shape, generator=generator) * size)
    return mechanism


def gradients(output, mechanism, tensors, cotangent):
    leaves = [*tensors, *mechanism.parameters()]
    found = torch.autograd.grad((output.double() * cotangent).sum(), leaves)
    return [output.detach().double(), *(each.double() for each in found)]


@pytest.mark.parametrize("phi", PHIS)
def test_learnt_maps_by_the_reference(phi):
    mechanism = learnt(phi)
    tensors, mask, cotangent = draw(mechanism, 4, 23), masks(23), cotangent_of(4, 23)
    actual = gradients(mechanism(*tensors, mask), mechanism, tensors, cotangent)
    expected = reference(mechanism, *(each.double() for each in tensors), mask)
    assert len(actual) == 1 + 3 + 2
    assert_close(actual, gradients(expected, mechanism, tensors, cotangent), 1e-5, of_gradients=1e-4)


def test_weights_of_learnt_maps_by_the_reference():
    mechanism = learnt("exp")
    (query, key, _), mask = draw(mechanism, 4, 23), masks(23)
    cotangent = torch.randn(4, 2, 23, 23, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    identity = torch.eye(23, dtype=torch.float64).expand(4, 2, 23, 23)
    expected = reference(mechanism, query.double(), key.double(), identity, mask)
    actual = gradients(mechanism.weights(query, key, mask), mechanism, (query, key), cotangent)
    assert_close(actual, gradients(expected, mechanism, (query, key), cotangent), 1e-5, of_gradients=1e-4)


def test_first_maps():
    mechanism = build("", values={"kind": "hedgehog"})
    rows = torch.randn(1, 2, 5, 8)
    assert [tuple(each.shape) for each in mechanism.parameters()] == [(2, 8, 8)] * 2
    for each in (mechanism.of_queries, mechanism.of_keys):
        assert torch.equal(each(rows), torch.cat([rows, -rows], dim=-1))
    plain = features(rows[0].double(), mechanism.of_keys.matrix.detach(), "softmax")
    torch.testing.assert_close(plain.sum(-1), torch.ones(2, 5, dtype=torch.float64))


@pytest.mark.parametrize(("phi", "size"), [("softmax", 30.0), ("exp", 200.0)])
def test_large_features(phi, size):
    """In float64 the reference still has room at 30 (as `exp`, up to e^700); at 200 only finiteness is asked."""
    mechanism = learnt(phi)
    tensors = [each.detach() * (size if number < 2 else 1) for number, each in enumerate(draw(mechanism, 1, 12))]
    tensors = [each.requires_grad_() for each in tensors]
    cotangent = cotangent_of(1, 12)
    actual = gradients(mechanism(*tensors), mechanism, tensors, cotangent)
    assert all(each.isfinite().all() for each in actual)
    if size == 30:
        expected = reference(mechanism, *(each.detach().double() for each in tensors), torch.ones(1, 12))
        torch.testing.assert_close(actual[0], expected, atol=1e-3, rtol=1e-3)


def test_features_of_queries_and_of_keys():
    """The softmax form of queries equals the exponentials; that of keys weighs each key by its own sum."""
    mechanism = learnt("softmax")
    query, key, _ = (each.detach().double() for each in draw(mechanism, 1, 9))
    raised = features(query[0], mechanism.of_queries.matrix.detach(), "exp")
    kernel = raised @ features(key[0], mechanism.of_keys.matrix.detach(), "softmax").mT
    expected = kernel / kernel.sum(-1, keepdim=True)
    torch.testing.assert_close(mechanism.weights(query, key)[0], expected)
