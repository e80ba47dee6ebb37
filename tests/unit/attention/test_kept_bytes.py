import torch
from torch import nn

from lib.attention.kept_bytes import KeptBytes


def test_kept_bytes_count_each_storage_once():
    rows, layer = torch.randn(10, 6, requires_grad=True), nn.Linear(6, 4, bias=False)
    with KeptBytes(layer.parameters()) as kept:
        product = rows * rows  # keeps its argument, twice the same
        layer(product.view(2, 5, 6)).exp()  # a view of the product, and the result
    assert kept.total == 4 * (60 + 60 + 40)
    with KeptBytes() as kept:
        layer(rows)
    assert kept.total == 4 * (60 + 24)
