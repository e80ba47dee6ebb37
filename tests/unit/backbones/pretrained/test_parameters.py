"""Parameters and configuration of an architecture of transformers."""

import re

import pytest
from pydantic import ValidationError

from lib.backbones.pretrained.configuration import PretrainedBackboneConfig
from lib.backbones.pretrained.parameters import Parameters
from lib.core.errors import ConfigError
from lib.core.settings import describe

SIZES = {
    "model_type": "gemma3_text",
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 4,
}


def refused(**values):
    with pytest.raises(ValidationError) as caught:
        Parameters.model_validate({"kind": "pretrained"} | values)
    return describe(caught.value)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"model_type": "gpt2"}, "architecture.model_type: 'gpt2' has no entry in .*Choose one of llama, mistral"),
        ({"model_type": None}, "architecture.model_type: None has no entry"),
        ({"hidden_size": None}, "architecture.hidden_size: missing, or no whole number. Copy it from"),
        ({"is_causal": False}, "architecture.is_causal: follows from `attention`. Leave it out"),
        ({"use_bidirectional_attention": True}, "architecture.use_bidirectional_attention: follows from `attention`"),
    ],
)
def test_what_an_architecture_must_say(changes, expected):
    assert re.search(expected, refused(architecture=SIZES | changes))


def test_all_problems_in_one_message():
    message = refused(architecture={"model_type": "gpt2", "is_causal": True}, attention="sideways")
    for part in ("gpt2", "hidden_size", "is_causal", "attention"):
        assert part in message


def test_fields_that_an_architecture_does_not_take_are_named():
    config = PretrainedBackboneConfig(architecture=SIZES)
    assert config.inner().hidden_size == 16
    with pytest.raises(ConfigError, match="architecture: transformers cannot make a gemma3_text of it"):
        PretrainedBackboneConfig(architecture=SIZES | {"layer_types": ["sideways", "sideways"]})


def test_a_saved_configuration_opens_windows_once(tmp_path):
    """Opened, Gemma halves its windows when its configuration is made; ours makes it anew from the same fields."""
    config = PretrainedBackboneConfig(architecture=SIZES | {"sliding_window": 512}, attention="bidirectional")
    assert config.inner().sliding_window == 257
    for _ in range(2):
        config.save_pretrained(tmp_path)
        config = PretrainedBackboneConfig.from_pretrained(tmp_path)
    assert config.inner().sliding_window == 257
    assert config.parameters == Parameters(architecture=SIZES | {"sliding_window": 512})


def test_weights_move_between_directions_but_not_between_architectures():
    causal, opened = (Parameters(architecture=SIZES, attention=way) for way in ("causal", "bidirectional"))
    assert not list(opened.obstacles(causal))
    wider = Parameters(architecture=SIZES | {"hidden_size": 32})
    assert list(wider.obstacles(opened)) == ["architecture.hidden_size is 32, but the weights come from 16"]


def test_products_are_those_of_the_matrices():
    parameters = Parameters(architecture=SIZES | {"vocab_size": 100})
    attention = 16 * 16 + 2 * 16 * 8 + 16 * 16  # queries, keys and values of two heads, output
    scores = 2 * 16 * 10
    feed_forward = 3 * 16 * 32
    assert parameters.products_per_token(10, 0.5) == 2 * (attention + scores + feed_forward) + 0.5 * 16 * 100
