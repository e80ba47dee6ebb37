import importlib.util
import math
import os
import time
from functools import cache

import pytest
import torch
from torch import nn
from torch.nn import functional

from lib.core.errors import RunError
from lib.measure.cost import (
    PRELOADED,
    REPETITIONS,
    KeptBytes,
    clock_mhz,
    fused_attention,
    interleaved,
    matrix_rate,
    operation_counter,
    processor,
    repeated,
    with_peak_mb,
)

CPU = torch.device("cpu")


def fill(megabytes):
    return torch.ones(megabytes * 2**18).sum().item()


@cache
def buffer():
    return torch.ones(100 * 2**18)


def fill_with_buffer(megabytes):
    """As a library that sets up a buffer of 100 MiB when it is first used."""
    return buffer()[0].item() * fill(megabytes)


def die(status):
    os._exit(status)


def test_kept_bytes_counts_each_storage_once_and_no_parameters():
    rows, layer = torch.randn(10, 6, requires_grad=True), nn.Linear(6, 4, bias=False)
    with KeptBytes(layer.parameters()) as kept:
        product = rows * rows  # keeps its argument, twice the same
        layer(product.view(2, 5, 6)).exp()  # a view of the product, and the result
    assert kept.total == 4 * (60 + 60 + 40)
    with KeptBytes() as kept:
        layer(rows)
    assert kept.total == 4 * (60 + 24)


def test_operations_of_products_and_of_exact_attention():
    query, key, value = (torch.randn(2, 3, 40, 8, requires_grad=True) for _ in range(3))
    with operation_counter() as counter:
        torch.randn(5, 6) @ torch.randn(6, 7)
        torch.randn(4, 5, 7).baddbmm_(torch.randn(4, 5, 6), torch.randn(4, 6, 7))
    assert counter.get_total_flops() == 2 * 5 * 6 * 7 * (1 + 4)
    with operation_counter() as counter:
        functional.scaled_dot_product_attention(query, key, value).sum().backward()
    # Two products of the forward pass; in the backward pass five, one of which computes the scores again.
    assert counter.get_total_flops() == 7 * 2 * 2 * 3 * 40 * 40 * 8
    assert fused_attention(counter) == "flash"


def test_plain_operations_are_no_kernel_of_attention():
    with operation_counter() as counter:
        torch.randn(5, 6) @ torch.randn(6, 7)
    assert fused_attention(counter) is None


def test_a_cpu_has_no_clock_of_multiprocessors():
    assert math.isnan(clock_mhz(CPU))


def test_peak_memory_is_that_of_the_function_alone():
    held = torch.ones(2**26)
    result, peak = with_peak_mb(fill, 200, device=CPU)
    assert result == 200 * 2**18
    assert 200 <= peak < 256, "held counts 256, libraries some 30"
    assert held.sum() == 2**26


def test_a_warm_up_leaves_out_what_is_set_up_at_first():
    _, cold = with_peak_mb(fill_with_buffer, 200, device=CPU)
    assert 300 <= cold < 380
    _, warm = with_peak_mb(fill_with_buffer, 200, device=CPU, warm_up=(1,))
    assert 198 <= warm < 250


def test_what_is_preloaded_of_the_project_exists():
    modules = [name for name in PRELOADED if name.startswith("lib.")]
    assert modules
    assert all(importlib.util.find_spec(name) for name in modules)


def test_the_processor_has_a_name():
    assert processor(CPU).strip()


def test_a_process_that_dies_is_reported():
    with pytest.raises(RunError, match=r"\(7,\) failed \(BrokenProcessPool.*ran out of memory"):
        with_peak_mb(die, 7, device=CPU)


def test_computations_take_turns():
    calls = []
    seconds = interleaved({name: lambda name=name: calls.append(name) for name in "abc"}, {"a": 3, "b": 1, "c": 2}, CPU)
    assert "".join(calls) == "abcaca"
    assert {name: len(times) for name, times in seconds.items()} == {"a": 3, "b": 1, "c": 2}
    assert all(time >= 0 for times in seconds.values() for time in times)


def test_a_computation_is_repeated_as_often_as_fits_into_its_time():
    calls = []

    def computations(*names):
        return {name: lambda name=name: (calls.append(name), time.sleep(0.01)) for name in names}

    seconds = repeated(computations("a"), {}, 0.03, CPU)
    assert 1 <= len(seconds["a"]) <= 3
    assert len(calls) == 1 + len(seconds["a"])  # warmed up
    calls.clear()
    assert len(repeated(computations("a"), {"a": 100}, 10, CPU)["a"]) == 1
    assert calls == ["a"]  # known to be slow
    calls.clear()
    assert len(repeated(computations("a"), {"a": 0.01}, 10, CPU)["a"]) == REPETITIONS


def test_the_rate_of_the_machine_is_plausible():
    assert 1e8 < matrix_rate(CPU, torch.float32, repetitions=1) < 1e14
