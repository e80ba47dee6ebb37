"""The head that compares two texts, and the head that gives a number: what they compute."""

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


def sequences(lengths, seed):
    """Return ids [B, N] and masks."""
    ids = torch.randint(1, 30, (len(lengths), max(lengths)), generator=torch.Generator().manual_seed(seed))
    return ids, (torch.arange(ids.shape[1]) < torch.tensor(lengths)[:, None]).long()


def batch():
    first, second = sequences(FIRST, 1), sequences(SECOND, 2)
    names = ("input_ids", "attention_mask", "pair_ids", "pair_mask")
    return dict(zip(names, (*first, *second), strict=True)) | {"labels": torch.tensor([0, 1, 1])}


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_pair_by_its_two_vectors(pooling):
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


def test_regression():
    made = model(AutoModelForSequenceClassification, problem_type="regression", num_labels=1)
    ids, mask = sequences(FIRST, 1)
    labels = torch.tensor([0.5, 5.0, -100.0])
    found = made(ids, mask, labels=labels)
    assert found.logits.shape == (3, 1)
    assert found.loss.item() == pytest.approx((found.logits[:, 0] - labels).square().mean().item())
    with pytest.raises(ConfigError, match="num_labels = 2"):
        model(AutoModelForSequenceClassification, problem_type="regression", num_labels=2)
    assert made(ids, mask, labels=labels, num_items_in_batch=6).loss.item() == pytest.approx(found.loss.item() / 2)
