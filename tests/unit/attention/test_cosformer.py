import math

import torch

from lib.advice.cost import KeptBytes
from lib.attention.contract import build
from lib.attention.cosformer.reference import reference
from lib.attention.settings import MECHANISMS


def cosformer(**settings):
    parameters = MECHANISMS.parse({"kind": "cosformer"} | settings)
    return build(parameters, num_heads=2, head_size=8, layer=0, seed=0).eval()


def rows(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_equal_keys_are_weighed_by_the_cosine_of_the_distance_over_the_rows_own_length():
    ones, mask = torch.ones(2, 2, 9, 8), torch.ones(2, 9)
    mask[1, [0, 4, 5, 8]] = 0
    weights = cosformer().weights(ones, ones, mask)
    for row, real in enumerate(mask):
        places = real.nonzero().squeeze(-1)
        ranks = torch.arange(len(places))
        kernel = torch.cos(math.pi / 2 * (ranks[:, None] - ranks) / len(places))
        expected = kernel / kernel.sum(-1, keepdim=True)
        torch.testing.assert_close(weights[row, 0][places][:, places], expected)


def test_a_query_that_matches_no_key_has_weights_too():
    query, key = -torch.ones(1, 2, 5, 8), rows(1, 2, 5, 8).abs()
    weights = cosformer().weights(query, key)
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 2, 5))
    assert (weights > 0).all()


def test_the_default_eps_moves_outputs_of_random_rows_by_less_than_a_ten_thousandth():
    query, key, value = (rows(1, 2, 200, 8, seed=seed).double() for seed in range(3))
    found = cosformer()(query.float(), key.float(), value.float()).double()
    without = reference(cosformer(eps=1e-300), query, key, value, torch.ones(1, 200))
    # A query whose dimensions are all negative is left out: without eps, it divides 0 by 0.
    matched = (query > 0).any(-1)
    torch.testing.assert_close(found[matched], without[matched], atol=1e-4, rtol=0)


def test_the_backward_pass_keeps_as_many_rows_as_exact_attention():
    tensors = [rows(1, 2, 512, 8, seed=seed).requires_grad_() for seed in range(3)]
    kept = []
    for attend in (cosformer(), torch.nn.functional.scaled_dot_product_attention):
        with KeptBytes([]) as bytes_kept:
            attend(*tensors)
        kept.append(bytes_kept.total)
    assert kept[0] <= 1.1 * kept[1]
