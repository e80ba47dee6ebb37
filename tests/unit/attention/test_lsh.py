import math

import pytest
import torch

from lib.attention.contract import build
from lib.attention.lsh.mechanism import BLOCK, SCORES
from lib.attention.settings import MECHANISMS

CPU = torch.device("cpu")


def lsh(chunk_size=4, num_hashes=2, masked=False, join="mean", **changes):
    arguments = {"num_heads": 2, "head_size": 8, "layer": 1, "seed": 3} | changes
    values = {"kind": "lsh", "num_hashes": num_hashes, "chunk_size": chunk_size, "mask_within_chunks": masked}
    values |= {"join": join}
    return build(MECHANISMS.parse(values), **arguments).eval()


def rows(batch, length, heads=2, width=8, seed=0):
    return torch.randn(batch, heads, length, width, generator=torch.Generator().manual_seed(seed))


def rotations(mechanism, columns):
    return torch.cat([*mechanism.rotations(columns, CPU)], dim=-1)[..., :columns]  # [H, d, R, columns]


@pytest.mark.parametrize(("real_tokens", "buckets"), [(1, 2), (8, 2), (9, 4), (17, 6), (200, 50)])
def test_hash_by_the_number_of_real_tokens(real_tokens, buckets):
    mechanism, length = lsh(), 200
    query = rows(2, length)
    real = torch.ones(2, length, dtype=torch.bool)
    real[0] = False
    chosen = torch.randperm(length, generator=torch.Generator().manual_seed(1))[:real_tokens]
    real[0, chosen] = True
    codes = mechanism.hash(query, real)
    assert (codes[0][..., ~real[0]] == length).all()
    projections = torch.einsum("hnd,hdrc->hrnc", query[0], rotations(mechanism, buckets // 2))
    expected = torch.cat([projections, -projections], dim=-1).argmax(-1)
    assert torch.equal(codes[0][..., chosen], expected[..., chosen])
    # Every bucket is within reach.
    assert expected.max() < buckets
    alone = mechanism.hash(query[:1, :, chosen.sort().values], torch.ones(1, real_tokens, dtype=torch.bool))
    assert torch.equal(alone[0], codes[0][..., chosen.sort().values])


def test_ends_do_not_wrap_around():
    # Values mark the first and the last chunk of one long bucket: a query of one end must not see the other end.
    query = torch.zeros(1, 2, 16, 8)  # all in bucket 0, so position decides the order
    value = torch.zeros(1, 2, 16, 8)
    value[:, :, :4] = 1
    output = lsh(chunk_size=4)(query, query, value)
    assert (output[:, :, 8:] == 0).all()
    torch.testing.assert_close(output[:, :, 4:8], torch.full((1, 2, 4, 8), 4 / 11))  # 3 chunks without itself


def test_joined_rounds_count_a_token_once():
    """Where all scores are equal, so are the weights of all seen tokens; a mean prefers those of two rounds."""
    query, real = rows(1, 60), torch.ones(1, 60, dtype=torch.bool)
    joined, averaged = (lsh(join=join, num_hashes=3) for join in ("union", "mean"))
    codes = joined.hash(query, real)
    for mechanism in (joined, averaged):
        mechanism.hash = lambda *_: codes  # of other rows, whose scores are all zero
    joined, averaged = (mechanism.weights(*[torch.zeros_like(query)] * 2) for mechanism in (joined, averaged))
    seen = averaged > 0
    assert torch.equal(joined > 0, seen)
    torch.testing.assert_close(joined, seen / seen.sum(-1, keepdim=True))
    assert (averaged - joined).abs().max() > 0.01


def test_distribution_of_rotations():
    mechanism = lsh(num_hashes=4, head_size=32, num_heads=8)
    long = rotations(mechanism, 300)
    assert torch.equal(long[..., :3], rotations(lsh(num_hashes=4, head_size=32, num_heads=8), 3))
    assert torch.equal(long[..., : BLOCK + 1], rotations(mechanism, BLOCK + 1))
    assert long.var().item() == pytest.approx(1 / 32, rel=0.02)
    assert long.mean().item() == pytest.approx(0, abs=1e-3)
    # Heads, rounds and columns differ.
    assert len(torch.unique(long)) > 0.99 * long.numel()


def test_rotations_are_keyed():
    mechanism = lsh()
    evaluation = rotations(mechanism, 20)
    seen = [evaluation]
    mechanism.train()
    for step in (0, 1, 2):
        mechanism.set_step(step)
        seen.append(rotations(mechanism, 20))
        assert torch.equal(seen[-1], rotations(mechanism, 20))
        assert torch.equal(rotations(mechanism.eval(), 20), evaluation)
        mechanism.train()
    other = [rotations(lsh(seed=4), 20), rotations(lsh(layer=2), 20)]
    assert len({tuple(tensor.flatten().tolist()) for tensor in seen + other}) == 6
    mechanism.set_step(1)
    assert torch.equal(rotations(mechanism, 20), seen[2])
    with torch.device("meta"):  # the default device has no data
        assert torch.equal(rotations(lsh(), 20), evaluation)


def test_hash_under_autocast():
    mechanism, query, real = lsh(chunk_size=2), rows(2, 400), torch.ones(1, 400, dtype=torch.bool)
    expected = mechanism.hash(query, real)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(mechanism.hash(query, real), expected)


def test_dropout_in_training_only():
    query = rows(2, 200)
    value = torch.ones_like(query)
    mechanism = lsh(chunk_size=16, dropout=0.5)
    torch.manual_seed(0)
    dropped, other = (mechanism.train()(query, query, value) for _ in range(2))
    assert not torch.equal(dropped, other)
    torch.manual_seed(0)
    assert torch.equal(mechanism(query, query, value), dropped)
    assert dropped.std() > 0.02
    assert dropped.mean().item() == pytest.approx(1, abs=0.03)
    torch.testing.assert_close(mechanism.eval()(query, query, value), value)


@pytest.mark.parametrize(("masked", "join"), [(False, "mean"), (True, "union")])
def test_backward_pass_with_dropout(masked, join, monkeypatch):
    monkeypatch.setitem(SCORES, "cpu", 1000)  # many blocks, each with draws of its own
    mechanism = lsh(chunk_size=8, dropout=0.4, masked=masked, join=join).train()
    query, value, cotangent = rows(2, 100).double(), rows(2, 100, seed=1).double(), rows(2, 100, seed=2).double()

    def output(query, value):
        torch.manual_seed(5)
        return (mechanism(query, query, value) * cotangent).sum()

    query.requires_grad_(), value.requires_grad_()
    total = output(query, value)
    of_query, of_value = torch.autograd.grad(total, (query, value))
    # The output is linear in the values, and the hash codes do not change over so short a way.
    assert (of_value * value).sum().item() == pytest.approx(total.item(), rel=1e-9)
    direction, step = rows(2, 100, seed=3).double(), 1e-6
    slope = (output(query + step * direction, value) - output(query - step * direction, value)) / (2 * step)
    assert slope.item() == pytest.approx((of_query * direction).sum().item(), rel=1e-5)


def test_alibi_by_hand():
    zeros = torch.zeros(1, 2, 3, 8)
    weights = lsh(slopes=(math.log(2), 0.0)).weights(zeros, zeros)
    halving = torch.tensor([[0, 2 / 3, 1 / 3], [1 / 2, 0, 1 / 2], [1 / 3, 2 / 3, 0]])
    torch.testing.assert_close(weights[0, 0], halving)
    torch.testing.assert_close(weights[0, 1], (1 - torch.eye(3)) / 2)
