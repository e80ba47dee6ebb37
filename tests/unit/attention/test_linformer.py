import pytest
import torch
from mechanism_cases import draw

from lib.attention.contract import build
from lib.attention.settings import MECHANISMS


def linformer(rank, length, *, layer=0, seed=0, heads=2, width=8, dropout=0.0):
    parameters = MECHANISMS.parse({"kind": "linformer", "rank": rank, "length": length})
    return build(parameters, num_heads=heads, head_size=width, layer=layer, seed=seed, dropout=dropout).eval()


def test_exact_attention_by_the_identity_as_shares():
    mechanism, tensors = linformer(20, 20), draw(linformer(20, 20), 2, 20)
    with torch.no_grad():
        mechanism.shares.copy_(torch.eye(20))
    exact = torch.nn.functional.scaled_dot_product_attention(*tensors)
    torch.testing.assert_close(mechanism(*tensors), exact, atol=1e-5, rtol=1e-5)


def test_shares_and_their_gradient_with_padding():
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


def test_first_shares_are_keyed():
    drawn = [linformer(64, 512, **key).shares for key in ({}, {"seed": 1}, {"layer": 1})]
    assert torch.equal(drawn[0], linformer(64, 512).shares)
    assert not torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])
    assert drawn[0].std().item() == pytest.approx(512**-0.5, rel=0.02)
    with torch.device("meta"):
        mechanism = linformer(64, 512)
    mechanism.to_empty(device="cpu").reset_features()
    assert torch.equal(mechanism.shares, drawn[0])
