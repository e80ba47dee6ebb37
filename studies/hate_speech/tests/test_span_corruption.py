"""Span corruption: what its settings choose, what they refuse, and how a split is scored."""

import numpy as np
import pytest
import torch
from transformers import EvalPrediction

from lib.core.errors import ConfigError
from lib.core.labels import IGNORED
from lib.tokens.tokenizer import TextTokenizer
from lib.tokens.vocabularies import add_sentinels, train_words
from studies.hate_speech.backbones.encoder_decoder.backbone import Backbone
from studies.hate_speech.backbones.encoder_decoder.settings import Settings as EncoderDecoder
from studies.hate_speech.tasks.span_corruption import Settings, Task

pytestmark = pytest.mark.extended

SIZES = {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2, "dropout_rate": 0.0}
TEXTS = ["a b c d " * repeats for repeats in (1, 3, 9, 2, 6, 12)]


def task(**settings):
    return Task(Settings(kind="span_corruption", **settings), labels=None, seed=0)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("t") / "t"
    train_words(folder, TEXTS)
    add_sentinels(folder, 20)
    return TextTokenizer.load(folder).backend


@pytest.fixture(scope="module")
def examples(tokenizer):
    return [
        {"id": i, "input_ids": np.array(tokenizer(text)["input_ids"]), "epoch": 0, "index": i}
        for i, text in enumerate(TEXTS)
    ]


@pytest.fixture(scope="module")
def model(tokenizer):
    torch.manual_seed(0)
    parameters = EncoderDecoder(architecture={"model_type": "t5", **SIZES})
    return task().model(Backbone(parameters, seed=0).config(tokenizer, {})).eval()


def test_rate_and_length_as_settings(tokenizer, examples):
    (document,) = [each for each in examples if len(each["input_ids"]) == 50]
    for settings, lost, spans in (({}, 7, 2), ({"corruption_rate": 0.5, "mean_span_length": 2}, 24, 12)):
        made = task(**settings)
        batch = made.collator(tokenizer)([document])
        assert batch["labels"].shape == (1, lost + spans + 1)
        assert batch["input_ids"].shape == (1, 50 - lost + spans)
        assert made.parameters.sentinels(48) == spans
        assert made.parameters.predicted_share() * 48 == pytest.approx(lost + spans, rel=0.1)


def test_tokenisers_refused_before_training(tokenizer, tmp_path):
    bare = train_words(tmp_path / "t", TEXTS).backend
    with pytest.raises(ConfigError, match="has no <extra_id_0>"):
        task().collator(bare)
    bare.add_tokens(["<extra_id_0>"], special_tokens=True)
    bare.sep_token = None
    with pytest.raises(ConfigError, match="neither an end-of-text token nor a separator"):
        task().collator(bare)


def test_loss_of_written_tokens(tokenizer, examples, model):
    """Whatever the batches are: documents that lose more count for more."""
    collator = task().collator(tokenizer)
    whole = collator(examples)
    with torch.no_grad():
        logits = model(**whole).logits
    expected = torch.nn.functional.cross_entropy(logits.flatten(0, 1), whole["labels"].flatten(), ignore_index=IGNORED)
    for size in (1, 2, 4, 6):
        steps = [
            task().prediction_step(model, collator(examples[start : start + size]))
            for start in range(0, len(examples), size)
        ]
        sums, numbers = (torch.cat([step[place] for step in steps]).numpy() for place in (1, 2))
        scores = task().metrics(EvalPrediction(predictions=sums, label_ids=numbers))
        assert scores["loss"] == pytest.approx(expected.item(), rel=1e-5)
        assert scores["perplexity"] == pytest.approx(np.exp(expected.item()), rel=1e-4)
    assert len({(row != IGNORED).sum().item() for row in whole["labels"]}) > 2


def test_padding_of_written_tokens(tokenizer, examples, model):
    collator = task().collator(tokenizer)
    whole = collator(examples)
    with torch.no_grad():
        together = model(**whole).logits
        for place, example in enumerate(examples):
            alone = model(**collator([example])).logits[0]
            torch.testing.assert_close(together[place, : len(alone)], alone, rtol=1e-5, atol=1e-5)
