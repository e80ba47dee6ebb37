"""Scans over long texts with extreme gates, what a token adds itself, exact look-ups, and the first weights."""

import pytest
import torch
from mechanism_cases import REFERENCES, assert_close, attend, build, cotangent_of, draw, masks
from torch.nn.functional import normalize, rms_norm, scaled_dot_product_attention, softplus

from lib.core.errors import ConfigError
from studies.since_2023.scans import delta_scan

NAMES = ("gated_linear", "delta", "delta-gated", "duality", "differential")


def gradients(output, leaves, cotangent):
    return [output.detach().double(), *torch.autograd.grad((output.double() * cotangent).sum(), leaves)]


@pytest.mark.parametrize("size", [1, 100])
@pytest.mark.parametrize("name", NAMES)
def test_long_text_by_the_reference(name, size):
    """States a hundred times as large close gates, or open them wide; weights have the gradients of the reference."""
    mechanism = build(name)
    rows, mask, cotangent = draw(mechanism, 4, 300), masks(300), cotangent_of(4, 300)
    heads, others = rows[:3], [states.detach().mul(size).requires_grad_() for states in rows[3:]]
    leaves, exact = [*heads, *others, *mechanism.parameters()], [each.double() for each in heads]
    reference = REFERENCES[mechanism.settings.kind].reference
    expected = reference(mechanism, *exact, mask, *(states[:, 0].double() for states in others))
    found, known = (
        gradients(each, leaves, cotangent) for each in (attend(mechanism, [*heads, *others], mask), expected)
    )
    scale = [each.abs().max().clamp(min=1).double() for each in known]
    assert_close(*([each / by for each, by in zip(part, scale, strict=True)] for part in (found, known)), 2e-5)


@pytest.mark.parametrize("name", NAMES[:-1])
def test_token_alone_counts_once(name):
    """It does so in the sums of both directions, whatever the tokens around it are."""
    mechanism, place = build(name), 6
    query, key, value, states = (rows.detach() for rows in draw(mechanism, 1, 13))
    value[:, :, torch.arange(13) != place] = 0
    found = mechanism.mix(query, key, value, None, states[:, 0])[:, :, place]
    share = (query * key).sum(-1, keepdim=True) / 8**0.5
    if name.startswith("delta"):
        share = (normalize(query, dim=-1) * normalize(key, dim=-1)).sum(-1, keepdim=True)
        share = share * mechanism.projected(states[:, 0], "strength")[0].sigmoid()
    if name == "duality":
        share = 1 + mechanism.projected(states[:, 0], "own")[0]
    torch.testing.assert_close(found, (share * value)[:, :, place])


def test_delta_of_a_key_written_again():
    keys, values = torch.eye(4)[[0, 1, 2, 0, 3]], torch.arange(20.0).view(5, 4)
    rows = (keys[[0, 0, 1, 1, 0]], keys, values, torch.zeros(5, 1), torch.ones(5, 1))
    found = delta_scan(*(each[None, None] for each in rows))[0, 0]
    torch.testing.assert_close(found, values[[0, 0, 1, 1, 3]], atol=1e-6, rtol=0)


def test_differential_without_its_second_map():
    mechanism = build("differential", layer=0)
    query, key, value = (rows.detach() for rows in draw(mechanism, 2, 20))
    with torch.no_grad():  # 1 - 1.2 + 0.2
        mechanism.factors[:2] = 0
        mechanism.factors[2:] = (torch.tensor(1.2).log() / 4) ** 0.5
    first = [rows[..., [0, 1, 4, 5]] for rows in (query, key)]
    expected = rms_norm(scaled_dot_product_attention(*first, value), (8,), eps=1e-5) * 0.8
    torch.testing.assert_close(mechanism(query, key, value), expected)
    with pytest.raises(ConfigError, match="10 wide"):
        build("differential", head_size=10)


def test_first_decays():
    gated, delta, duality = (build(name) for name in ("gated_linear", "delta-gated", "duality"))
    states = draw(gated, 1, 300)[3][:, 0]
    decays = gated.projected(states @ gated.narrow[:, None], "wide").sigmoid() ** (1 / 16)
    assert 0.9 < decays.min() < decays.mean() < 0.97
    steps = softplus(torch.cat([delta.bias, duality.bias]))
    assert 0.001 <= steps.min() < steps.max() <= 0.1
    assert 1 <= delta.rate.exp().min() < delta.rate.exp().max() <= 16
