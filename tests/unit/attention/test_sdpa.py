import math

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from lib.attention.contract import build
from lib.attention.settings import MECHANISMS


def sdpa(native, **changes):
    arguments = {"num_heads": 2, "head_size": 8, "layer": 0, "seed": 0} | changes
    return build(MECHANISMS.parse({"kind": "sdpa", "use_native_sdpa": native}), **arguments)


def rows(length, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(2, 2, length, 8, generator=generator) for _ in range(3)]


class Kernels(TorchDispatchMode):
    """Records the fused kernels called, and their masks."""

    def __init__(self):
        super().__init__()
        self.masks = []

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        if "scaled_dot_product" in str(function):
            self.masks.append((keywords or {}).get("attn_mask"))
        return function(*arguments, **(keywords or {}))


def test_without_padding_the_fused_kernel_runs_without_a_mask():
    with Kernels() as kernels:
        sdpa(True)(*rows(20))
        sdpa(True)(*rows(20), torch.ones(2, 20))
        sdpa(False)(*rows(20))
    assert len(kernels.masks) == 2
    assert kernels.masks[0] is None
    assert kernels.masks[1] is not None


@pytest.mark.parametrize("native", [True, False])
def test_dropout_acts_on_the_weights_in_training_only(native):
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


def test_alibi_is_the_same_in_the_fused_kernel_and_in_plain_operations():
    tensors, cotangent, mask = rows(30), rows(30, seed=1)[0], torch.ones(2, 30)
    mask[1, 4:9] = mask[1, 25:] = 0
    results = []
    for native in (True, False):
        leaves = [tensor.clone().requires_grad_() for tensor in tensors]
        output = sdpa(native, slopes=(0.7, 0.1))(*leaves, mask)
        results.append([output, *torch.autograd.grad((output * cotangent).sum(), leaves)])
    torch.testing.assert_close(*results, atol=1e-5, rtol=1e-5)
    assert (results[0][0] - sdpa(True)(*tensors, mask)).abs().max() > 0.1


def test_alibi_is_one_mask_for_all_rows_without_padding():
    with Kernels() as kernels:
        sdpa(True, slopes=(0.5, 0.25))(*rows(20))
    assert [tuple(mask.shape) for mask in kernels.masks] == [(1, 2, 20, 20)]
