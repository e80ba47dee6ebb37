import pytest
import torch
from encoder_cases import masks

from lib.backbones.heads.model import pooling

# Padding at the end, at the beginning, in between, and none.
MASK = torch.tensor([[1, 1, 1, 1, 0, 0, 0], [0, 0, 1, 1, 1, 1, 1], [1, 0, 1, 1, 0, 1, 0], [1, 1, 1, 1, 1, 1, 1]]).bool()


def by_hand(name, tokens, step):
    """One document's vector from the list of its real tokens, after equations 2.9 to 2.12."""
    if name == "cls":
        return tokens[0]
    if name == "mean_step":
        tokens = [tokens[index] for index in range(0, len(tokens), step)]
    stacked = torch.stack(list(tokens))
    return {"max": stacked.max(0).values, "min": stacked.min(0).values}.get(name, stacked.sum(0) / len(stacked))


@pytest.mark.parametrize("name", ["cls", "mean", "max", "min", "mean_step"])
def test_pooling_of_each_document(name):
    states = torch.randn(4, 7, 5, generator=torch.Generator().manual_seed(0))
    for step in (1, 2, 3, 100) if name == "mean_step" else (1,):
        pooled = pooling(name, step)(states, MASK)
        for document in range(4):
            expected = by_hand(name, [*states[document, MASK[document]]], step)
            torch.testing.assert_close(pooled[document], expected, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("name", ["cls", "mean", "max", "min", "mean_step"])
def test_pooling_with_hostile_padding(name):
    states = torch.randn(2, 6, 3, generator=torch.Generator().manual_seed(0))
    mask = masks(4, 6).bool()
    poisoned = states.masked_fill(~mask[:, :, None], float("inf")).requires_grad_()
    pooled = pooling(name, 2)(poisoned, mask)
    torch.testing.assert_close(pooled, pooling(name, 2)(states, mask), atol=0, rtol=0)
    pooled.sum().backward()
    assert poisoned.grad[~mask].eq(0).all()
    assert poisoned.grad.isfinite().all()
