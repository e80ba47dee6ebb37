"""How many kernels a GPU would launch for a training step of the encoder, and how much memory they would pass over.

Counted on tensors without data, at the sizes of the study: 64 documents of 512 tokens, in mixed precision.
"""

from collections import Counter
from contextlib import nullcontext

import pytest
import torch
from encoder_cases import EncoderForSequenceClassification
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import BertConfig, BertForSequenceClassification

from lib.backbones.encoder import model as encoder
from lib.backbones.encoder.configuration import EncoderConfig
from lib.backbones.encoder.settings import Settings

SIZES = Settings()
NOT_LAUNCHED = ("prim.", "detach", "empty", "_unsafe_view", "alias", "lift_fresh")
PRODUCTS = ("mm", "attention")
"""Parts of the names of operations that are no passes over memory alone."""


class Launched(TorchDispatchMode):
    """Counts operations that compute something, and the bytes that they read and write."""

    def __init__(self):
        super().__init__()
        self.number, self.bytes = Counter(), Counter()

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        result = function(*arguments, **(options or {}))
        name = str(function)
        if not function.is_view and not any(part in name for part in NOT_LAUNCHED):
            self.number[name] += 1
            self.bytes[name] += size_of(arguments) + size_of(result)
        return result


def size_of(value):
    if isinstance(value, torch.Tensor):
        return value.numel() * value.element_size()
    return sum(map(size_of, value)) if isinstance(value, (list, tuple)) else 0


def counted(make, monkeypatch, *, padded):
    """Return the launches of a step, and the GiB that all but products pass over."""
    monkeypatch.setattr(torch.Tensor, "all", lambda mask: [])  # whether a mask is true all over: no, without looking
    monkeypatch.setattr(encoder, "_recomputed", lambda *_: nullcontext())  # a GPU keeps the outputs of GELU
    with FakeTensorMode(allow_non_fake_inputs=True):
        model = make().train()
        ids = torch.zeros(64, 512, dtype=torch.long)
        mask = {"attention_mask": torch.ones_like(ids)} if padded else {}
        with Launched() as launched:
            with torch.autocast("cpu", torch.bfloat16):
                loss = model(input_ids=ids, labels=torch.zeros(64, dtype=torch.long), **mask).loss
            loss.backward()
    passed = sum(size for name, size in launched.bytes.items() if not any(part in name for part in PRODUCTS))
    return sum(launched.number.values()), passed / 2**30


def ours():
    sizes = SIZES.model_dump(exclude={"kind", "mechanism"})
    return EncoderForSequenceClassification(EncoderConfig(mechanism={"kind": "sdpa"}, vocab_size=30_522, **sizes))


def bert():
    config = BertConfig(
        hidden_size=SIZES.hidden_size,
        num_hidden_layers=SIZES.num_hidden_layers,
        num_attention_heads=SIZES.num_attention_heads,
        intermediate_size=SIZES.intermediate_size,
        attention_probs_dropout_prob=0.0,
    )
    return BertForSequenceClassification(config)


@pytest.mark.parametrize(
    ("make", "padded", "launches", "gigabytes"),
    [(ours, True, 434, 22.3), (ours, False, 406, 22.0), (bert, True, 393, 18.7)],
)
def test_a_step_launches_no_more_kernels_than_before(make, padded, launches, gigabytes, monkeypatch):
    number, passed = counted(make, monkeypatch, padded=padded)
    assert 0.9 * launches < number <= launches
    assert 0.9 * gigabytes < passed <= gigabytes + 0.05


def test_padding_costs_no_pass_over_memory_in_every_layer(monkeypatch):
    with_it, without = (counted(ours, monkeypatch, padded=padded)[1] for padded in (True, False))
    assert with_it - without < 0.5 < SIZES.num_hidden_layers * 0.25
