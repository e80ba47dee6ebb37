"""What each of the processes of a training has: a GPU and documents of its own, and batches of few shapes."""

import os

import pytest
import torch

from lib.core.errors import RunError
from lib.core.labels import IGNORED
from lib.tokens.batches import LENGTHS, LengthGroupedSampler, Share, known_beforehand, rounded
from lib.training import distributed
from lib.training.predictor import items


@pytest.mark.parametrize(("gpus", "visible", "expected"), [(2, None, "1"), (4, "GPU-a,GPU-b,GPU-c,GPU-d", "GPU-b")])
def test_gpu_of_each_process(gpus, visible, expected, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    distributed._take_gpu(1, 2)
    with monkeypatch.context() as context:
        context.setattr(torch.cuda, "device_count", lambda: 1)
        with pytest.raises(RunError, match="2 processes"):
            distributed._take_gpu(1, 2)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == expected


def test_documents_of_each_process():
    """Every document of a batch is in the share of one process; all have the same number of micro-batches."""
    lengths = [3 + (7 * number) % 20 for number in range(50)]
    order = LengthGroupedSampler(lengths, batch_size=16, seed=1)
    whole, *shares = (
        [*Share(order, lengths, 16, 40, index, count).batches()] for index, count in ((0, 1), (0, 2), (1, 2))
    )
    for batch, *parts in zip(whole, *shares, strict=True):
        assert len({len(part) for part in parts}) == 1
        found = [[key for micro in part for key in micro] for part in parts]
        assert sorted(found[0] + found[1]) == sorted(key for micro in batch for key in micro)
        assert abs(len(found[0]) - len(found[1])) <= 1


def test_labels_of_rounded_batches():
    """Padding has none, so that neither their number nor the loss changes."""
    labels = torch.full((3, 21), IGNORED)
    labels[0, 4], labels[2, 20] = 7, 0
    batch = {"input_ids": torch.ones(3, 21, dtype=torch.long), "attention_mask": torch.ones(3, 21), "labels": labels}
    few = rounded(known_beforehand(batch, scored=True))
    assert few["labels"].shape == few["input_ids"].shape == few["attention_mask"].shape == (3, LENGTHS)
    assert torch.equal(few["labels"][:, :21], labels)
    assert (few["labels"][:, 21:] == IGNORED).all()
    assert not few["attention_mask"][:, 21:].any()
    assert items([few]) == items([batch]) == 2
    assert few["labels"].flatten()[few["scored"]].sort().values[-2:].tolist() == [0, 7]
