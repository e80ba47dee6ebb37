"""How kernels are chosen and started, whatever they compute."""

from types import SimpleNamespace

import pytest
import torch

from lib.attention import kernels
from lib.attention.kernels import by_triton, launch
from lib.core.errors import RunError

pytest.importorskip("triton", reason="without triton: make .venv/.kernels")
pytestmark = pytest.mark.extended


class Kernel:
    """Stands for a function of triton.jit: notes when it binds arguments, and when what it compiled is started."""

    def __init__(self, *constants):
        self.bound, self.started = [], []
        self.params = [SimpleNamespace(name=name) for name in ("rows", "number", *constants)]

    def __getitem__(self, grid):
        def bind(*arguments, **options):
            self.bound.append((grid, arguments, options))
            return self if len(grid) == 1 else None

        def start(*arguments):
            self.started.append((grid, arguments))

        return bind if len(grid) == 1 else start


@pytest.fixture
def kernel(monkeypatch):
    monkeypatch.setattr(kernels, "_compiled", {})
    return Kernel("LAST", "FIRST")


def test_kernel_is_bound_once(kernel):
    rows, others = torch.zeros(8), torch.ones(4)
    launch(kernel, 3, rows, 5, FIRST=1, LAST=2, num_warps=4)
    launch(kernel, 7, others, 5, FIRST=1, LAST=2, num_warps=4)
    assert kernel.bound == [((3,), (rows, 5), {"FIRST": 1, "LAST": 2, "num_warps": 4})]
    assert kernel.started == [((7, 1, 1), (others, 5, 2, 1))]


@pytest.mark.parametrize(
    "other",
    [
        (torch.zeros(8, dtype=torch.bfloat16), 5),
        (torch.zeros(9)[1:], 5),  # starts at another address
        (torch.zeros(8), 16),
        (torch.zeros(8), 2**31 + 5),
        (torch.zeros(8), (5, 1)),
        (torch.zeros(8), None),
    ],
)
def test_kernels_compiled_anew(kernel, other):
    launch(kernel, 1, torch.zeros(8), 5, FIRST=1, LAST=2)
    launch(kernel, 1, *other, FIRST=1, LAST=2)
    launch(kernel, 1, torch.zeros(8), 5, FIRST=1, LAST=3)
    assert len(kernel.bound) == 3
    assert not kernel.started


@pytest.fixture
def gpu(monkeypatch):
    """Return what makes rows on a GPU of a compute capability, on a machine without one."""

    def rows(capability, dtype=torch.bfloat16, width=64, number=3):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Some GPU")
        kernels._gpu_reason.cache_clear()
        shape = torch.Size((1, 1, number, width))
        empty = torch.empty(0, dtype=dtype)
        return SimpleNamespace(
            dtype=dtype, shape=shape, device=torch.device("cuda", 0), numel=shape.numel, element_size=empty.element_size
        )

    yield rows
    kernels._gpu_reason.cache_clear()


def test_kernels_that_are_asked_for(gpu):
    assert not by_triton("auto", torch.zeros(1, 1, 3, 64, dtype=torch.bfloat16))
    assert by_triton("triton", gpu((8, 0), torch.float32))
    with pytest.raises(RunError, match=r"Some GPU .*7\.5.*8\.0"):  # before Ampere
        by_triton("triton", gpu((7, 5)))
