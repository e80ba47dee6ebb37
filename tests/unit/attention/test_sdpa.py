import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from lib.attention.registry import build
from lib.core.kinds import MECHANISMS


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
