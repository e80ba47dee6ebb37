"""Texts up to some length are computed by one call under a dense mask: it equals the blocks, up to the border."""

import pytest
import torch

from lib.attention.block_sparse.computation import BlockSparse
from lib.attention.contract import build
from lib.attention.settings import MECHANISMS

BORDERS = {
    "window": ({"width": 256, "global_tokens": 1}, 512),
    "bigbird": ({"block_size": 64}, 768),
    "strided": ({"stride": 128}, 512),
    "topk_blocks": ({"block_size": 64, "blocks": 4}, 512),
}


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("kind", BORDERS)
def test_up_to_the_border_one_call_computes_what_the_blocks_do_and_beyond_it_blocks_do(kind, padded, monkeypatch):
    values, border = BORDERS[kind]
    mechanism = build(MECHANISMS.parse({"kind": kind} | values), num_heads=2, head_size=8, layer=1, seed=3)
    calls = []
    densely = BlockSparse._attend_densely
    monkeypatch.setattr(BlockSparse, "_attend_densely", lambda self, *rows: calls.append(1) or densely(self, *rows))

    def results(length):
        generator = torch.Generator().manual_seed(0)
        rows = [torch.randn(3, 2, length, 8, generator=generator).requires_grad_() for _ in range(3)]
        mask = torch.rand(3, length, generator=generator) < torch.tensor([[1.0], [0.7], [0.0]]) if padded else None
        output = mechanism(*rows, mask)
        return [output, *torch.autograd.grad(output, rows, torch.randn(output.shape, generator=generator))]

    by_one_call = results(border)
    assert calls == [1]
    results(border + 1)
    assert calls == [1]
    monkeypatch.setattr(BlockSparse, "_is_dense_at", lambda self, tokens: False)
    for dense, blocks in zip(by_one_call, results(border), strict=True):
        torch.testing.assert_close(dense, blocks, rtol=1e-4, atol=1e-5)
