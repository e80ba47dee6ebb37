"""With the same weights, the encoder with exact attention and learned positions is transformers' BERT."""

import pytest
import torch
from encoder_cases import EncoderForMaskedLM, EncoderForSequenceClassification, masked_labels, masks, token_ids
from transformers import BertConfig, BertForMaskedLM, BertForSequenceClassification, BertModel

from lib.backbones.encoder.configuration import EncoderConfig
from lib.backbones.encoder.model import EncoderModel

SIZES = {
    "vocab_size": 50,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 3,
    "intermediate_size": 40,
    "max_position_embeddings": 32,
    "type_vocab_size": 2,
}
NAMES = (
    ("bert.", "encoder."),
    ("embeddings.LayerNorm", "embeddings.layer_norm"),
    ("encoder.layer.", "layers."),
    ("attention.self.", "attention."),
    ("attention.output.dense", "attention.output"),
    ("attention.output.LayerNorm", "attention_layer_norm"),
    ("intermediate.dense", "intermediate"),
    ("output.dense", "output"),
    ("output.LayerNorm", "output_layer_norm"),
    ("cls.predictions.transform.dense", "head.dense"),
    ("cls.predictions.transform.LayerNorm", "head.layer_norm"),
    ("cls.predictions.decoder", "head.decoder"),
    ("encoder.pooler.dense", "head.0"),
    ("classifier", "head.3"),
)


def translate(name):
    for theirs, ours in NAMES:
        name = name.replace(theirs, ours)
    return name


def pair(bert_class, encoder_class, naive, **changes):
    torch.manual_seed(0)
    bert = bert_class(BertConfig(**SIZES, attn_implementation="eager", **changes)).eval()
    # Fresh biases are zero and fresh norms are one, which would hide an exchange of them.
    with torch.no_grad():
        for parameter in bert.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    encoder = encoder_class(
        EncoderConfig(
            **SIZES,
            position_embedding_type="learned",
            mechanism={"kind": "sdpa", "use_native_sdpa": not naive},
            classifier_pooling="cls",
            classifier_head="bert",
            **changes,
        )
    ).eval()
    weights = {translate(name): tensor for name, tensor in bert.state_dict().items() if name != "cls.predictions.bias"}
    if encoder_class is EncoderModel:
        weights = {name: tensor for name, tensor in weights.items() if not name.startswith("pooler.")}
    encoder.load_state_dict(weights, strict=True)
    return bert, encoder


@pytest.fixture
def batch():
    return {
        "input_ids": token_ids(3, 20),
        "attention_mask": masks(20, 13, 1),
        "token_type_ids": torch.arange(20).ge(8).long().expand(3, 20),
    }


@pytest.mark.parametrize("naive", [False, True])
def test_states(batch, naive):
    bert, encoder = pair(BertModel, EncoderModel, naive)
    real = batch["attention_mask"].bool()
    theirs = bert(**batch, output_hidden_states=True)
    ours = encoder(**batch, output_hidden_states=True)
    torch.testing.assert_close(ours.last_hidden_state[real], theirs.last_hidden_state[real], atol=1e-5, rtol=0)
    assert len(ours.hidden_states) == len(theirs.hidden_states) == 4
    for mine, other in zip(ours.hidden_states, theirs.hidden_states, strict=True):
        torch.testing.assert_close(mine[real], other[real], atol=1e-5, rtol=0)


def test_masked_lm(batch):
    bert, encoder = pair(BertForMaskedLM, EncoderForMaskedLM, naive=False)
    real = batch["attention_mask"].bool()
    torch.testing.assert_close(encoder(**batch).logits[real], bert(**batch).logits[real], atol=1e-5, rtol=0)
    labels = masked_labels(batch["input_ids"]).masked_fill(~real, -100)
    theirs, ours = (model(**batch, labels=labels).loss for model in (bert, encoder))
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)
    theirs.backward()
    ours.backward()
    torch.testing.assert_close(
        encoder.get_input_embeddings().weight.grad, bert.get_input_embeddings().weight.grad, atol=1e-5, rtol=0
    )


def test_classification(batch):
    bert, encoder = pair(BertForSequenceClassification, EncoderForSequenceClassification, naive=False, num_labels=4)
    labels = torch.tensor([3, 0, 1])
    theirs, ours = (model(**batch, labels=labels) for model in (bert, encoder))
    torch.testing.assert_close(ours.logits, theirs.logits, atol=1e-5, rtol=0)
    torch.testing.assert_close(ours.loss, theirs.loss, atol=1e-5, rtol=0)
