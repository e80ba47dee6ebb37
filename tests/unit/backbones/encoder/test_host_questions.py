"""What is known of a batch before its step, so that no GPU is waited for, changes no gradient."""

import importlib
import inspect
import pkgutil

import pytest
import torch
from encoder_cases import (
    EXAMPLES,
    EncoderForMaskedLM,
    EncoderForSequenceClassification,
    EncoderForTokenClassification,
    build,
    labelled,
)

from lib.backbones import heads
from lib.backbones.heads.model import TaskModel
from lib.tokens.batches import LENGTHS, known_beforehand, rounded


def token_labels(model):
    batch = labelled(model, 9, 9)
    return batch | {"labels": torch.where(batch["input_ids"] % 3 == 0, 1, -100)}


@pytest.mark.parametrize("head", [EncoderForMaskedLM, EncoderForTokenClassification])
def test_digits_with_facts_known_beforehand(head):
    model = build(head).eval()
    batch = labelled(model, 9, 4) if head is EncoderForMaskedLM else token_labels(model)
    known = known_beforehand(batch, scored=True)
    gradients = []
    for inputs in (batch, known):
        model.zero_grad()
        model(**inputs).loss.backward()
        gradients.append([weight.grad.clone() for weight in model.parameters() if weight.grad is not None])
    assert all(map(torch.equal, *gradients))


@pytest.mark.parametrize(
    ("mechanism", "head", "lengths"),
    [
        ("sdpa", EncoderForMaskedLM, (9, 4)),
        ("sdpa", EncoderForTokenClassification, (9, 9)),
        ("lsh", EncoderForSequenceClassification, (70, 3, 1)),
        ("favor", EncoderForMaskedLM, (64, 64)),
        ("favor", EncoderForSequenceClassification, (9, 4)),
        ("window", EncoderForMaskedLM, (70, 3, 1)),
        ("bigbird", EncoderForSequenceClassification, (9, 9)),
    ],
)
def test_gradients_of_rounded_batches(mechanism, head, lengths):
    model = build(head, mechanism=EXAMPLES[mechanism]).eval()
    batch = token_labels(model) if head is EncoderForTokenClassification else labelled(model, *lengths)
    known = known_beforehand(batch, scored=head is not EncoderForSequenceClassification)
    few = rounded(known)
    assert few["input_ids"].shape[1] % LENGTHS == 0
    if "scored" in few:
        assert len(few["scored"]) % (few["labels"].numel() // 32) == 0
    gradients = []
    for inputs in (known, few):
        model.zero_grad()
        model(**inputs).loss.backward()
        gradients.append([weight.grad.clone() for weight in model.parameters() if weight.grad is not None])
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


def test_labels_of_as_many_classes_as_tokens():
    batch = {"input_ids": torch.ones(2, 5, dtype=torch.long), "labels": torch.rand(2, 5)}
    few = rounded(known_beforehand(batch, scored=False))
    assert few["input_ids"].shape == (2, LENGTHS)
    assert torch.equal(few["labels"], batch["labels"])


def test_heads_whose_steps_are_captured():
    """Graphs are prepared for the length of `input_ids`."""
    for module in pkgutil.iter_modules(heads.__path__):
        importlib.import_module(f"{heads.__name__}.{module.name}")
    waiting, names = [TaskModel], {}
    while waiting:
        head = waiting.pop()
        waiting += head.__subclasses__()
        asked = [name for each in (head.forward, head.read) for name in inspect.signature(each).parameters]
        names[head.__name__] = {name for name in asked if name.endswith("_ids")}
        assert not head.may_be_captured or names[head.__name__] == {"input_ids"}, head
    assert names["PairClassification"] == {"input_ids", "pair_ids"}
