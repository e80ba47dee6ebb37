import math
from itertools import pairwise

import pytest
import torch
from encoder_cases import fresh_python
from pydantic import ValidationError

from lib.attention.approximation_error import relative_error
from lib.attention.contract import build
from lib.attention.favor.mechanism import gaussian
from lib.attention.favor.reference import reference, saderf_kernel, softmax_kernel
from lib.attention.settings import MECHANISMS
from lib.core.errors import ConfigError


def favor(nb_features: int | None = 32, *, num_heads=2, head_size=8, layer=1, seed=3, dropout=0.0, **parameters):
    values = {"kind": "favor", "nb_features": nb_features} | parameters
    return build(
        MECHANISMS.parse(values), num_heads=num_heads, head_size=head_size, layer=layer, seed=seed, dropout=dropout
    ).eval()


def rows(*shape, seed=0, norm=None):
    tensor = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    return tensor if norm is None else tensor * norm / tensor.norm(dim=-1, keepdim=True)


def test_weight_dropout_is_refused():
    with pytest.raises(ConfigError, match="attention_dropout: favor never"):
        favor(dropout=0.1)


def test_a_bias_is_refused():
    parameters = MECHANISMS.parse({"kind": "favor", "nb_features": 8})
    with pytest.raises(ConfigError, match="favor forms no scores.*ALiBi"):
        build(parameters, num_heads=2, head_size=8, layer=0, seed=0, slopes=(0.5, 0.25))


@pytest.mark.parametrize("ortho_features", [True, False])
def test_the_error_falls_as_one_over_the_root_of_the_features(ortho_features):
    heads, width = 400, 8  # heads are independent draws of the same attention
    query, key, value = (rows(1, 1, 20, width, seed=seed).expand(1, heads, 20, width) for seed in range(3))
    query, key = query * 0.25, key * 0.25  # with large norms the root is reached only at many more features
    exact = (query @ key.transpose(-1, -2) / math.sqrt(width)).softmax(-1) @ value
    counts = [32, 128, 512, 2048]
    errors = []
    for count in counts:
        mechanism = favor(count, num_heads=heads, head_size=width, ortho_features=ortho_features)
        errors.append((mechanism(query, key, value) - exact).square().mean().sqrt().item())
    slopes = [math.log(later / earlier) / math.log(4) for earlier, later in pairwise(errors)]
    assert all(-0.58 < slope < -0.42 for slope in slopes), (errors, slopes)


def kernel_estimates(query, key, heads):
    """Return the mechanism's kernel estimate for one pair, of one draw (two columns) a head.

    With one token, a value of 1 and eps = 1 the output is K / (K + 1).
    """
    width = len(query)
    mechanism = favor(2, num_heads=heads, head_size=width, ortho_features=False, stabilize=False, eps=1.0)
    query, key = (row.mul(width**0.25).expand(1, heads, 1, width).double() for row in (query, key))
    output = mechanism(query, key, torch.ones_like(query))[0, :, 0, 0]
    return output / (1 - output)


def variances(query, key):
    """Return the closed-form variances at two columns: one draw of the cosh estimator, two of the exp estimator."""
    scale = math.exp(-(query @ query + key @ key).item())
    square = math.exp(2 * (query + key).square().sum().item())
    mean_square = math.exp(2 * (query @ key).item())
    return (1 + square) / 2 * scale - mean_square, (square * scale - mean_square) / 2


@pytest.mark.parametrize("seed", range(6))
def test_cosh_pairs_have_the_closed_form_variance_and_not_more_than_exp(seed):
    generator = torch.Generator().manual_seed(seed)
    query, key = (rows(4, seed=2 * seed + i, norm=1) * torch.rand(1, generator=generator) for i in range(2))
    if (query + key).norm() > 1:  # beyond, the fourth moment drowns an estimate of the variance
        key = -key
    heads = 40_000
    estimates = kernel_estimates(query, key, heads)
    cosh, exp = variances(query.double(), key.double())
    assert cosh <= exp
    exact = math.exp(query @ key)
    assert estimates.mean().item() == pytest.approx(exact, abs=5 * math.sqrt(cosh / heads) + 1e-6)
    assert estimates.var().item() == pytest.approx(cosh, rel=0.15)
    draws = gaussian(heads, 2, 4, generator=generator).double()
    ordinary = torch.exp(draws @ (query + key).double() - (query @ query + key @ key) / 2).mean(-1)
    assert ordinary.var().item() == pytest.approx(exp, rel=0.15)
    assert estimates.var() <= ordinary.var()


def test_cosh_and_exp_variance_over_all_norms_up_to_one():
    for seed in range(300):
        generator = torch.Generator().manual_seed(seed)
        query, key = (rows(6, seed=2 * seed + i, norm=1).double() for i in range(2))
        query, key = (row * torch.rand(1, generator=generator) for row in (query, key))
        cosh, exp = variances(query, key)
        assert cosh <= exp + 1e-12
        # Equation 3.56: the difference in closed form.
        gain = math.exp(-(query @ query + key @ key)) - math.exp(2 * query @ key)
        assert cosh - exp == pytest.approx(gain / 2, abs=1e-9)


def test_cosh_and_exp_variance_are_equal_for_opposite_vectors():
    query = rows(4, norm=1)
    estimates = kernel_estimates(query, -query, 1000)
    torch.testing.assert_close(estimates, torch.full_like(estimates, math.exp(-1)))
    assert variances(query.double(), -query.double()) == pytest.approx((0, 0), abs=1e-6)


@pytest.mark.parametrize("norm", [1, 5, 12])
@pytest.mark.parametrize("sign", [1, -1])
def test_eps_and_stabiliser_do_not_bias_the_result(norm, sign):
    mechanism = favor(64, head_size=16)
    query, value = rows(1, 2, 30, 16, norm=norm), rows(1, 2, 30, 16, seed=1)
    key = sign * query * torch.linspace(0.5, 1, 30)[:, None]
    expected = reference(mechanism, query.double(), key.double(), value.double(), torch.ones(1, 30))
    torch.testing.assert_close(mechanism(query, key, value).double(), expected, atol=3e-5, rtol=3e-5)


def test_a_distant_outlier_among_the_keys_leaves_the_others_their_weights():
    # One maximum over all columns would push the features of every other key to nothing here.
    mechanism = favor(64)
    query, key, value = rows(1, 2, 9, 8), rows(1, 2, 9, 8, seed=1), rows(1, 2, 9, 8, seed=2)
    key[:, :, 0] *= 12 / key[:, :, 0].norm(dim=-1, keepdim=True)
    query = query - 2 * key[:, :, :1] / 12
    expected = reference(mechanism, query.double(), key.double(), value.double(), torch.ones(1, 9))
    torch.testing.assert_close(mechanism(query, key, value).double(), expected, atol=1e-5, rtol=1e-5)


def test_orthogonal_features_are_gaussian_rows_orthogonal_in_blocks():
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


def test_independent_features_are_independent_and_heads_differ():
    features = favor(2 * 32, head_size=16, ortho_features=False).features
    assert (features[0] @ features[0].T - torch.diag(features[0].square().sum(-1))).abs().max() > 1
    assert not torch.equal(features[0], features[1])


def test_features_belong_to_seed_and_layer():
    drawn = [favor(**key).features for key in ({}, {"seed": 4}, {"layer": 2})]
    assert torch.equal(drawn[0], favor().features)
    assert not torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


def test_features_are_set_again_after_a_meta_construction():
    with torch.device("meta"):
        mechanism = favor()
    mechanism.to_empty(device="cpu")
    mechanism.reset_features()
    assert torch.equal(mechanism.features, favor().features)


@pytest.mark.parametrize("phi", ["exp", "relu", "elu"])
def test_the_number_of_columns_and_draws(phi):
    state = favor(None if phi == "elu" else 24, phi=phi).state_dict()
    assert {name: tuple(tensor.shape) for name, tensor in state.items()} == {
        "exp": {"features": (2, 12, 8)},
        "relu": {"features": (2, 24, 8)},
        "elu": {},
    }[phi]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"phi": "elu", "nb_features": 24}, "nb_features = 24, but phi = 'elu' draws none. Leave it out"),
        ({"phi": "elu", "features": "saderf"}, "features = 'saderf' are of phi = 'exp'"),
        ({"phi": "relu"}, "nb_features is missing. Expected the number of columns that phi = 'relu' draws"),
        ({}, "nb_features is missing. Expected the number of columns that phi = 'exp' draws"),
        ({"nb_features": 7}, "nb_features = 7 is odd"),
        ({"nb_features": 8, "phi": "relu", "features": "saderf"}, "features = 'saderf' are of phi = 'exp'"),
        (
            {"nb_features": 8, "stabilize": False, "features": "saderf"},
            "features = 'saderf' are of phi = 'exp', and stabilised",
        ),
    ],
)
def test_features_that_are_not_drawn_as_said_are_refused(parameters, message):
    with pytest.raises(ValidationError, match=message):
        MECHANISMS.parse({"kind": "favor"} | parameters)


@pytest.mark.parametrize(
    ("parameters", "name", "keys"),
    [
        ({"phi": "elu"}, "favor-elu", 128),
        ({"nb_features": 24}, "favor-m24", 48),
        ({"nb_features": 25, "phi": "relu"}, "favor-m25", 50),
        ({"nb_features": 24, "features": "saderf"}, "favor-saderf-m24", 48),
    ],
)
def test_name_and_cost_follow_the_columns(parameters, name, keys):
    parsed = MECHANISMS.parse({"kind": "favor"} | parameters)
    assert parsed.name() == name
    assert parsed.keys_per_query(16_384) == keys


def test_without_an_interval_steps_change_nothing():
    mechanism = favor()
    initial = mechanism.features.clone()
    for step in (1, 100):
        mechanism.set_step(step)
    assert torch.equal(mechanism.features, initial)


def test_redraws_at_multiples_of_the_interval_and_resumes_with_the_same():
    mechanism = favor(redraw_interval=3)
    history = []
    for step in range(8):
        mechanism.set_step(step)
        history.append(mechanism.features.clone())
    assert torch.equal(history[0], favor().features)
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


def test_loaded_features_stay_until_the_first_redraw():
    mechanism = favor(redraw_interval=3)
    loaded = favor(seed=9).features
    mechanism.load_state_dict({"features": loaded})
    mechanism.set_step(2)
    assert torch.equal(mechanism.features, loaded)
    mechanism.set_step(3)
    assert not torch.equal(mechanism.features, loaded)


def test_features_survive_in_a_fresh_process_with_another_seed(tmp_path):
    mechanism, value = favor(seed=5), rows(1, 2, 9, 8)
    torch.save((mechanism.state_dict(), value, mechanism(value, value, value)), tmp_path / "saved.pt")
    program = f"""
import torch
from lib.attention.contract import build
from lib.attention.settings import MECHANISMS
state, value, output = torch.load({str(tmp_path / "saved.pt")!r})
mechanism = build(MECHANISMS.parse({{"kind": "favor", "nb_features": 32}}), num_heads=2, head_size=8, layer=1, seed=6)
assert not torch.allclose(mechanism(value, value, value), output)
mechanism.load_state_dict(state)
torch.testing.assert_close(mechanism(value, value, value), output)
"""
    fresh_python(program)


def test_stabilised_attention_is_an_average_of_the_values():
    query, key = rows(2, 2, 40, 8, norm=20), rows(2, 2, 40, 8, seed=1, norm=20)
    value = torch.ones(2, 2, 40, 8)
    torch.testing.assert_close(favor(64)(query, key, value), value)


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


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_studys_favor_differs_by_the_floor_of_its_denominator_and_by_its_epsilon_and_not_by_rounding(dtype):
    """The study stabilises numerator and denominator alike, and then lets no denominator below 1e-6."""
    mechanism = favor(512, num_heads=8, head_size=64)
    query, key, value = (rows(1, 8, 128, 64, seed=seed).to(dtype) for seed in range(3))
    ours = mechanism(query, key, value)

    def distance(eps, floor):
        theirs, denominator = published_attention(mechanism, query, key, value, eps=eps, floor=floor)
        return (theirs - ours).abs().amax(-1, keepdim=True), denominator

    exact, _ = distance(0.0, 0.0)
    assert exact.max() < {torch.float32: 5e-6, torch.float64: 1e-13}[dtype]
    floored, denominator = distance(0.0, 1e-6)
    assert floored[denominator < 1e-6].max() > 0.05  # such tokens get less than the mean of the values
    assert floored[denominator >= 1e-6].max() < 5e-6
    with_eps, _ = distance(1e-6, 0.0)
    assert with_eps.max() > 1e-3


def test_settings_of_usual_features_are_those_of_before():
    assert "features" not in MECHANISMS.parse({"kind": "favor", "nb_features": 8}).model_dump()
    assert (
        MECHANISMS.parse({"kind": "favor", "nb_features": 8, "features": "saderf"}).model_dump()["features"] == "saderf"
    )


def skewed(norm, length=6, width=4, seed=0):
    """Return queries and keys whose dimensions differ in size, and not alike."""
    query, key = (rows(length, width, seed=2 * seed + number).double() for number in range(2))
    sizes = torch.linspace(-1, 1, width).exp()
    return [each * norm / each.norm(dim=-1, keepdim=True) for each in (query * sizes, key / sizes)]


@pytest.mark.parametrize("norm", [0.5, 1])  # beyond, the fourth moment drowns an estimate of the variance
def test_fitted_features_are_unbiased_and_vary_less(norm):
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


@pytest.mark.parametrize(("norm", "of_even", "of_skewed"), [(1, 0.9, 0.5), (2, 0.9, 0.3), (4, 1.1, 0.3), (8, 1.3, 0.4)])
def test_the_error_of_fitted_features_beside_the_usual_ones(norm, of_even, of_skewed):
    """Fitted features are nearer at norms 1 and 2, and far nearer where dimensions differ in size."""
    for sizes, allowed in ((torch.ones(32), of_even), (torch.linspace(-1.5, 1.5, 32).exp(), of_skewed)):
        errors = dict.fromkeys(["positive", "saderf"], 0.0)
        for seed in range(3):
            query, key, value = (rows(1, 1, 256, 32, seed=3 * seed + number).double() for number in range(3))
            query, key = (each * norm / each.norm(dim=-1, keepdim=True) for each in (query * sizes, key / sizes))
            exact = torch.nn.functional.scaled_dot_product_attention(query, key, value)
            for features in errors:
                mechanism = favor(128, num_heads=1, head_size=32, seed=seed, features=features)
                errors[features] += relative_error(mechanism(query, key, value)[0, 0], exact[0, 0]).item()
        assert errors["saderf"] < allowed * errors["positive"]
