"""Settings of the backbone that reads segments, by themselves."""

import pytest
from pydantic import ValidationError

from lib.attention.settings import MECHANISMS
from lib.backbones.settings import BACKBONES

SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
ENCODER = {"kind": "encoder", **SMALL}
BERT = {"kind": "pretrained", "architecture": {"model_type": "bert", **SMALL, "max_position_embeddings": 512}}


def parsed(encoder=ENCODER, **changes):
    return BACKBONES.parse({"kind": "hierarchical", "encoder": encoder, **changes})


def test_declarations_are_those_of_the_encoder():
    parameters = parsed(BERT)
    assert parameters.longest() is None
    assert parameters.blocks() == 2
    assert parameters.family == "bert, bidirectional, segments"
    assert parameters.abilities == {"states"}
    assert not parameters.quantized
    assert parsed({"kind": "recurrent"}).linear_layers == frozenset()


def test_a_mechanism_goes_to_the_encoder():
    parameters = parsed()
    assert parameters.takes_mechanism
    assert parameters.held_mechanisms == []
    held = parameters.with_mechanism(MECHANISMS.parse({"kind": "favor", "nb_features": 8}))
    assert held.held_mechanisms[0].kind == held.encoder.mechanism.kind == "favor"
    assert held.linear_layers == held.encoder.linear_layers
    assert parameters.needs_mechanism
    assert parsed(BERT).takes_mechanism
    assert not parsed(BERT).needs_mechanism
    assert not parsed({"kind": "recurrent"}).takes_mechanism


def test_cost_of_tokens_in_two_segments():
    plain, segments = BACKBONES.parse(BERT), parsed(BERT, segment=512, overlap=64)
    assert segments.products_per_token(400, 0) == plain.products_per_token(400, 0)
    found = segments.products_per_token(4096, 0)
    assert found == pytest.approx(plain.products_per_token(512, 0) * 512 / 446)
    assert found < plain.products_per_token(4096, 0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"overlap": 8, "segment": 10}, "overlap = 8"),
        ({"segment": 600, "encoder": BERT}, "segment = 600"),
        ({"encoder": {"kind": "tfidf"}}, "tfidf"),
        ({"encoder": {"kind": "hierarchical", "encoder": BERT}}, "hierarchical"),
        ({"pooling": "transformer", "document_heads": 3}, "document_heads = 3"),
        ({"encoder": {"kind": "encoder", "hidden": 3}}, "hidden"),
    ],
)
def test_settings_that_are_refused(changes, message):
    with pytest.raises(ValidationError, match=message):
        parsed(**{"encoder": ENCODER} | changes)


def test_kinds_of_weights_that_fit():
    plain, mean, most = BACKBONES.parse(BERT), parsed(BERT), parsed(BERT, pooling="max")
    transformer, deep = (parsed(BERT, pooling="transformer", document_layers=layers) for layers in (2, 3))
    assert not list(mean.takeover_errors(plain))
    assert not list(mean.takeover_errors(most))
    assert not list(mean.takeover_errors(parsed(BERT, segment=100, overlap=0, group=1)))
    assert list(plain.takeover_errors(mean)) == [
        "a backbone of kind pretrained cannot take over weights of kind hierarchical"
    ]
    assert list(mean.takeover_errors(transformer)) == ["pooling is mean, but the weights come from transformer"]
    assert list(deep.takeover_errors(transformer)) == ["document_layers is 3, but the weights come from 2"]
    assert "hidden_size" in next(parsed(ENCODER).takeover_errors(BACKBONES.parse(ENCODER | {"hidden_size": 32})))
