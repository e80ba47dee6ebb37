"""A forward and backward pass of the encoder asks its tensors for nothing that a GPU would have to be waited for."""

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
from torch.utils._python_dispatch import TorchDispatchMode

from lib.backbones import heads
from lib.backbones.heads.model import TaskModel
from lib.tokens.batches import LENGTHS, known_beforehand, rounded

QUESTIONS = {"_local_scalar_dense", "item", "nonzero", "masked_select", "is_nonzero", "equal", "_unique2"}


class Asked(TorchDispatchMode):
    """Notes the operations whose result depends on what a tensor holds."""

    def __init__(self):
        super().__init__()
        self.found = []

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        name = function.overloadpacket.__name__
        places = arguments[1] if name.startswith("index") and len(arguments) > 1 else ()
        by_mask = isinstance(places, (list, tuple)) and any(
            place is not None and place.dtype in (torch.bool, torch.uint8) for place in places
        )
        if name in QUESTIONS or by_mask:
            self.found.append(name)
        return function(*arguments, **(options or {}))


def questions(model, batch):
    with Asked() as asked:
        model(**batch).loss.backward()
    return asked.found


def test_the_proof_can_fail():
    rows, chosen = torch.randn(3, 2), torch.tensor([True, False, True])
    with Asked() as asked:
        assert rows[chosen].shape == (2, 2)
        assert float(rows[0, 0]) == rows[0, 0]
    assert {"nonzero", "_local_scalar_dense"} & set(asked.found)


def token_labels(model):
    batch = labelled(model, 9, 9)
    return batch | {"labels": torch.where(batch["input_ids"] % 3 == 0, 1, -100)}


@pytest.mark.parametrize("mechanism", EXAMPLES)
def test_questions_about_padding(mechanism):
    """The only one is whether there is some, and it is asked on a CPU alone."""
    for head in (EncoderForMaskedLM, EncoderForSequenceClassification, EncoderForTokenClassification):
        model = build(head, mechanism=EXAMPLES[mechanism]).train()
        of_tokens = head is not EncoderForSequenceClassification
        batch = token_labels(model) if head is EncoderForTokenClassification else labelled(model, 9, 9)
        batch = known_beforehand(batch, scored=of_tokens)
        assert set(batch) == {"input_ids", "labels", *(["scored"] if of_tokens else [])}
        assert questions(model, batch) == []
    for head in (EncoderForMaskedLM, EncoderForSequenceClassification):
        model = build(head, mechanism=EXAMPLES[mechanism]).train()
        batch = known_beforehand(labelled(model, 9, 4), scored=head is EncoderForMaskedLM)
        assert "attention_mask" in batch
        assert questions(model, batch) == ["_local_scalar_dense"]


@pytest.mark.parametrize("head", [EncoderForMaskedLM, EncoderForTokenClassification])
def test_what_is_known_beforehand_changes_no_digit(head):
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


def test_a_batch_whose_tokens_are_all_labelled():
    ids = torch.arange(2 * LENGTHS).view(2, LENGTHS)
    known = known_beforehand({"input_ids": ids, "labels": ids}, scored=True)
    assert all(torch.equal(each, known[name]) for name, each in rounded(known).items())
