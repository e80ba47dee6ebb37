import numpy
import torch
from transformers.models.big_bird.configuration_big_bird import BigBirdConfig
from transformers.models.big_bird.modeling_big_bird import BigBirdBlockSparseAttention, BigBirdModel

from lib.attention.contract import build
from lib.attention.settings import MECHANISMS

HEADS, WIDTH = 2, 8


def made(heads=HEADS, layer=0, seed=0, **settings):
    parameters = MECHANISMS.parse({"kind": "bigbird", **settings})
    return build(parameters, num_heads=heads, head_size=WIDTH, layer=layer, seed=seed).eval()


def test_equals_transformers_with_the_same_blocks(monkeypatch):
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


def test_random_blocks_are_keyed():
    first = made(block_size=4, seed=1, layer=2)
    found = first.lists(40)
    assert torch.equal(found, made(block_size=4, seed=1, layer=2).train().lists(40))
    others = [made(block_size=4, seed=seed, layer=layer).lists(40) for seed, layer in ((2, 2), (1, 3))]
    assert not any(torch.equal(found, other) for other in others)
    assert not torch.equal(found[:, 4:20, 5:], first.lists(41)[:, 4:20, 5:])
    assert not torch.equal(found[0], found[1])  # every head has its own
    assert first.state_dict() == {}
