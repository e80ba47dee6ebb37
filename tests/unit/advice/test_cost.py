import torch
from torch import nn

from lib.advice.cost import KeptBytes, interleaved, processor

CPU = torch.device("cpu")


def test_kept_bytes_counts_each_storage_once_and_no_parameters():
    rows, layer = torch.randn(10, 6, requires_grad=True), nn.Linear(6, 4, bias=False)
    with KeptBytes(layer.parameters()) as kept:
        product = rows * rows  # keeps its argument, twice the same
        layer(product.view(2, 5, 6)).exp()  # a view of the product, and the result
    assert kept.total == 4 * (60 + 60 + 40)
    with KeptBytes() as kept:
        layer(rows)
    assert kept.total == 4 * (60 + 24)


def test_the_processor_has_a_name():
    assert processor(CPU).strip()


def test_computations_take_turns():
    calls = []
    seconds = interleaved({name: lambda name=name: calls.append(name) for name in "abc"}, {"a": 3, "b": 1, "c": 2}, CPU)
    assert "".join(calls) == "abcaca"
    assert {name: len(times) for name, times in seconds.items()} == {"a": 3, "b": 1, "c": 2}
    assert all(time >= 0 for times in seconds.values() for time in times)
