import pytest
import torch
from torch import nn

from lib.attention.contract import set_step
from lib.attention.registry import build
from lib.core.kinds import MECHANISMS


def test_set_step_reaches_every_mechanism_of_a_tree():
    sdpa = MECHANISMS.parse({"kind": "sdpa"})
    mechanisms = [build(sdpa, num_heads=1, head_size=4, layer=layer, seed=0) for layer in range(3)]
    set_step(nn.ModuleDict({"a": mechanisms[0], "b": nn.Sequential(nn.Identity(), nn.ModuleList(mechanisms[1:]))}), 5)
    assert [mechanism.step for mechanism in mechanisms] == [5, 5, 5]


@pytest.mark.parametrize("shape", [(2, 4), (2, 1, 1, 5), (5,)])
def test_a_mask_of_another_shape_is_refused(shape):
    rows = torch.zeros(2, 1, 5, 4)
    sdpa = MECHANISMS.parse({"kind": "sdpa"})
    with pytest.raises(ValueError, match=r"expected \[B, N\] = \(2, 5\)"):
        build(sdpa, num_heads=1, head_size=4, layer=0, seed=0)(rows, rows, rows, torch.ones(shape))


def test_a_key_of_its_own_is_refused_where_query_and_key_are_shared():
    parameters = MECHANISMS.parse({"kind": "lsh", "num_hashes": 1, "chunk_size": 2})
    rows = torch.zeros(2, 1, 5, 4)
    with pytest.raises(ValueError, match="same tensor"):
        build(parameters, num_heads=1, head_size=4, layer=0, seed=0)(rows, rows.clone(), rows)
