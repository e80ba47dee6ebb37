"""The head that compares two texts, and the head that gives a number: what they compute, and that padding is exact."""

import pytest
import torch
from transformers import AutoModelForNextSentencePrediction, AutoModelForSequenceClassification

from lib.backbones.encoder.configuration import EncoderConfig
from lib.core.errors import ConfigError

SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
FIRST, SECOND = (9, 1, 5), (2, 7, 11)


def model(auto=AutoModelForNextSentencePrediction, mechanism=None, **fields):
    torch.manual_seed(0)
    config = EncoderConfig(mechanism=mechanism, vocab_size=30, initializer_range=0.3, **SIZES, **fields)
    return auto.from_config(config).eval()


def near(found, expected):
    return torch.allclose(found, expected, atol=1e-5)


def sequences(lengths, seed, padding=0, filler=0):
    """Return ids [B, N] and masks, padded further and with other content at the padding."""
    ids = torch.randint(1, 30, (len(lengths), max(lengths)), generator=torch.Generator().manual_seed(seed))
    ids = torch.nn.functional.pad(ids, (0, padding))
    mask = (torch.arange(ids.shape[1]) < torch.tensor(lengths)[:, None]).long()
    return ids.masked_fill(mask == 0, filler), mask


def batch(padding=(0, 0), filler=0):
    first, second = sequences(FIRST, 1, padding[0], filler), sequences(SECOND, 2, padding[1], filler)
    names = ("input_ids", "attention_mask", "pair_ids", "pair_mask")
    return dict(zip(names, (*first, *second), strict=True)) | {"labels": torch.tensor([0, 1, 1])}


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_a_pair_is_compared_by_its_two_vectors(pooling):
    made = model(classifier_pooling=pooling)
    values = batch()
    for row, (first, second) in enumerate(zip(FIRST, SECOND, strict=True)):
        states = [
            made.base_model(values[name][row : row + 1, :length]).last_hidden_state[0]
            for name, length in (("input_ids", first), ("pair_ids", second))
        ]
        a, b = (each[0] if pooling == "cls" else each.mean(dim=0) for each in states)
        expected = made.head(torch.cat([a, b, a * b, a - b]))
        assert near(made(**values).logits[row], expected)


@pytest.mark.parametrize("mechanism", [None, {"kind": "favor", "nb_features": 8}, {"kind": "window", "width": 4}])
@pytest.mark.parametrize("padding", [(3, 0), (0, 5), (4, 9)])
def test_padding_of_neither_text_moves_anything(mechanism, padding):
    made = model(mechanism=mechanism)
    plain, padded = made(**batch()), made(**batch(padding, filler=7))
    assert near(padded.logits, plain.logits)
    gradients = []
    for loss in (plain.loss, padded.loss):
        made.zero_grad()
        loss.backward()
        gradients.append([each.grad.clone() for each in made.parameters() if each.grad is not None])
    for one, other in zip(*gradients, strict=True):
        assert near(other, one)


def test_both_texts_are_read_by_the_same_weights():
    made, values = model(), batch()
    swapped = values | {
        "input_ids": values["pair_ids"],
        "attention_mask": values["pair_mask"],
        "pair_ids": values["input_ids"],
        "pair_mask": values["attention_mask"],
    }
    width = SIZES["hidden_size"]
    with torch.no_grad():
        dense = made.head[0].weight.view(width, 4, width)
        dense[:, 1], dense[:, 3] = dense[:, 0].clone(), 0
    assert near(made(**swapped).logits, made(**values).logits)


def test_regression_gives_one_number_and_the_squared_error():
    made = model(AutoModelForSequenceClassification, problem_type="regression", num_labels=1)
    ids, mask = sequences(FIRST, 1)
    labels = torch.tensor([0.5, 5.0, -100.0])
    found = made(ids, mask, labels=labels)
    assert found.logits.shape == (3, 1)
    assert found.loss.item() == pytest.approx((found.logits[:, 0] - labels).square().mean().item())
    assert made(ids, mask, labels=labels, num_items_in_batch=6).loss.item() == pytest.approx(found.loss.item() / 2)


def test_regression_of_several_numbers_is_refused():
    with pytest.raises(ConfigError, match="num_labels = 2"):
        model(AutoModelForSequenceClassification, problem_type="regression", num_labels=2)
