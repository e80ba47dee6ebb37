import pytest
import torch
from encoder_cases import EXAMPLES, EncoderForMaskedLM, EncoderForSequenceClassification, tiny_config

from lib.attention.settings import MECHANISMS
from lib.backbones.encoder.configuration import EncoderConfig
from lib.backbones.encoder.model import EncoderModel
from lib.training.record import count_parameters

RECIPE = {
    "sdpa": {"kind": "sdpa"},
    "lsh-h2-c64": {"kind": "lsh", "num_hashes": 2, "chunk_size": 64},
    "lsh-h4-c128": {"kind": "lsh", "num_hashes": 4, "chunk_size": 128},
    "favor-m64": {"kind": "favor", "nb_features": 64},
    "favor-m512": {"kind": "favor", "nb_features": 512},
}


def linear(inputs, outputs, bias=True):
    return inputs * outputs + (outputs if bias else 0)


def embeddings_count(config):
    rows = config.vocab_size + config.type_vocab_size
    if config.position_embedding_type == "learned":
        rows += config.max_position_embeddings
    return rows * config.hidden_size


def encoder_counts(config):
    """The weights of each part; an embedding and two parts of a block are followed by a norm."""
    hidden, inner, bias, blocks = (
        config.hidden_size,
        config.intermediate_size,
        config.attention_bias,
        config.num_hidden_layers,
    )
    width = config.attention_size or hidden
    of_keys = width // config.num_attention_heads * (config.num_key_value_heads or config.num_attention_heads)
    from_states = 1 if MECHANISMS.parse(config.mechanism).shares_query_and_key else 2
    keys_and_values = from_states * linear(config.kv_rank or hidden, of_keys, bias)
    latent = linear(hidden, config.kv_rank, bias=False) if config.kv_rank else 0
    return {
        "embeddings": embeddings_count(config),
        "attention": blocks * (linear(hidden, width, bias) + keys_and_values + latent + linear(width, hidden, bias)),
        "feed_forward": blocks * (linear(hidden, inner) + linear(inner, hidden)),
        "norms": (1 + 2 * blocks) * 2 * hidden,
    }


def masked_lm_head_count(config):
    decoder = 0 if config.tie_word_embeddings else config.vocab_size * config.hidden_size
    return linear(config.hidden_size, config.hidden_size) + 2 * config.hidden_size + decoder + config.vocab_size


def classification_head_count(config):
    dense = 0 if config.classifier_head == "none" else linear(config.hidden_size, config.hidden_size)
    return dense + linear(config.hidden_size, config.num_labels)


CHANGES = [
    {},
    {"attention_size": 8, "attention_bias": False},
    {"attention_size": 24, "type_vocab_size": 3},
    {"tie_word_embeddings": False, "classifier_head": "none", "num_labels": 11},
    {"classifier_head": "roberta", "num_hidden_layers": 3},
]


NARROW = {"num_key_value_heads": 1, "kv_rank": 6}


@pytest.mark.parametrize(
    ("mechanism", "position", "changes"),
    [
        *zip(["sdpa", "lsh", "favor"] * 2, ["learned", "sinusoidal", "rope", "rope", "learned"], CHANGES, strict=False),
        ("lsh", "rope", {}),
        ("sdpa", "rope", NARROW),
        ("favor", "rope", NARROW),
    ],
)
def test_counts_are_those_of_the_dimensions(mechanism, position, changes):
    config = tiny_config(mechanism=EXAMPLES[mechanism], position_embedding_type=position, **changes)
    with torch.device("meta"):
        models = {kind: kind(config) for kind in (EncoderModel, EncoderForMaskedLM, EncoderForSequenceClassification)}
    heads = (0, masked_lm_head_count(config), classification_head_count(config))
    for model, head in zip(models.values(), heads, strict=True):
        parts = encoder_counts(config)
        encoder = sum(parts.values())
        assert count_parameters(model) == {"total": encoder + head, "backbone": encoder, **parts, "head": head}


def test_counts_of_mechanisms():
    totals = {}
    for name, mechanism in RECIPE.items():
        with torch.device("meta"):
            model = EncoderForMaskedLM(EncoderConfig(mechanism=mechanism))
        totals[name] = count_parameters(model)["total"]
        fewer = 0.037 if name.startswith("lsh") else 0
        assert 1 - totals[name] / totals["sdpa"] == pytest.approx(fewer, abs=0.001)
