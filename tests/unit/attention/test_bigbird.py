import numpy
import pytest
import torch
from pydantic import ValidationError
from transformers.models.big_bird.configuration_big_bird import BigBirdConfig
from transformers.models.big_bird.modeling_big_bird import BigBirdBlockSparseAttention, BigBirdModel

from lib.attention.contract import build
from lib.attention.settings import MECHANISMS

HEADS, WIDTH = 2, 8


def made(heads=HEADS, layer=0, seed=0, **settings):
    parameters = MECHANISMS.parse({"kind": "bigbird", **settings})
    return build(parameters, num_heads=heads, head_size=WIDTH, layer=layer, seed=seed).eval()


def test_it_computes_what_transformers_does_with_the_same_random_blocks(monkeypatch):
    size, count, drawn = 4, 12, 3
    mechanism = made(block_size=size, random_blocks=drawn)
    lists = mechanism.lists(count)
    blocks = [numpy.array([sorted(set(found[5:].tolist())) for found in head[1:-1]]) for head in lists]
    monkeypatch.setattr(BigBirdBlockSparseAttention, "_bigbird_block_rand_mask_with_head", lambda *_, **__: blocks)
    torch.manual_seed(0)
    config = BigBirdConfig(
        hidden_size=HEADS * WIDTH, num_attention_heads=HEADS, block_size=size, num_random_blocks=drawn
    )
    theirs = BigBirdBlockSparseAttention(config).eval()
    states, mask = torch.randn(2, size * count, HEADS * WIDTH), torch.ones(2, size * count)
    blocked, band, of_queries, of_keys = BigBirdModel.create_masks_for_block_sparse_attn(mask, size)
    expected, _ = theirs(
        states,
        band_mask=band,
        from_mask=of_queries,
        to_mask=of_keys,
        from_blocked_mask=blocked,
        to_blocked_mask=blocked,
    )
    projected = [
        projection(states).unflatten(-1, (HEADS, WIDTH)).transpose(1, 2)
        for projection in (theirs.query, theirs.key, theirs.value)
    ]
    ours = mechanism(*projected).transpose(1, 2).flatten(2)
    torch.testing.assert_close(ours, expected, atol=1e-6, rtol=1e-5)


def test_random_blocks_are_a_function_of_seed_layer_and_real_length():
    first = made(block_size=4, seed=1, layer=2)
    found = first.lists(40)
    assert torch.equal(found, made(block_size=4, seed=1, layer=2).train().lists(40))
    others = [made(block_size=4, seed=seed, layer=layer).lists(40) for seed, layer in ((2, 2), (1, 3))]
    assert not any(torch.equal(found, other) for other in others)
    assert not torch.equal(found[:, 4:20, 5:], first.lists(41)[:, 4:20, 5:])
    assert not torch.equal(found[0], found[1])  # every head has its own
    assert first.state_dict() == {}


def test_random_blocks_are_drawn_evenly_from_those_that_are_not_seen_anyway():
    lists = made(heads=4_000, block_size=4, random_blocks=3).lists(12)
    for block in range(1, 11):
        drawn = lists[:, block, 5:]
        assert all(len(set(row)) == 3 for row in drawn[:200].tolist())
        allowed = sorted(set(range(1, 11)) - {block - 1, block, block + 1})
        share = torch.bincount(drawn.flatten(), minlength=12) / len(drawn)
        expected = torch.zeros(12)
        expected[allowed] = 3 / len(allowed)
        torch.testing.assert_close(share, expected, atol=0.05, rtol=0)


def test_names_and_work():
    mechanism = made()
    assert mechanism.settings.name() == "bigbird-b64-w3-g2-r3"
    assert mechanism.settings.keys_per_query(16_384) == 512
    assert mechanism.settings.keys_per_query(100) == 100


def test_a_window_has_as_many_blocks_on_each_side():
    with pytest.raises(ValidationError, match="window_blocks = 2 is even.*Use 3"):
        made(window_blocks=2)
