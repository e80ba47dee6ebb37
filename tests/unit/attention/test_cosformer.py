import math

import torch

from lib.attention.contract import build
from lib.attention.settings import MECHANISMS


def cosformer(**settings):
    parameters = MECHANISMS.parse({"kind": "cosformer"} | settings)
    return build(parameters, num_heads=2, head_size=8, layer=0, seed=0).eval()


def test_equal_keys_are_weighed_by_their_distance():
    ones, mask = torch.ones(2, 2, 9, 8), torch.ones(2, 9)
    mask[1, [0, 4, 5, 8]] = 0
    weights = cosformer().weights(ones, ones, mask)
    for row, real in enumerate(mask):
        places = real.nonzero().squeeze(-1)
        ranks = torch.arange(len(places))
        kernel = torch.cos(math.pi / 2 * (ranks[:, None] - ranks) / len(places))
        expected = kernel / kernel.sum(-1, keepdim=True)
        torch.testing.assert_close(weights[row, 0][places][:, places], expected)


def test_weights_of_a_query_that_matches_no_key():
    query, key = -torch.ones(1, 2, 5, 8), torch.rand(1, 2, 5, 8)
    weights = cosformer().weights(query, key)
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 2, 5))
    assert (weights > 0).all()
