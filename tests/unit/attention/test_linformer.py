import pytest
import torch
from encoder_cases import EncoderForMaskedLM, labelled
from encoder_cases import build as build_model
from mechanism_cases import Largest, draw

from lib.attention import register_attention
from lib.attention.contract import build, mechanisms
from lib.attention.settings import MECHANISMS
from lib.backbones.encoder.configuration import EncoderConfig
from lib.core.errors import ConfigError


def linformer(rank, length, *, layer=0, seed=0, heads=2, width=8, dropout=0.0):
    parameters = MECHANISMS.parse({"kind": "linformer", "rank": rank, "length": length})
    return build(parameters, num_heads=heads, head_size=width, layer=layer, seed=seed, dropout=dropout).eval()


def test_the_identity_as_shares_gives_exact_attention():
    mechanism, tensors = linformer(20, 20), draw(linformer(20, 20), 2, 20)
    with torch.no_grad():
        mechanism.shares.copy_(torch.eye(20))
    exact = torch.nn.functional.scaled_dot_product_attention(*tensors)
    torch.testing.assert_close(mechanism(*tensors), exact, atol=1e-5, rtol=1e-5)


def test_shares_follow_the_places_among_real_tokens_and_get_their_gradient():
    mechanism, mask = linformer(3, 20), torch.ones(2, 12)
    mask[1, [0, 1, 6]] = 0
    query, key, value = (rows.detach() for rows in draw(mechanism, 2, 12))
    (found,) = torch.autograd.grad(mechanism(query, key, value, mask).square().sum(), mechanism.shares)
    total = 0
    for row in range(2):
        real = mask[row].bool()
        shares = mechanism.shares[: int(real.sum())].T
        q, k, v = (rows[row, :, real] for rows in (query, key, value))
        weights = (q @ (shares @ k).mT / 8**0.5).softmax(-1)
        total = total + (weights @ (shares @ v)).square().sum()
    (expected,) = torch.autograd.grad(total, mechanism.shares)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
    assert (found[12:] == 0).all()
    assert (found[:12] != 0).all()


def test_first_shares_belong_to_seed_and_layer_and_keep_the_size_of_tokens():
    drawn = [linformer(64, 512, **key).shares for key in ({}, {"seed": 1}, {"layer": 1})]
    assert torch.equal(drawn[0], linformer(64, 512).shares)
    assert not torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])
    assert drawn[0].std().item() == pytest.approx(512**-0.5, rel=0.02)
    with torch.device("meta"):
        mechanism = linformer(64, 512)
    mechanism.to_empty(device="cpu").reset_features()
    assert torch.equal(mechanism.shares, drawn[0])


def test_the_shares_are_nine_thousandths_of_the_grids_encoder():
    sizes = []
    for mechanism in ({"kind": "sdpa"}, {"kind": "linformer", "rank": 128, "length": 512}):
        with torch.device("meta"):
            model = EncoderForMaskedLM(EncoderConfig(vocab_size=30_522, mechanism=mechanism))
        sizes.append(sum(weight.numel() for weight in model.parameters()))
    assert sizes[1] - sizes[0] == 4 * 512 * 128
    assert sizes[1] / sizes[0] - 1 == pytest.approx(0.0092, abs=5e-5)


def test_no_square_of_the_length_is_formed():
    mechanism, length = linformer(16, 4096), 4096
    rows, mask = draw(mechanism, 1, length), torch.ones(1, length)
    mask[0, ::5] = 0
    with Largest() as largest:
        mechanism(*rows, mask).sum().backward()
    assert largest.elements <= length * 2 * 16


def test_the_encoder_trains_the_shares():
    model = build_model(EncoderForMaskedLM, mechanism={"kind": "linformer", "rank": 4, "length": 40}).train()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    before = [mechanism.shares.clone() for mechanism in mechanisms(model)]
    model(**labelled(model, 30, 12)).loss.backward()
    optimiser.step()
    for mechanism, shares in zip(mechanisms(model), before, strict=True):
        assert not torch.equal(mechanism.shares, shares)


def test_it_is_lent_to_no_foreign_model():
    with pytest.raises(ConfigError, match="linformer has weights of its own, which would never be trained"):
        register_attention({"linformer-k4": {"kind": "linformer", "rank": 4, "length": 40}})


def test_name_reach_and_cost():
    parsed = MECHANISMS.parse({"kind": "linformer", "rank": 128, "length": 512})
    assert (parsed.name(), parsed.longest(), parsed.keys_per_query(512)) == ("linformer-k128", 512, 256)
