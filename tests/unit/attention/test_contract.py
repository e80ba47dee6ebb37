import pytest
import torch
from torch import nn

from lib.attention import kernels as kernels_of_attention
from lib.attention.contract import Attention, set_kernels, set_step
from lib.attention.registry import build
from lib.attention.settings import MECHANISMS
from lib.core.errors import RunError


def test_set_step_reaches_every_mechanism_of_a_tree():
    sdpa = MECHANISMS.parse({"kind": "sdpa"})
    mechanisms = [build(sdpa, num_heads=1, head_size=4, layer=layer, seed=0) for layer in range(3)]
    set_step(nn.ModuleDict({"a": mechanisms[0], "b": nn.Sequential(nn.Identity(), nn.ModuleList(mechanisms[1:]))}), 5)
    assert [mechanism.step for mechanism in mechanisms] == [5, 5, 5]


def favor(kernels):
    """Return FAVOR+ in a tree that was told what to compute with, and rows to attend to."""
    mechanism = build(MECHANISMS.parse({"kind": "favor", "nb_features": 8}), num_heads=1, head_size=4, layer=0, seed=0)
    set_kernels(nn.Sequential(nn.Identity(), mechanism), kernels)
    return mechanism, torch.zeros(1, 1, 5, 4)


@pytest.mark.parametrize("kernels", ["auto", "torch"])
def test_a_mechanism_computes_with_torch_unless_it_is_told_otherwise(kernels):
    mechanism, rows = favor(kernels)
    assert mechanism.computed_by is None
    mechanism(rows, rows, rows)
    assert mechanism.computed_by == "torch"


def test_exact_attention_has_no_kernels_and_says_nothing_of_them():
    mechanism = build(MECHANISMS.parse({"kind": "sdpa"}), num_heads=1, head_size=4, layer=0, seed=0)
    set_kernels(mechanism, "triton")
    rows = torch.zeros(1, 1, 5, 4)
    mechanism(rows, rows, rows)
    assert mechanism.computed_by is None


def test_kernels_without_a_gpu_are_refused(monkeypatch):
    pytest.importorskip("triton", reason="without triton: make .venv/.kernels")
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    mechanism, rows = favor("triton")
    with pytest.raises(
        RunError, match=r"kernels is 'triton', but the model is on cpu. Expected a GPU; .*use 'auto' or 'torch'"
    ):
        mechanism(rows, rows, rows)


def test_kernels_refuse_numbers_that_they_cannot_take():
    pytest.importorskip("triton", reason="without triton: make .venv/.kernels")
    mechanism, rows = favor("triton")
    with pytest.raises(RunError, match="numbers are torch.float64. Expected float32, bfloat16, float16; use 'auto' or"):
        mechanism(*[rows.double()] * 3)


def test_kernels_without_triton_say_what_to_install(monkeypatch):
    monkeypatch.setattr(kernels_of_attention, "_triton_is_there", lambda: False)
    mechanism, rows = favor("triton")
    with pytest.raises(RunError, match="kernels is 'triton', but the package triton is not installed. Install it"):
        mechanism(rows, rows, rows)


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


class Mean(Attention):
    """Gives every token the mean of its row, and nothing but `attend`."""

    def attend(self, query, key, value, real):
        assert value.shape == query.shape
        count = value.shape[2] if real is None else real.sum(-1)[:, None, None, None].clamp(min=1)
        return (value.sum(2, keepdim=True) / count).expand_as(value)


@pytest.mark.parametrize("length", [1, 4, 7, 8])
def test_a_mechanism_need_not_know_of_weights(length):
    sdpa = MECHANISMS.parse({"kind": "sdpa"})
    mechanism = Mean(parameters=sdpa, num_heads=3, head_size=4, layer=0, seed=0)
    rows = torch.zeros(2, 3, length, 4)
    uniform = torch.full((2, 3, length, length), 1 / length)
    torch.testing.assert_close(mechanism.weights(rows, rows), uniform)
    mask = torch.ones(2, length)
    mask[1, 1:] = 0
    weights = mechanism.weights(rows, rows, mask)
    torch.testing.assert_close(weights[0], uniform[0])
    assert weights[1].sum(dim=(1, 2)).tolist() == [1, 1, 1]
    assert weights[1, :, 0, 0].tolist() == [1, 1, 1]


def test_weights_check_their_arguments():
    lsh = MECHANISMS.parse({"kind": "lsh", "num_hashes": 1, "chunk_size": 2})
    mechanism, rows = build(lsh, num_heads=1, head_size=4, layer=0, seed=0), torch.zeros(2, 1, 5, 4)
    with pytest.raises(ValueError, match="same tensor"):
        mechanism.weights(rows, rows.clone())
    with pytest.raises(ValueError, match=r"expected \[B, N\]"):
        mechanism.weights(rows, rows, torch.ones(2, 4))
