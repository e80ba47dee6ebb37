"""Settings and configuration of an architecture of transformers."""

import re

import pytest
import torch
from pydantic import ValidationError
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

from lib.backbones.pretrained.backbone import Backbone
from lib.backbones.pretrained.configuration import PretrainedBackboneConfig
from lib.backbones.pretrained.families import FAMILIES
from lib.backbones.pretrained.model import PretrainedBackboneModel
from lib.backbones.pretrained.settings import Settings
from lib.core.errors import ConfigError
from lib.core.settings import describe
from studies.decoders.training.projections import Projections, attention_layers

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
        Settings.model_validate({"kind": "pretrained"} | values)
    return describe(caught.value)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"model_type": "opt"}, "architecture.model_type: 'opt'"),
        ({"hidden_size": None}, "architecture.hidden_size"),
        ({"is_causal": False}, "architecture.is_causal"),
        ({"use_bidirectional_attention": True}, "architecture.use_bidirectional_attention"),
        ({"model_type": "deberta-v2"}, "architecture.max_position_embeddings"),
        ({"model_type": "gpt2", "n_embd": 32}, "architecture.n_embd and hidden_size"),
        ({"model_type": "distilbert", "hidden_dim": None, "intermediate_size": None}, "intermediate_size"),
        ({"model_type": "llama", "rope_scaling": {"type": "dynamic", "factor": 4.0}}, "max_position_embeddings"),
        ({"model_type": "albert", "max_position_embeddings": 64, "inner_group_num": 2}, "inner_group_num is 2"),
        (
            {"model_type": "nystromformer", "max_position_embeddings": 64, "segment_means_seq_len": 128},
            "segment_means_seq_len is 128, num_landmarks 64",
        ),
    ],
)
def test_architectures_that_are_refused(changes, expected):
    assert re.search(expected, refused(architecture=SIZES | changes))


def test_other_settings_that_are_refused():
    for family in FAMILIES:
        for value in ("8192", 1.5):
            message = refused(architecture=SIZES | {"model_type": family, "max_position_embeddings": value})
            assert "architecture.max_position_embeddings: " in message
    # Positions that are stretched or endless are not stretched again.
    for fields, word in (
        ({"model_type": "llama", "rope_scaling": {"type": "yarn", "factor": 4.0}}, "yarn"),
        ({"model_type": "llama", "rope_parameters": {"rope_type": "llama3", "factor": 8.0}}, "llama3"),
        ({"model_type": "gemma3_text", "rope_parameters": {"full_attention": {"rope_type": "linear"}}}, "linear"),
        ({"model_type": "deberta-v2", "position_biased_input": False}, "any length"),
    ):
        architecture = SIZES | {"max_position_embeddings": 64} | fields
        assert word in refused(architecture=architecture, positions={"length": 128, "fill": "linear"})
    # The weights of an encoder have never been without the tokens that follow.
    bert = SIZES | {"model_type": "bert", "max_position_embeddings": 64}
    for attention, steps in (("causal", {}), ("gradual", {"opening_steps": 5})):
        assert f"attention = {attention}" in refused(architecture=bert, attention=attention, **steps)


@pytest.mark.parametrize(
    ("changes", "longest"),
    [
        ({"model_type": "llama"}, 64),
        ({"model_type": "bert"}, 64),
        ({"model_type": "roberta"}, 62),  # its tables of 514 rows serve 512 tokens
        ({"model_type": "deberta-v2"}, 64),
        ({"model_type": "deberta-v2", "position_biased_input": False}, None),
        ({"model_type": "gpt2", "max_position_embeddings": 64, "n_positions": 64}, 64),
        ({"model_type": "mpnet"}, 62),
        ({"model_type": "longformer"}, 62),
    ],
)
def test_reach_of_an_architecture(changes, longest):
    assert Settings(architecture=SIZES | {"max_position_embeddings": 64} | changes).longest() == longest


@pytest.mark.extended
def test_reach_and_projections_of_every_family():
    for family, declared in FAMILIES.items():
        architecture = SIZES | {"model_type": family, "max_position_embeddings": 12}
        parameters = Settings(architecture=architecture)
        config = PretrainedBackboneConfig(architecture=architecture, pad_token_id=1, vocab_size=9)
        model = PretrainedBackboneModel(config)
        if "queries_and_keys" in parameters.abilities:
            assert len([Projections.read(layer) for layer in attention_layers(model)]) == SIZES["num_hidden_layers"]
        else:
            with pytest.raises(AttributeError):
                attention_layers(model)
        if not declared.positions:
            continue
        ids = torch.full((2, parameters.longest()), 3)
        for mask in (None, torch.ones_like(ids)):
            assert model(ids, mask).last_hidden_state.isfinite().all()
        if family != "deberta-v2":
            with pytest.raises((IndexError, RuntimeError)):
                model(torch.full((2, parameters.longest() + 1), 3))


def test_own_names_of_fields_are_understood():
    own = {"model_type": "distilbert", "dim": 16, "hidden_dim": 32, "n_layers": 2, "n_heads": 4}
    own |= {"max_position_embeddings": 64}
    shared = {"model_type": "distilbert", "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2}
    shared |= {"num_attention_heads": 4, "max_position_embeddings": 64}
    parameters = Settings(architecture=own)
    assert parameters == Settings(architecture=shared) == Settings(architecture=own | shared)
    assert parameters.architecture == shared
    assert (parameters.blocks(), parameters.longest()) == (2, 64)
    config = PretrainedBackboneConfig(architecture=own)
    assert {name: config.fields()[name] for name in own} == own
    assert (config.hidden_size, config.inner().hidden_dim, config.inner().n_layers) == (16, 32, 2)


@pytest.mark.parametrize("width", [{}, {"n_inner": None}])
def test_width_of_gpt_2(width):
    own = {"model_type": "gpt2", "n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 64}
    config = PretrainedBackboneConfig(architecture=own | width, attention="causal")
    assert (config.architecture["intermediate_size"], config.inner().n_inner) == (64, 64)


def test_windows_of_a_saved_configuration(tmp_path):
    """Opened, Gemma halves its windows when its configuration is made; ours makes it anew from the same fields."""
    config = PretrainedBackboneConfig(architecture=SIZES | {"sliding_window": 512}, attention="bidirectional")
    assert config.inner().sliding_window == 257
    for _ in range(2):
        config.save_pretrained(tmp_path)
        config = PretrainedBackboneConfig.from_pretrained(tmp_path)
    assert config.inner().sliding_window == 257
    assert config.parameters == Settings(architecture=SIZES | {"sliding_window": 512})


@pytest.mark.parametrize(("padding", "expected"), [("<pad>", 1), ("<eos>", None)])
def test_embedding_of_padding(padding, expected, tmp_path):
    core = Tokenizer(models.WordLevel({"<eos>": 0, "<pad>": 1, "a": 2}))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, eos_token="<eos>", pad_token=padding)
    config = Backbone(Settings(architecture=SIZES | {"vocab_size": 9}), seed=0).config(tokenizer, {})
    config.save_pretrained(tmp_path)
    for each in (config, PretrainedBackboneConfig.from_pretrained(tmp_path)):
        assert (each.vocab_size, each.pad_token_id, each.inner().pad_token_id) == (9, expected, expected)


def test_positions_behind_a_missing_padding():
    architecture = SIZES | {"model_type": "roberta", "max_position_embeddings": 64}
    config = PretrainedBackboneConfig(architecture=architecture, pad_token_id=None)
    with pytest.raises(ConfigError, match="padding"):
        PretrainedBackboneModel(config)


def test_weights_of_another_direction():
    causal, opened = (Settings(architecture=SIZES, attention=way) for way in ("causal", "bidirectional"))
    assert not list(opened.takeover_errors(causal))
    wider = Settings(architecture=SIZES | {"hidden_size": 32})
    assert list(wider.takeover_errors(opened)) == ["architecture.hidden_size is 32, but the weights come from 16"]


def test_products_are_those_of_the_matrices():
    parameters = Settings(architecture=SIZES | {"vocab_size": 100})
    attention = 16 * 16 + 2 * 16 * 8 + 16 * 16  # queries, keys and values of two heads, output
    scores = 2 * 16 * 10
    feed_forward = 3 * 16 * 32
    assert parameters.products_per_token(10, 0.5) == 2 * (attention + scores + feed_forward) + 0.5 * 16 * 100
    plain = SIZES | {"model_type": "bert", "max_position_embeddings": 64, "vocab_size": 100, "num_key_value_heads": 4}
    attention, feed_forward, head = 4 * 16 * 16, 2 * 16 * 32, 16 * 16 + 16 * 100
    products = Settings(architecture=plain).products_per_token(10, 0.5)
    assert products == 2 * (attention + scores + feed_forward) + 0.5 * head
    narrow = Settings(architecture=plain | {"model_type": "electra", "embedding_size": 8})
    assert narrow.products_per_token(10, 0.5) == 2 * (attention + scores + feed_forward) + 0.25 * head
