import math

import pytest
import torch
from references.favor import reference, saderf_kernel, softmax_kernel

from lib.attention.contract import build
from lib.attention.settings import MECHANISMS


def favor(nb_features: int | None = 32, *, num_heads=2, head_size=8, layer=1, seed=3, dropout=0.0, **parameters):
    values = {"kind": "favor", "nb_features": nb_features} | parameters
    return build(
        MECHANISMS.parse(values), num_heads=num_heads, head_size=head_size, layer=layer, seed=seed, dropout=dropout
    ).eval()


def rows(*shape, seed=0, norm=None):
    tensor = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    return tensor if norm is None else tensor * norm / tensor.norm(dim=-1, keepdim=True)


def test_weights_beside_a_distant_outlier_among_keys():
    # One maximum over all columns would push the features of every other key to nothing here.
    mechanism = favor(64)
    query, key, value = rows(1, 2, 9, 8), rows(1, 2, 9, 8, seed=1), rows(1, 2, 9, 8, seed=2)
    key[:, :, 0] *= 12 / key[:, :, 0].norm(dim=-1, keepdim=True)
    query = query - 2 * key[:, :, :1] / 12
    expected = reference(mechanism, query.double(), key.double(), value.double(), torch.ones(1, 9))
    torch.testing.assert_close(mechanism(query, key, value).double(), expected, atol=1e-5, rtol=1e-5)


def test_distribution_of_orthogonal_features():
    features = favor(2 * 40, num_heads=500, head_size=16).features  # [500, 40, 16]: blocks of 16, 16 and 8
    directions = torch.nn.functional.normalize(features, dim=-1)
    angles = directions @ directions.transpose(-1, -2) - torch.eye(40)
    for block in (slice(0, 16), slice(16, 32), slice(32, 40)):
        assert angles[:, block, block].abs().max() < 1e-5
    assert angles[:, :16, 16:].abs().max() > 0.5
    squares = features.square().sum(-1)  # chi-squared with 16 degrees of freedom
    assert squares.mean().item() == pytest.approx(16, rel=0.01)
    assert squares.var().item() == pytest.approx(32, rel=0.05)
    # Uniform directions: every coordinate, the diagonal of a block too, is as often positive as negative.
    assert features[:, range(16), range(16)].sign().mean().item() == pytest.approx(0, abs=0.05)
    assert features.mean(0).abs().max() < 0.25


def test_independent_features():
    features = favor(2 * 32, head_size=16, ortho_features=False).features
    assert (features[0] @ features[0].T - torch.diag(features[0].square().sum(-1))).abs().max() > 1
    assert not torch.equal(features[0], features[1])


def test_first_features_are_keyed():
    drawn = [favor(**key).features for key in ({}, {"seed": 4}, {"layer": 2})]
    assert torch.equal(drawn[0], favor().features)
    assert not torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])
    with torch.device("meta"):
        mechanism = favor()
    mechanism.to_empty(device="cpu")
    mechanism.reset_features()
    assert torch.equal(mechanism.features, drawn[0])


def test_large_norms_and_the_reference():
    """Neither `eps` nor the stabiliser moves the result."""
    mechanism = favor(64, head_size=16)
    value = rows(1, 2, 30, 16, seed=1)
    for norm in (1, -5, 12):
        query = rows(1, 2, 30, 16, norm=abs(norm))
        key = math.copysign(1, norm) * query * torch.linspace(0.5, 1, 30)[:, None]
        expected = reference(mechanism, query.double(), key.double(), value.double(), torch.ones(1, 30))
        torch.testing.assert_close(mechanism(query, key, value).double(), expected, atol=3e-5, rtol=3e-5)


def test_redraws_and_resumed_redraws():
    mechanism = favor(redraw_interval=3)
    history = []
    for step in range(8):
        mechanism.set_step(step)
        history.append(mechanism.features.clone())
    assert torch.equal(history[0], favor().features)
    assert not torch.equal(history[3], history[6])
    unchanging = favor()
    unchanging.set_step(100)
    assert torch.equal(unchanging.features, history[0])
    changes = [step for step in range(1, 8) if not torch.equal(history[step], history[step - 1])]
    assert changes == [3, 6]
    for step in range(8):
        resumed = favor(redraw_interval=3)
        resumed.load_state_dict({"features": history[step]})
        resumed.set_step(step)
        assert torch.equal(resumed.features, history[step])
        if step >= 3:  # even without the checkpoint
            fresh = favor(redraw_interval=3)
            fresh.set_step(step)
            assert torch.equal(fresh.features, history[step])


def test_loaded_features_until_the_first_redraw():
    mechanism = favor(redraw_interval=3)
    loaded = favor(seed=9).features
    mechanism.load_state_dict({"features": loaded})
    mechanism.set_step(2)
    assert torch.equal(mechanism.features, loaded)
    mechanism.set_step(3)
    assert not torch.equal(mechanism.features, loaded)


def published_attention(mechanism, query, key, value, *, eps, floor):
    """Return attention by the formula of the study's own code, and its denominators (docs/fidelity.md).

    The largest exponent of each query, and of all keys of a head, is subtracted before exp; `eps` is then added to all
    features, and denominators below `floor` are raised to it. The study has 1e-6 for both.
    """
    query, key = (rows * query.shape[-1] ** -0.25 for rows in (query, key))
    features = []
    for part, over in ((query, -1), (key, (-1, -2))):
        products = part @ mechanism.features.to(part.dtype).mT
        top = products.abs().amax(over, keepdim=True)
        exponentials = torch.cat([(products - top).exp(), (-products - top).exp()], -1) + eps
        norm = (-part.square().sum(-1, keepdim=True) / 2).exp()
        features.append(norm * exponentials / exponentials.shape[-1] ** 0.5)
    of_queries, of_keys = features
    denominator = of_queries @ of_keys.sum(-2)[..., None]
    return of_queries @ (of_keys.mT @ value) / denominator.clamp_min(floor), denominator


def test_difference_from_the_published_code_by_its_floor():
    """The study stabilises numerator and denominator alike, and then lets no denominator below 1e-6."""
    mechanism = favor(512, num_heads=8, head_size=64)
    query, key, value = (rows(1, 8, 128, 64, seed=seed) for seed in range(3))
    ours = mechanism(query, key, value)

    def distance(eps, floor):
        theirs, denominator = published_attention(mechanism, query, key, value, eps=eps, floor=floor)
        return (theirs - ours).abs().amax(-1, keepdim=True), denominator

    exact, _ = distance(0.0, 0.0)
    assert exact.max() < 5e-6
    floored, denominator = distance(0.0, 1e-6)
    assert floored[denominator < 1e-6].max() > 0.05  # such tokens get less than the mean of the values
    assert floored[denominator >= 1e-6].max() < 5e-6
    with_eps, _ = distance(1e-6, 0.0)
    assert with_eps.max() > 1e-3


def skewed(norm, length=6, width=4, seed=0):
    """Return queries and keys whose dimensions differ in size, and not alike."""
    query, key = (rows(length, width, seed=2 * seed + number).double() for number in range(2))
    sizes = torch.linspace(-1, 1, width).exp()
    return [each * norm / each.norm(dim=-1, keepdim=True) for each in (query * sizes, key / sizes)]


@pytest.mark.extended
@pytest.mark.parametrize("norm", [0.5, 1])  # beyond, the fourth moment drowns an estimate of the variance
def test_bias_and_variance_of_fitted_features(norm):
    query, key = skewed(norm)
    draws = rows(4_000, 1, 4, seed=7).double()
    exact = torch.exp(query @ key.T)
    errors = {}
    for kernel in (softmax_kernel, saderf_kernel):
        estimates = torch.stack([kernel(query, key, draw, 0.0) for draw in draws])
        deviation = estimates.std(0)
        assert ((estimates.mean(0) - exact).abs() < 5 * deviation / len(estimates) ** 0.5).all()
        errors[kernel] = (deviation / exact).square().mean().sqrt()
    assert errors[saderf_kernel] < 0.8 * errors[softmax_kernel]
