"""A process uses one GPU, whatever it sees, and each of several its own."""

import os

import pytest
import torch
from transformers import TrainingArguments

from lib.core.errors import RunError
from lib.training import ranks
from lib.training.trainer import Arguments


def test_two_visible_gpus_do_not_double_the_batch(tmp_path, monkeypatch):
    monkeypatch.setattr(TrainingArguments, "n_gpu", property(lambda self: 2))
    options = {"output_dir": str(tmp_path), "use_cpu": True, "per_device_train_batch_size": 8}
    assert TrainingArguments(**options).train_batch_size == 16
    assert Arguments(**options).train_batch_size == Arguments(**options).eval_batch_size == 8


@pytest.mark.parametrize(
    ("gpus", "visible", "expected"), [(2, None, "1"), (2, "3,5", "5"), (4, "GPU-a,GPU-b,GPU-c,GPU-d", "GPU-b")]
)
def test_each_process_sees_its_own_gpu(gpus, visible, expected, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    ranks._take_gpu(1, 2)
    with monkeypatch.context() as context:
        context.setattr(torch.cuda, "device_count", lambda: 1)
        with pytest.raises(RunError, match="2 processes share the training, but there are 1 GPUs"):
            ranks._take_gpu(1, 2)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == expected
