"""Settings of encoder-decoders."""

import re

import pytest
from pydantic import ValidationError

from lib.backbones.settings import BACKBONES
from lib.core.settings import describe
from lib.tasks.settings import TASKS
from studies.hate_speech.backbones.encoder_decoder.settings import Settings

pytestmark = [pytest.mark.extended, pytest.mark.extensions("studies/conversion", "studies/decoders")]

SIZES = {"model_type": "t5", "d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 3}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"model_type": "bart"}, "architecture.model_type: 'bart' is no known encoder-decoder. Choose t5"),
        ({"d_kv": None}, "architecture.d_kv: missing, or no whole number above 0. Copy it from"),
    ],
)
def test_architectures_refused(changes, expected):
    with pytest.raises(ValidationError) as caught:
        Settings.model_validate({"kind": "encoder_decoder", "architecture": SIZES | changes})
    assert re.search(expected, describe(caught.value))


def test_settings_of_reading_and_writing():
    parameters = Settings(architecture=SIZES)
    tasks = {
        "text_to_text": {"targets": ["a", "b"]},
        "span_corruption": {},
        "sequence_classification": {},
        "masked_lm": {},
        "span_detection": {},
        "imitation": {"teacher": "sdpa"},
    }
    trains = {kind: TASKS.parse({"kind": kind} | fields).trains(parameters) for kind, fields in tasks.items()}
    assert trains == dict.fromkeys(tasks, False) | {"text_to_text": True, "span_corruption": True}
    encoder = BACKBONES.parse({"kind": "encoder"})
    trains = {kind: TASKS.parse({"kind": kind} | fields).trains(encoder) for kind, fields in tasks.items()}
    assert trains == dict.fromkeys(tasks, True) | {"text_to_text": False, "span_corruption": False}


def test_weights_within_an_architecture():
    own = Settings(architecture=SIZES)
    wider = Settings(architecture=SIZES | {"d_ff": 64})
    assert not list(own.takeover_errors(own))
    assert list(wider.takeover_errors(own)) == ["architecture.d_ff is 64, but the weights come from 32"]
    (obstacle,) = own.takeover_errors(BACKBONES.parse({"kind": "encoder"}))
    assert "cannot take over weights of kind encoder" in obstacle


def test_products_of_matrices():
    parameters = Settings(architecture=SIZES | {"num_decoder_layers": 1, "vocab_size": 100})
    attention, scores, feed_forward = 4 * 16 * 24, 2 * 24 * 10, 2 * 16 * 32
    read = 2 * (attention + scores + feed_forward) + 2 * 16 * 24  # keys and values of the decoder
    assert parameters.products_per_token(10, 0.0) == read
    own, across = attention + 2 * 24 * 5, 2 * 16 * 24 + scores  # 5 tokens are written about 10
    assert parameters.products_per_token(10, 0.5) == read + 0.5 * (own + across + feed_forward + 16 * 100)
    gated = Settings(architecture=SIZES | {"feed_forward_proj": "gated-gelu"})
    assert gated.products_per_token(10, 0.0) - Settings(architecture=SIZES).products_per_token(10, 0.0) == 2 * 16 * 32
    assert (gated.blocks(), gated.longest(), gated.family) == (2, None, "t5")
