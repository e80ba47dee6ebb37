import pytest
import torch

from lib.attention.contract import build
from lib.attention.settings import MECHANISMS
from lib.attention.topk import mechanism
from lib.attention.topk.mechanism import highest


def topk(keys, *, heads=2, width=8, dropout=0.0):
    parameters = MECHANISMS.parse({"kind": "topk", "keys": keys})
    return build(parameters, num_heads=heads, head_size=width, layer=0, seed=0, dropout=dropout).eval()


def rows(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("keys", [50, 80])
def test_as_many_keys_as_tokens_give_exact_attention(keys):
    tensors = [rows(2, 2, 50, 8, seed=seed).requires_grad_() for seed in range(3)]
    mask = torch.ones(2, 50, dtype=torch.bool)
    mask[1, 30:] = False
    results = []
    for attend in (
        lambda: topk(keys)(*tensors, mask),
        lambda: torch.nn.functional.scaled_dot_product_attention(*tensors, attn_mask=mask[:, None, None]),
    ):
        output = attend() * mask[:, None, :, None]
        results.append([output, *torch.autograd.grad(output.square().sum(), tensors)])
    for mine, exact in zip(*results, strict=True):
        torch.testing.assert_close(mine, exact, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("length", "number"), [(1, 1), (7, 3), (50, 50), (1000, 3), (1003, 7), (4096, 16)])
@pytest.mark.parametrize("ties", [False, True])
def test_the_highest_scores_are_found_and_of_equal_ones_the_first(length, number, ties):
    scores = rows(20, length)
    if ties:
        scores = (scores * 2).round().sub(0.0) * torch.tensor([1.0, -1.0])[torch.arange(20) % 2, None]  # 0 and -0, too
    expected = scores.sort(descending=True, stable=True).indices[:, :number]
    assert torch.equal(highest(scores, number).sort().values, expected.sort().values)


@pytest.mark.parametrize("ties", [False, True])
def test_a_dense_mask_chooses_the_same_keys(ties, monkeypatch):
    tensors = [rows(3, 2, 90, 8, seed=seed).double() for seed in range(3)]
    tensors = [(each.round() if ties else each).requires_grad_() for each in tensors]
    mask = torch.ones(3, 90)
    mask[1, 40:] = mask[2, :70] = 0
    results = []
    for longest in (512, 0):
        monkeypatch.setattr(mechanism, "DENSE", longest)
        output = topk(7)(*tensors, mask)
        results.append([output, *torch.autograd.grad(output.square().sum(), tensors)])
    for dense, gathered in zip(*results, strict=True):
        torch.testing.assert_close(dense, gathered, atol=1e-12, rtol=1e-12)


def test_equal_keys_give_way_to_the_earlier_wherever_padding_stands():
    length = 12
    query, value = rows(1, 2, length, 8), rows(1, 2, length, 8, seed=1)
    key = rows(1, 2, 1, 8, seed=2).expand(1, 2, length, 8)
    mask = torch.ones(1, length)
    mask[0, [0, 3, 4]] = 0
    weights = topk(4).weights(query, key, mask)
    expected = torch.zeros(length)
    expected[[1, 2, 5, 6]] = 0.25
    real = mask[0].bool()
    torch.testing.assert_close(weights[0, :, real], expected.expand(2, int(real.sum()), length))
    assert topk(4)(query, key, value, mask).isfinite().all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_choice_is_made_in_float32(dtype):
    query, key = rows(1, 2, 64, 8).to(dtype), rows(1, 2, 64, 8, seed=1).to(dtype)
    chosen = topk(3).weights(query, key) > 0
    with torch.autocast("cpu", dtype=dtype):
        value = torch.eye(64).view(1, 1, 64, 64)[..., :8].expand(1, 2, 64, 8)
        found = topk(3)(query, key, value)
    exact = query.float() @ key.float().mT
    expected = torch.zeros_like(chosen).scatter(-1, exact.topk(3).indices, True)
    assert torch.equal(chosen, expected)
    assert torch.equal(found != 0, expected[..., :8])


def test_dropout_drops_weights_of_chosen_keys():
    query, key = rows(1, 2, 200, 8), rows(1, 2, 200, 8, seed=1)
    ones = torch.ones_like(query)
    dropped = topk(8, dropout=0.5).train()(query, key, ones)
    assert dropped.std() > 0.1
    assert dropped.mean().item() == pytest.approx(1, abs=0.05)


def test_name_and_cost():
    parsed = MECHANISMS.parse({"kind": "topk", "keys": 64})
    assert (parsed.name(), parsed.keys_per_query(32), parsed.keys_per_query(16_384)) == ("topk-k64", 48, 64 + 8192)
