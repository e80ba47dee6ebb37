import pytest
import torch

from lib.attention.contract import build
from lib.attention.settings import MECHANISMS
from lib.attention.topk.mechanism import highest


def topk(keys, *, heads=2, width=8, dropout=0.0):
    parameters = MECHANISMS.parse({"kind": "topk", "keys": keys})
    return build(parameters, num_heads=heads, head_size=width, layer=0, seed=0, dropout=dropout).eval()


def rows(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_highest_scores_and_the_first_of_equal_ones():
    for length, number in ((1, 1), (7, 3), (50, 50), (1000, 3), (1003, 7), (4096, 16)):
        plain = rows(20, length)
        ties = (plain * 2).round() * torch.tensor([1.0, -1.0])[torch.arange(20) % 2, None]  # 0 and -0, too
        for scores in (plain, ties):
            expected = scores.sort(descending=True, stable=True).indices[:, :number]
            assert torch.equal(highest(scores, number).sort().values, expected.sort().values)


def test_earlier_of_equal_keys_with_padding():
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
def test_choice_in_half_precision(dtype):
    query, key = rows(1, 2, 64, 8).to(dtype), rows(1, 2, 64, 8, seed=1).to(dtype)
    chosen = topk(3).weights(query, key) > 0
    with torch.autocast("cpu", dtype=dtype):
        value = torch.eye(64).view(1, 1, 64, 64)[..., :8].expand(1, 2, 64, 8)
        found = topk(3)(query, key, value)
    exact = query.float() @ key.float().mT
    expected = torch.zeros_like(chosen).scatter(-1, exact.topk(3).indices, True)
    assert torch.equal(chosen, expected)
    assert torch.equal(found != 0, expected[..., :8])


def test_dropout_of_chosen_keys():
    query, key = rows(1, 2, 200, 8), rows(1, 2, 200, 8, seed=1)
    ones = torch.ones_like(query)
    dropped = topk(8, dropout=0.5).train()(query, key, ones)
    assert dropped.std() > 0.1
    assert dropped.mean().item() == pytest.approx(1, abs=0.05)
