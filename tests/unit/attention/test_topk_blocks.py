import pytest
import torch

from lib.advice.cost import KeptBytes
from lib.attention.block_sparse import computation
from lib.attention.contract import build
from lib.attention.settings import MECHANISMS
from lib.attention.topk_blocks.reference import reference


def by_blocks(block_size=4, blocks=2, window=1, *, heads=2, width=8, dropout=0.0):
    settings = {"kind": "topk_blocks", "block_size": block_size, "blocks": blocks, "window": window}
    return build(MECHANISMS.parse(settings), num_heads=heads, head_size=width, layer=0, seed=0, dropout=dropout).eval()


def rows(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("blocks", "window"), [(13, 0), (13, 2), (11, 1), (1, 12)])
def test_all_blocks_give_exact_attention(blocks, window):
    query, key, value = (rows(2, 2, 50, 8, seed=seed) for seed in range(3))
    mask = torch.ones(2, 50, dtype=torch.bool)
    mask[1, ::3] = False
    exact = torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask[:, None, None])
    found = by_blocks(4, blocks, window)(query, key, value, mask)
    torch.testing.assert_close(found, exact * mask[:, None, :, None], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("block_size", "blocks", "window"), [(1, 3, 0), (7, 1, 0), (16, 1, 0), (5, 2, 3)])
@pytest.mark.parametrize("length", [5, 49, 65])
def test_sizes_and_windows_equal_the_reference(block_size, blocks, window, length):
    query, key, value = (rows(2, 2, length, 8, seed=seed) for seed in range(3))
    mask = torch.ones(2, length)
    mask[1, ::4] = 0
    mechanism = by_blocks(block_size, blocks, window)
    expected = reference(mechanism, query.double(), key.double(), value.double(), mask)
    torch.testing.assert_close(mechanism(query, key, value, mask).double(), expected, atol=1e-5, rtol=1e-5)


def test_a_block_far_away_is_seen_if_it_matches():
    key, length = rows(1, 1, 64, 8) / 10, 64
    query = key.clone()
    query[:, :, :4], key[:, :, 40:44] = 3.0, 3.0
    weights = by_blocks(4, 1, 0, heads=1).weights(query, key)[0, 0]
    assert (weights[:4, 40:44] > 0).all()
    assert ((weights > 0).sum(-1) == 8).all()
    assert length == len(weights)


def test_of_equal_blocks_the_first_is_seen():
    same = torch.ones(1, 1, 24, 8)
    seen = by_blocks(4, 2, 0, heads=1).weights(same, same)[0, 0] > 0
    assert seen[20:].all(0).nonzero().squeeze(-1).tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 20, 21, 22, 23]
    assert seen[:4].all(0).nonzero().squeeze(-1).tolist() == list(range(12))


def test_the_backward_pass_drops_what_the_forward_pass_dropped(monkeypatch):
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


def test_the_backward_pass_keeps_as_many_rows_as_exact_attention():
    tensors = [rows(1, 2, 512, 8, seed=seed).requires_grad_() for seed in range(3)]
    kept = []
    for attend in (by_blocks(16), torch.nn.functional.scaled_dot_product_attention):
        with KeptBytes([]) as bytes_kept:
            attend(*tensors)
        kept.append(bytes_kept.total)
    assert kept[0] == kept[1] + (8 + 1) * 4  # an output and a normaliser for whatever is absent


def test_name_and_cost():
    parsed = MECHANISMS.parse({"kind": "topk_blocks", "block_size": 64, "blocks": 4})
    assert parsed.name() == "topk_blocks-b64-k4"
    assert (parsed.keys_per_query(100), parsed.keys_per_query(16_384)) == (100, 448)
