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
        ({"model_type": "opt"}, "architecture.model_type: 'opt' is not known. Choose one of llama, mistral"),
        ({"model_type": None}, "architecture.model_type: None is not known"),
        ({"hidden_size": None}, "architecture.hidden_size: missing, or no whole number above 0. Copy it from"),
        ({"is_causal": False}, "architecture.is_causal: follows from `attention`. Leave it out"),
        ({"use_bidirectional_attention": True}, "architecture.use_bidirectional_attention: follows from `attention`"),
        ({"model_type": "xlm-roberta"}, "architecture.max_position_embeddings: missing"),
        ({"model_type": "deberta-v2"}, "architecture.max_position_embeddings: missing"),
        (
            {"model_type": "gpt2", "n_embd": 32},
            "architecture.n_embd and hidden_size are the same field.* Give one of them",
        ),
        ({"model_type": "distilbert", "hidden_dim": None, "intermediate_size": None}, "intermediate_size: missing"),
        (
            {"model_type": "llama", "rope_scaling": {"type": "dynamic", "factor": 4.0}},
            "architecture.max_position_embeddings: missing; beyond it, positions of type dynamic depend",
        ),
        (
            {"model_type": "albert", "max_position_embeddings": 64, "inner_group_num": 2},
            "architecture.inner_group_num is 2: only groups of 1 layer are known",
        ),
        (
            {"model_type": "nystromformer", "max_position_embeddings": 64, "segment_means_seq_len": 128},
            "architecture.segment_means_seq_len is 128, num_landmarks 64: .* Give both the same number",
        ),
    ],
)
def test_what_an_architecture_must_say(changes, expected):
    assert re.search(expected, refused(architecture=SIZES | changes))


@pytest.mark.parametrize("value", ["8192", 1.5, [64]])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_longest_text_that_is_no_number_is_refused(family, value):
    message = refused(architecture=SIZES | {"model_type": family, "max_position_embeddings": value})
    assert "architecture.max_position_embeddings: " in message


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"model_type": "llama", "rope_scaling": {"rope_type": "linear", "factor": 8.0}}, "by linear"),
        ({"model_type": "llama", "rope_scaling": {"type": "yarn", "factor": 4.0}}, "by yarn"),
        ({"model_type": "llama", "rope_parameters": {"rope_type": "llama3", "factor": 8.0}}, "by llama3"),
        ({"model_type": "gemma3_text", "rope_parameters": {"full_attention": {"rope_type": "linear"}}}, "by linear"),
        ({"model_type": "deberta-v2", "position_biased_input": False}, "reads texts of any length"),
    ],
)
@pytest.mark.parametrize("fill", ["linear", "yarn"])
def test_positions_that_are_stretched_or_endless_are_not_stretched_again(fields, message, fill):
    architecture = SIZES | {"max_position_embeddings": 64} | fields
    assert message in refused(architecture=architecture, positions={"length": 128, "fill": fill})


@pytest.mark.parametrize("attention", ["causal", "gradual"])
def test_an_encoder_cannot_be_made_causal(attention):
    """Its weights have never been without the tokens that follow."""
    bert = SIZES | {"model_type": "bert", "max_position_embeddings": 64}
    steps = {"opening_steps": 5} if attention == "gradual" else {}
    message = refused(architecture=bert, attention=attention, **steps)
    assert f"attention = {attention}: bert is an encoder. Set attention: bidirec" in message


@pytest.mark.parametrize(
    ("changes", "longest"),
    [
        ({"model_type": "llama"}, 64),
        ({"model_type": "bert"}, 64),
        ({"model_type": "roberta"}, 62),  # its tables of 514 rows serve 512 tokens
        ({"model_type": "deberta-v2"}, 64),
        ({"model_type": "deberta-v2", "position_biased_input": False}, None),
        ({"model_type": "modernbert"}, 64),
        ({"model_type": "gpt2"}, 64),
        ({"model_type": "gpt2", "max_position_embeddings": 64, "n_positions": 64}, 64),
        ({"model_type": "distilbert"}, 64),
        ({"model_type": "electra"}, 64),
        ({"model_type": "mpnet"}, 62),
        ({"model_type": "longformer"}, 62),
        ({"model_type": "big_bird"}, 64),
        ({"model_type": "nystromformer"}, 64),
        ({"model_type": "eurobert"}, 64),
        ({"model_type": "albert"}, 64),
        ({"model_type": "camembert"}, 62),
        ({"model_type": "nomic_bert"}, 64),
    ],
)
def test_tables_of_positions_end(changes, longest):
    assert Settings(architecture=SIZES | {"max_position_embeddings": 64} | changes).longest() == longest


@pytest.mark.parametrize("family", FAMILIES)
def test_queries_and_keys_are_claimed_where_they_are(family):
    architecture = SIZES | {"model_type": family, "max_position_embeddings": 64}
    model = PretrainedBackboneModel(PretrainedBackboneConfig(architecture=architecture, pad_token_id=0, vocab_size=9))
    claimed = "queries_and_keys" in Settings(architecture=architecture).abilities
    if claimed:
        assert len([Projections.read(layer) for layer in attention_layers(model)]) == SIZES["num_hidden_layers"]
    else:
        with pytest.raises(AttributeError):
            attention_layers(model)


@pytest.mark.parametrize("family", [name for name, family in FAMILIES.items() if family.positions])
def test_the_longest_text_has_a_position_for_each_token(family):
    architecture = SIZES | {"model_type": family, "max_position_embeddings": 12}
    parameters = Settings(architecture=architecture)
    model = PretrainedBackboneModel(PretrainedBackboneConfig(architecture=architecture, pad_token_id=1, vocab_size=9))
    ids = torch.full((2, parameters.longest()), 3)
    for mask in (None, torch.ones_like(ids)):
        assert model(ids, mask).last_hidden_state.isfinite().all()
    if family != "deberta-v2":
        with pytest.raises((IndexError, RuntimeError)):
            model(torch.full((2, parameters.longest() + 1), 3))


@pytest.mark.parametrize(("groups", "blocks"), [({}, 1), ({"num_hidden_groups": 2}, 2)])
def test_layers_that_share_a_block_count_once(groups, blocks):
    architecture = SIZES | {"model_type": "albert", "max_position_embeddings": 64} | groups
    model = PretrainedBackboneModel(PretrainedBackboneConfig(architecture=architecture, pad_token_id=0, vocab_size=9))
    assert Settings(architecture=architecture).blocks() == len(model.layers) == blocks
    names = {name.partition(".")[0] for name, _ in model.inner.named_parameters()}
    assert names == {"embeddings", "encoder"}
    assert len([*model.embeddings.parameters()]) == 7  # words, positions, types, a norm, and the projection


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


def test_the_dropout_of_attention_has_a_name_of_its_own_in_distilbert():
    sizes = SIZES | {"model_type": "distilbert", "max_position_embeddings": 64}
    given = sizes | {"attention_dropout": 0.2}
    assert Settings(architecture=sizes).dropout_of_weights() == 0.1
    assert Settings(architecture=given).dropout_of_weights() == 0.2
    for rate, inner in [(None, 0.2), (0.0, 0.0)]:
        config = PretrainedBackboneConfig(architecture=given, attention_dropout=rate)
        assert config.inner().attention_dropout == inner


@pytest.mark.parametrize("width", [{}, {"n_inner": None}, {"n_inner": 64}, {"intermediate_size": 64}])
def test_gpt_2_is_four_times_as_wide_where_no_width_is_given(width):
    own = {"model_type": "gpt2", "n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 64}
    config = PretrainedBackboneConfig(architecture=own | width, attention="causal")
    assert (config.architecture["intermediate_size"], config.inner().n_inner) == (64, 64)


def test_all_problems_in_one_message():
    message = refused(architecture={"model_type": "opt", "is_causal": True})
    for part in ("opt", "hidden_size", "is_causal"):
        assert part in message
    assert "attention" in refused(architecture={"model_type": "opt", "is_causal": True}, attention="sideways")


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
    assert config.parameters == Settings(architecture=SIZES | {"sliding_window": 512})


@pytest.mark.parametrize(("padding", "expected"), [("<pad>", 1), ("<eos>", None)])
def test_a_token_that_only_serves_as_padding_has_an_embedding_that_learns(padding, expected, tmp_path):
    core = Tokenizer(models.WordLevel({"<eos>": 0, "<pad>": 1, "a": 2}))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, eos_token="<eos>", pad_token=padding)
    config = Backbone(Settings(architecture=SIZES | {"vocab_size": 9}), seed=0).config(tokenizer, {})
    config.save_pretrained(tmp_path)
    for each in (config, PretrainedBackboneConfig.from_pretrained(tmp_path)):
        assert (each.vocab_size, each.pad_token_id, each.inner().pad_token_id) == (9, expected, expected)


@pytest.mark.parametrize("family", [kind for kind, family in FAMILIES.items() if family.counts_from_padding])
def test_positions_behind_padding_need_a_token_for_it(family):
    architecture = SIZES | {"model_type": family, "max_position_embeddings": 64}
    config = PretrainedBackboneConfig(architecture=architecture, pad_token_id=None)
    with pytest.raises(ConfigError, match="no token for padding"):
        PretrainedBackboneModel(config)


def test_weights_move_between_directions_but_not_between_architectures():
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


def test_what_is_nested_in_an_architecture_stays_as_it_was_given():
    """Configurations of transformers write into the mapping by which positions are stretched."""
    stretched = {"rope_type": "llama3", "factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0}
    stretched |= {"original_max_position_embeddings": 16}
    sizes = {name: value for name, value in SIZES.items() if name != "model_type"}
    architecture = {"model_type": "llama", **sizes, "rope_scaling": dict(stretched), "rope_theta": 500_000.0}
    config = PretrainedBackboneConfig(architecture=architecture)
    assert config.inner().rope_parameters == stretched | {"rope_theta": 500_000.0}
    assert config.architecture["rope_scaling"] == stretched
