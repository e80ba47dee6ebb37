"""To which part of a model each of its weights counts."""

import pytest
import torch
import transformers

from lib.backbones.adapters import Adapters
from lib.backbones.pretrained.configuration import PretrainedBackboneConfig
from lib.backbones.pretrained.families import FAMILIES
from lib.backbones.settings import BACKBONES, Lora
from lib.training.record import count_parameters
from studies.hate_speech.backbones.encoder_decoder.configuration import EncoderDecoderBackboneConfig

pytestmark = pytest.mark.extensions("studies/hate_speech")

WORDS, WIDTH, INNER, BLOCKS, CLASSES = 40, 16, 32, 2, 3
PLAIN = {"hidden_size": WIDTH, "intermediate_size": INNER, "num_hidden_layers": BLOCKS, "num_attention_heads": 4}
POSITIONS = {"max_position_embeddings": 20}
DECODER = PLAIN | {"num_key_value_heads": 2, "head_dim": 4}
DEBERTA = PLAIN | POSITIONS | {"relative_attention": True, "position_buckets": 8, "pos_att_type": ["p2c", "c2p"]}
SIZES = {"deberta-v2": DEBERTA, "modernbert": PLAIN, "gemma3_text": DECODER, "electra": PLAIN | POSITIONS}
SIZES["electra"] |= {"embedding_size": 8}
T5 = {"model_type": "t5", "d_model": WIDTH, "d_kv": 8, "d_ff": INNER, "num_layers": BLOCKS, "num_heads": 2}

ATTENTION_OF_DECODER = BLOCKS * (2 * WIDTH * WIDTH + 2 * WIDTH * 8)  # keys and values of two heads of four
GATED = BLOCKS * 3 * WIDTH * INNER
ATTENTION_OF_BERT = BLOCKS * 4 * (WIDTH * WIDTH + WIDTH)
FEED_FORWARD_OF_BERT = BLOCKS * (2 * WIDTH * INNER + INNER + WIDTH)


def pretrained(model_type, head="SequenceClassification"):
    sizes = SIZES.get(model_type, (PLAIN if "bert" in model_type else DECODER) | POSITIONS)
    config = PretrainedBackboneConfig(
        architecture={"model_type": model_type} | sizes, vocab_size=WORDS, num_labels=CLASSES, classifier_head="none"
    )
    return getattr(transformers, f"AutoModelFor{head}").from_config(config)


def encoder_decoder(**changes):
    config = EncoderDecoderBackboneConfig(architecture=T5 | changes, vocab_size=WORDS, pad_token_id=0)
    return transformers.AutoModelForSeq2SeqLM.from_config(config)


def parts_of(model):
    """Return the counts, which must add up: parts to the backbone, and that and the head to all weights."""
    counts = count_parameters(model)
    total, backbone = counts.pop("total"), counts.pop("backbone")
    assert total == sum(counts.values()) == sum(weight.numel() for weight in model.parameters())
    assert backbone == total - counts["head"]
    return counts


def own(kind, **fields):
    config = {"hidden_size": WIDTH, "num_hidden_layers": BLOCKS, "vocab_size": WORDS, "num_labels": CLASSES} | fields
    module = BACKBONES.load(kind, "backbone").Backbone.model_class
    return transformers.AutoModelForSequenceClassification.from_config(module.config_class(**config))


def own_encoder(**fields):
    return own("encoder", num_attention_heads=4, intermediate_size=INNER, classifier_head="none", **fields)


OF_BERT = {"position_embedding_type": "learned", "max_position_embeddings": 20, "type_vocab_size": 2}


@pytest.mark.parametrize("make", [lambda: pretrained("bert"), lambda: own_encoder(**OF_BERT)], ids=["bert", "own"])
def test_bert(make):
    """Its tables have 2 segments; the norm after attention lies among the modules of attention."""
    assert parts_of(make()) == {
        "embeddings": (WORDS + 20 + 2) * WIDTH,
        "attention": ATTENTION_OF_BERT,
        "feed_forward": FEED_FORWARD_OF_BERT,
        "norms": (1 + 2 * BLOCKS) * 2 * WIDTH,
        "head": CLASSES * (WIDTH + 1),
    }


def test_llama():
    assert parts_of(pretrained("llama")) == {
        "embeddings": WORDS * WIDTH,
        "attention": ATTENTION_OF_DECODER,
        "feed_forward": GATED,
        "norms": (2 * BLOCKS + 1) * WIDTH,
        "head": CLASSES * (WIDTH + 1),
    }


def test_t5():
    """Self-attention in both stacks and attention to what was read; the biases of distances are a table per stack."""
    changes = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
    layers, buckets, heads = 3 * BLOCKS, 32, 2
    assert parts_of(encoder_decoder(**changes)) == {
        "embeddings": WORDS * WIDTH,
        "attention": layers * 4 * WIDTH * WIDTH + 2 * buckets * heads,
        "feed_forward": 2 * BLOCKS * 3 * WIDTH * INNER,
        "norms": (2 * BLOCKS + 3 * BLOCKS + 2) * WIDTH,
        "head": WORDS * WIDTH,
    }


def test_family_declares_all_that_it_has():
    """The projections attend; matrices of the width of the feed-forward layer do not; tables are embeddings."""
    for model_type in FAMILIES:
        model = pretrained(model_type, "MaskedLM")
        counts = parts_of(model)
        assert "other" not in counts, model_type
        vectors = sum(
            weight.numel()
            for module in model.base_model.modules()
            for weight in module.parameters(recurse=False)
            if isinstance(module, torch.nn.LayerNorm) or "Norm" in type(module).__name__
        )
        assert counts["norms"] == vectors, model_type
        sharing = BLOCKS // len(model.base_model.layers)  # ALBERT's layers are one block
        assert counts["feed_forward"] * sharing in (GATED, FEED_FORWARD_OF_BERT), model_type
        assert counts["attention"] * sharing >= ATTENTION_OF_DECODER, model_type


def test_adapters_count_to_their_part():
    model = pretrained("llama")
    before, rank = parts_of(model), 2
    Adapters(model, Lora(r=rank, alpha=2, targets=["q_proj", "down_proj"]), seed=0, start=None)
    assert parts_of(model) == before | {
        "attention": before["attention"] + BLOCKS * rank * (WIDTH + WIDTH),
        "feed_forward": before["feed_forward"] + BLOCKS * rank * (INNER + WIDTH),
    }


def test_weights_that_are_not_declared():
    model = pretrained("llama")
    model.base_model.extra = torch.nn.Linear(3, 5)
    assert parts_of(model)["other"] == 3 * 5 + 5


def test_own_encoders_of_fewer_weights():
    """One projection for queries and keys; keys and values of one head of four, from a latent of 6."""
    square, per_head = WIDTH * WIDTH + WIDTH, WIDTH // 4
    lsh = own_encoder(mechanism={"kind": "lsh", "num_hashes": 2, "chunk_size": 4})
    assert parts_of(lsh)["attention"] == BLOCKS * 3 * square
    narrow = parts_of(own_encoder(num_key_value_heads=1, kv_rank=6))
    assert narrow["attention"] == BLOCKS * (2 * square + WIDTH * 6 + 2 * (6 * per_head + per_head))


@pytest.mark.parametrize(("kind", "part"), [("recurrent", "recurrence"), ("ssm", "state_space")])
def test_layers_that_do_not_attend(kind, part):
    counts = parts_of(own(kind, **{"head_size": 8} if kind == "ssm" else {}))
    assert counts.keys() == {"embeddings", "norms", part, "head"}
