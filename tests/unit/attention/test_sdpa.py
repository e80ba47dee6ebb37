import math

import pytest
import torch

from lib.attention.contract import build
from lib.attention.settings import MECHANISMS


def sdpa(native, **changes):
    arguments = {"num_heads": 2, "head_size": 8, "layer": 0, "seed": 0} | changes
    return build(MECHANISMS.parse({"kind": "sdpa", "use_native_sdpa": native}), **arguments)


def rows(length, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(2, 2, length, 8, generator=generator) for _ in range(3)]


@pytest.mark.parametrize("native", [True, False])
def test_dropout_in_training_only(native):
    query, key, _ = rows(200)
    value = torch.ones_like(query)
    mechanism = sdpa(native, dropout=0.5)
    torch.manual_seed(0)
    dropped = mechanism.train()(query, key, value)
    assert dropped.std() > 0.02
    assert dropped.mean().item() == pytest.approx(1, abs=0.02)
    torch.testing.assert_close(mechanism.eval()(query, key, value), value)


@pytest.mark.parametrize("native", [True, False])
def test_alibi_by_hand(native):
    mechanism = sdpa(native, slopes=(math.log(2), 0.0))  # each column away halves the weight
    zeros = torch.zeros(1, 2, 3, 8)
    halving = [[4 / 7, 2 / 7, 1 / 7], [1 / 4, 1 / 2, 1 / 4], [1 / 7, 2 / 7, 4 / 7]]
    expected = torch.tensor([halving, [[1 / 3] * 3] * 3])
    torch.testing.assert_close(mechanism.weights(zeros, zeros)[0], expected)
    # Padding in the middle takes no weight, but stays between its neighbours.
    expected = torch.tensor([[4 / 5, 0, 1 / 5], [0, 0, 0], [1 / 5, 0, 4 / 5]])
    torch.testing.assert_close(mechanism.weights(zeros, zeros, torch.tensor([[1, 0, 1]]))[0, 0], expected)
