import sys

import pandas as pd
import pytest
import torch

from lib.backbones.settings import BACKBONES
from lib.measure import scan_cost as module
from lib.measure.scan_cost import PASSES, PEER, PEER_KERNELS, ScanCase, by_peer, scan_cases, scan_cost
from lib.measure.tables import COLUMNS

SIZES = {"heads": 3, "head_size": 8, "state_size": 4, "device": "cpu", "dtype": "float32"}


def case(**changes):
    return ScanCase(**SIZES | {"implementation": "ours", "kernels": "torch", "kind": "forward_backward"} | changes)


def test_a_row_for_every_length_and_pass():
    table = scan_cost(lengths=[70, 20], tokens=100, seconds=0.01, **SIZES)
    assert list(table) == COLUMNS["scan_cost"]
    assert list(zip(table["length"], table["batch"], table["pass"], strict=True)) == [
        (length, batch, kind) for length, batch in ((70, 1), (20, 5)) for kind in PASSES
    ]
    assert (table["min_ms"] <= table["median_ms"]).all()
    assert (table["error"] < 1e-5).all()
    assert pd.isna(table["host_ms"]).all()  # a CPU launches nothing


def test_an_error_of_a_scan_is_found():
    timed = case(length=20, batch=2).prepare()
    exact = timed.scan
    timed.scan = lambda *arguments: 1.5 * exact(*arguments)
    assert timed.error() == pytest.approx(0.5)
    assert timed.results()[0].dtype == torch.float32


def by_steps(*, q, k, v, g, scale):
    """The recurrence as flash-linear-attention defines it, token by token: directions for each head."""
    state, outputs = torch.zeros(*v.shape[::2], q.shape[-1], v.shape[-1]), []
    for t in range(v.shape[1]):
        state = g[:, t, :, None, None].exp() * state + k[:, t, :, :, None] * v[:, t, :, None]
        outputs.append(scale * (q[:, t, :, None] @ state)[:, :, 0])
    return torch.stack(outputs, 1), state


def test_the_peer_gets_the_same_scan():
    ours = case(length=70, batch=2)
    arguments = ours.arguments()
    torch.testing.assert_close(by_peer(by_steps, *arguments), ours.scan()(*arguments), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("there", [False, True])
def test_on_a_gpu_there_are_kernels_and_the_peer_if_it_is_installed(monkeypatch, there, caplog):
    monkeypatch.setattr(type(BACKBONES), "has", lambda self, kind, part: there)
    monkeypatch.setattr(module, "find_spec", lambda name: sys.modules["torch"].__spec__ if there else None)
    cases = scan_cases(**SIZES | {"device": "cuda"}, length=20, batch=2, kind="forward")
    names = [(each.implementation, each.kernels) for each in cases]
    more = [("ours", "triton"), *((PEER, kernels) for kernels in PEER_KERNELS)]
    assert names == [("ours", "torch"), *(more if there else [])]
    assert ("is not installed: its rows are left out" in caplog.text) != there
