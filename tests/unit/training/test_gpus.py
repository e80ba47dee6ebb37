"""Each of the processes of a training uses a GPU of its own."""

import os

import pytest
import torch

from lib.core.errors import RunError
from lib.training import distributed


@pytest.mark.parametrize(
    ("gpus", "visible", "expected"), [(2, None, "1"), (2, "3,5", "5"), (4, "GPU-a,GPU-b,GPU-c,GPU-d", "GPU-b")]
)
def test_each_process_sees_its_own_gpu(gpus, visible, expected, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    distributed._take_gpu(1, 2)
    with monkeypatch.context() as context:
        context.setattr(torch.cuda, "device_count", lambda: 1)
        with pytest.raises(RunError, match="2 processes share the training, but there are 1 GPUs"):
            distributed._take_gpu(1, 2)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == expected
