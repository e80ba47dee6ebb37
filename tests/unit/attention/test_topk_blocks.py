import pytest
import torch
from references.topk_blocks import reference

from lib.attention.block_sparse import computation
from lib.attention.contract import build
from lib.attention.settings import MECHANISMS


def by_blocks(block_size=4, blocks=2, window=1, *, heads=2, width=8, dropout=0.0):
    settings = {"kind": "topk_blocks", "block_size": block_size, "blocks": blocks, "window": window}
    return build(MECHANISMS.parse(settings), num_heads=heads, head_size=width, layer=0, seed=0, dropout=dropout).eval()


def rows(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("block_size", "blocks", "window"), [(1, 3, 0), (7, 1, 0), (16, 1, 0), (5, 2, 3)])
def test_sizes_and_windows_equal_the_reference(block_size, blocks, window):
    mechanism = by_blocks(block_size, blocks, window)
    for length in (5, 49, 65):
        query, key, value = (rows(2, 2, length, 8, seed=seed) for seed in range(3))
        mask = torch.ones(2, length)
        mask[1, ::4] = 0
        expected = reference(mechanism, query.double(), key.double(), value.double(), mask)
        torch.testing.assert_close(mechanism(query, key, value, mask).double(), expected, atol=1e-5, rtol=1e-5)


def test_first_of_equal_blocks():
    same = torch.ones(1, 1, 24, 8)
    seen = by_blocks(4, 2, 0, heads=1).weights(same, same)[0, 0] > 0
    assert seen[20:].all(0).nonzero().squeeze(-1).tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 20, 21, 22, 23]
    assert seen[:4].all(0).nonzero().squeeze(-1).tolist() == list(range(12))


def test_backward_pass_with_dropout(monkeypatch):
    monkeypatch.setitem(computation.SCORES, "cpu", 200)  # many parts, each computed again
    mechanism = by_blocks(dropout=0.4).train()
    query, key, value, cotangent = (rows(2, 2, 50, 8, seed=seed).double() for seed in range(4))

    def output(value):
        torch.manual_seed(5)
        return (mechanism(query, key, value) * cotangent).sum()

    value.requires_grad_()
    total = output(value)
    (of_value,) = torch.autograd.grad(total, value)
    assert (of_value * value).sum().item() == pytest.approx(total.item(), rel=1e-9)  # linear in the values
