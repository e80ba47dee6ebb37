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
        ({"is_causal": False}, "architecture.is_causal"),
        ({"use_bidirectional_attention": True}, "architecture.use_bidirectional_attention"),
        ({"model_type": "gpt2", "n_embd": 32}, "architecture.n_embd and hidden_size"),
        ({"model_type": "albert", "max_position_embeddings": 64, "inner_group_num": 2}, "inner_group_num is 2"),
        (
            {"model_type": "nystromformer", "max_position_embeddings": 64, "segment_means_seq_len": 128},
            "segment_means_seq_len is 128, num_landmarks 64",
        ),
    ],
)
def test_architectures_that_are_refused(changes, expected):
    assert re.search(expected, refused(architecture=SIZES | changes))


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
