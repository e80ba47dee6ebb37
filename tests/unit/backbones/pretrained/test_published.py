"""A published model of an architecture as first weights."""

import json
import logging
import os
import re

import pytest
import torch
import transformers
from pydantic import ValidationError
from safetensors.torch import load_file, save_file
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForTokenClassification,
    Gemma3Config,
    Gemma3ForConditionalGeneration,
)

from lib.backbones.pretrained import declared
from lib.backbones.pretrained.backbone import Backbone
from lib.backbones.pretrained.configuration import PretrainedBackboneConfig
from lib.backbones.pretrained.families import FAMILIES
from lib.backbones.pretrained.fields import architecture_of, config_error, in_own_names
from lib.backbones.pretrained.settings import Settings
from lib.core.errors import RunError

ARCHITECTURE = {
    "model_type": "llama",
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}
VOCABULARY = 40


@pytest.fixture
def publish(tmp_path):
    def make(shards="1GB", **changes):
        fields = ARCHITECTURE | {"vocab_size": VOCABULARY} | changes
        torch.manual_seed(1)
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**fields)).eval()
        model.save_pretrained(tmp_path / "published", max_shard_size=shards)
        return model, tmp_path / "published"

    return make


def own(auto=AutoModelForMaskedLM, attention="causal", vocabulary=VOCABULARY, **changes):
    parameters = Settings(architecture=ARCHITECTURE | changes, attention=attention)
    config = PretrainedBackboneConfig(**parameters.model_dump(exclude={"kind"}), vocab_size=vocabulary, pad_token_id=0)
    torch.manual_seed(0)
    return Backbone(parameters, seed=0), auto.from_config(config).eval()


IDS = torch.arange(1, 21).view(2, 10)


@pytest.mark.parametrize(("tied", "shards"), [(True, "2KB"), (False, "1GB")])
def test_causal_model(tied, shards, publish):
    published, folder = publish(shards, tie_word_embeddings=tied)
    assert len(list(folder.glob("*.safetensors"))) > 1 or shards == "1GB"
    backbone, model = own(vocabulary=VOCABULARY + 3, tie_word_embeddings=tied)
    drawn = model.get_input_embeddings().weight[VOCABULARY:].clone()
    backbone.load_weights(model, folder)
    torch.testing.assert_close(model(IDS).logits[..., :VOCABULARY], published(IDS).logits)
    assert torch.equal(model.get_input_embeddings().weight[VOCABULARY:], drawn)


DECODERS = {
    "mistral": {},
    "qwen2": {},
    "qwen3": {},
    "olmo2": {},
    "olmo3": {"sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"]},
    "granite": {
        "attention_multiplier": 0.7,
        "embedding_multiplier": 12.0,
        "logits_scaling": 8.0,
        "residual_multiplier": 0.2,
    },
    "gemma2": {
        "attn_logit_softcapping": 0.1,
        "final_logit_softcapping": 0.2,
        "head_dim": 4,
        "query_pre_attn_scalar": 16,
        "sliding_window": 4,
    },
    "smollm3": {},
    "phi3": {},
    "modernbert-decoder": {"num_key_value_heads": 4, "local_attention": 6},
}


IN_THE_RING = ("qwen3", "gemma2", "bert", "roberta", "modernbert", "longformer", "deberta-v2")


def each(families):
    """Return families, of which some stand for the others in the short run of the tests."""
    return [pytest.param(name, marks=[] if name in IN_THE_RING else pytest.mark.extended) for name in families]


@pytest.mark.parametrize("family", each(DECODERS))
def test_decoder_with_padding(family, publish):
    changes = {"model_type": family} | DECODERS[family]
    published, folder = publish(pad_token_id=0, **changes)
    backbone, model = own(**changes)
    backbone.load_weights(model, folder)
    torch.testing.assert_close(model(IDS).logits, published(IDS).logits)
    for side in ("right", "left"):
        ids, mask = padded(side, 7)
        for found, real, document in zip(model(ids, mask).logits, mask.bool(), documents(), strict=True):
            torch.testing.assert_close(found[real], published(document).logits[0])


def test_weights_of_an_opened_model(publish):
    published, folder = publish()
    backbone, model = own(attention="bidirectional")
    backbone.load_weights(model, folder)
    assert not torch.allclose(model(IDS).logits[:, 0], published(IDS).logits[:, 0])
    torch.testing.assert_close(model(IDS).logits[:, -1:].shape, published(IDS).logits[:, -1:].shape)
    for name, weight in published.model.named_parameters():
        assert torch.equal(model.pretrained.inner.get_parameter(name), weight), name
    _, other = own(AutoModelForTokenClassification)  # whose head stays as drawn
    before = [weight.clone() for weight in other.head.parameters()]
    backbone.load_weights(other, folder)
    assert all(map(torch.equal, other.head.parameters(), before))


def cut_pickle(folder, share):
    path = folder / "pytorch_model.bin"
    torch.save(load_file(folder / "model.safetensors"), path)
    (folder / "model.safetensors").unlink()
    os.truncate(path, int(share * path.stat().st_size))


def spoil_index(folder, change):
    (path,) = folder.glob("*.index.json")
    path.write_text(json.dumps(change(json.loads(path.read_text()))))


DAMAGE = {
    **{f"{share} of a pickle": lambda folder, share=share: cut_pickle(folder, share) for share in (0, 0.5)},
    "no safetensors": lambda folder: (folder / "model.safetensors").write_bytes(b"12345678" * 9),
    "no map": lambda folder: spoil_index(folder, lambda index: {"metadata": index["metadata"]}),
    "a list": lambda folder: spoil_index(folder, lambda index: [index]),
    "no shard": lambda folder: next(folder.glob("*1-of*.safetensors")).unlink(),
    "no weights": lambda folder: [path.unlink() for path in folder.glob("*.safetensors*")],
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_weights(damage, publish):
    _, folder = publish("1GB" if "pickle" in damage or "safetensors" in damage else "2KB")
    DAMAGE[damage](folder)
    backbone, model = own()
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    with pytest.raises(RunError, match="published"):
        backbone.load_weights(model, folder)
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())


GEMMA = ARCHITECTURE | {"model_type": "gemma3_text", "head_dim": 4, "sliding_window": 8}
GEMMA |= {
    "layer_types": ["sliding_attention", "full_attention"],
    "rope_scaling": {"rope_type": "linear", "factor": 8.0},
}
IMAGES = {"model_type": "siglip_vision_model", "hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 1}
IMAGES |= {"num_attention_heads": 2, "image_size": 16, "patch_size": 8}


def test_text_part_of_a_model_that_also_sees(tmp_path):
    """As Gemma 3 is published from 4 billion weights on."""
    config = Gemma3Config(text_config=GEMMA | {"vocab_size": VOCABULARY}, vision_config=IMAGES, mm_tokens_per_image=4)
    torch.manual_seed(1)
    published = Gemma3ForConditionalGeneration(config).eval()
    published.save_pretrained(tmp_path / "published")
    parameters = Settings(architecture=GEMMA, attention="causal")
    values = parameters.model_dump(exclude={"kind"})
    model = AutoModelForMaskedLM.from_config(
        PretrainedBackboneConfig(**values, vocab_size=VOCABULARY, pad_token_id=0)
    ).eval()
    Backbone(parameters, seed=0).load_weights(model, tmp_path / "published")
    torch.testing.assert_close(model(IDS).logits, published(IDS).logits)
    for name, weight in published.model.language_model.named_parameters():
        assert torch.equal(model.pretrained.inner.get_parameter(name), weight), name


def test_files_read_of_each_family():
    for kind in FAMILIES:
        plain = {name: value for name, value in PLAIN.items() if name != "num_attention_heads"} | {"model_type": kind}
        assert "num_attention_heads" not in architecture_of(plain), kind  # other code may have it by another name
        saved, known = AutoConfig.for_model(kind).to_dict(), declared.fields(kind)
        unread = {name for name in saved if not name.startswith("_")} - known - {"output_attentions", "model_type"}
        assert not unread, kind
        assert {"rope_theta", "rope_scaling", "partial_rotary_factor"} <= known
        assert transformers.MODEL_MAPPING[type(AutoConfig.for_model(kind))].__name__ in declared.classes(kind)
    whole = {"model_type": "gemma3", "text_config": GEMMA | {"vocab_size": VOCABULARY}}
    assert "quantization_config" in config_error(whole | {"quantization_config": {"quant_method": "gptq"}})
    assert config_error(whole | {"quantization_config": None}) is None


PLAIN = {name: ARCHITECTURE[name] for name in ARCHITECTURE if name not in ("model_type", "num_key_value_heads")}
DISTANCES = {"relative_attention": True, "position_buckets": 8, "position_biased_input": False, "type_vocab_size": 0}
ENCODERS = {
    "bert": {},
    "albert": {"embedding_size": 8, "num_hidden_groups": 1},
    "ernie": {"use_task_id": True},
    "roberta": {"type_vocab_size": 1},
    "camembert": {"type_vocab_size": 1},
    "data2vec-text": {"type_vocab_size": 1},
    "xlm-roberta": {"type_vocab_size": 1},
    "deberta-v2": DISTANCES | {"norm_rel_ebd": "layer_norm", "share_att_key": True, "pos_att_type": ["p2c", "c2p"]},
    "modernbert": {"local_attention": 6},
    "distilbert": {},
    "electra": {"embedding_size": 8},
    "mpnet": {},
    "longformer": {"attention_window": [4, 8]},
    "big_bird": {"block_size": 2, "num_random_blocks": 1},  # sparse from 15 tokens on
    "nystromformer": {"conv_kernel_size": 5},
    "eurobert": {"num_key_value_heads": 2},
    "nomic_bert": {"hidden_act": "silu"},
    "jina_embeddings_v3": {"type_vocab_size": 1},
    "ultrabert": {"sliding_window": 3, "layer_types": ["sliding_attention", "full_attention"]},
}
PAD = 1


@pytest.fixture
def publish_encoder(tmp_path):
    def make(kind, **changes):
        special = {"bos_token_id": 0, "eos_token_id": 2, "cls_token_id": 0, "sep_token_id": 2, "pad_token_id": PAD}
        fields = PLAIN | ENCODERS[kind] | special | {"vocab_size": VOCABULARY} | changes
        torch.manual_seed(1)
        config = AutoConfig.for_model(**in_own_names({"model_type": kind} | fields))
        model = AutoModelForMaskedLM.from_config(config).eval()
        with torch.no_grad():  # biases and norms begin alike in all models
            for weight in model.parameters():
                weight.add_(torch.randn_like(weight) / 10)
        model.save_pretrained(tmp_path / "published")
        return model, tmp_path / "published"

    return make


def own_encoder(kind, vocabulary=VOCABULARY, **changes):
    parameters = Settings(architecture=PLAIN | ENCODERS[kind] | {"model_type": kind} | changes)
    values = parameters.model_dump(exclude={"kind"})
    torch.manual_seed(0)
    config = PretrainedBackboneConfig(**values, vocab_size=vocabulary, pad_token_id=PAD)
    return Backbone(parameters, seed=0), AutoModelForMaskedLM.from_config(config).eval()


def documents():
    return [torch.arange(3, 3 + length)[None] for length in (23, 10, 6)]


def padded(side, filler):
    """Return ids of the documents, padded, with their mask."""
    real = (torch.arange(25) < torch.tensor([[ids.shape[1]] for ids in documents()])).long()
    mask = real if side == "right" else real.flip(1)
    batch = torch.full_like(mask, filler)
    batch[mask.bool()] = torch.cat(documents(), dim=1)[0]
    return batch, mask


def logits_of(published, ids):
    """Return what transformers gives for a single document without padding."""
    kind, extra = published.config.model_type, {}
    if kind == "longformer":
        extra["global_attention_mask"] = torch.zeros_like(ids).index_fill(1, torch.tensor(0), 1)
    if kind == "big_bird":
        published.bert.set_attention_type("block_sparse")  # which it leaves for good at the first short text
    return published(ids, **extra).logits[0]


@pytest.mark.parametrize("kind", each(kind for kind in ENCODERS if FAMILIES[kind].head))
def test_encoder_with_padding(kind, publish_encoder):
    published, folder = publish_encoder(kind)
    backbone, model = own_encoder(kind, vocabulary=VOCABULARY + 3)
    backbone.load_weights(model, folder)
    for side, filler in (("right", 7), ("left", PAD)):
        ids, mask = padded(side, filler)
        logits = model(ids, mask).logits[..., :VOCABULARY]
        for found, real, document in zip(logits, mask.bool(), documents(), strict=True):
            torch.testing.assert_close(found[real], logits_of(published, document))
    document = documents()[2]
    torch.testing.assert_close(model(document).logits[0, :, :VOCABULARY], logits_of(published, document))
    extra = {"global_attention_mask": (document == 3).long()} if kind == "longformer" else {}
    expected = published.base_model(document, output_hidden_states=True, **extra).hidden_states
    found = model.base_model(document, output_hidden_states=True).hidden_states
    assert len(found) == len(expected) == 3
    for states, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(states, theirs)
    tied = model.get_output_embeddings().weight is model.get_input_embeddings().weight
    assert tied == (kind != "eurobert")


def test_bigbird_after_a_short_text(publish_encoder):
    """Left alone, it attends fully for good after a short text, and draws weights meanwhile."""
    published, folder = publish_encoder("big_bird")
    backbone, model = own_encoder("big_bird")
    backbone.load_weights(model, folder)
    long, _, short = documents()
    state = torch.get_rng_state()
    first, between, again = (model(ids).logits for ids in (long, short, long))
    assert torch.equal(first, again)
    assert torch.equal(torch.get_rng_state(), state)
    published(short)
    assert not torch.allclose(published(long).logits, first)
    published.bert.set_attention_type("block_sparse")
    torch.testing.assert_close(published(long).logits, first)
    torch.testing.assert_close(between, published(short).logits)


@pytest.mark.parametrize(("kind", "name"), [("bert", "intermediate_size"), ("distilbert", "hidden_dim")])
def test_encoder_of_another_architecture(kind, name, publish_encoder):
    _, folder = publish_encoder(kind)
    backbone, model = own_encoder(kind, intermediate_size=48)
    with pytest.raises(RunError, match=f"{name} is 48, there 32"):
        backbone.load_weights(model, folder)


@pytest.mark.parametrize("lack", ["head", "layer"])
def test_encoder_without_a_head_or_a_layer(lack, publish_encoder, caplog):
    published, folder = publish_encoder("deberta-v2")
    if lack == "head":
        published.deberta.save_pretrained(folder)
    if lack == "layer":
        weights = {name: weight for name, weight in published.state_dict().items() if "layer.1.output" not in name}
        published.save_pretrained(folder, state_dict=weights)
    backbone, model = own_encoder("deberta-v2")
    drawn = model.head.dense.weight.clone()
    if lack == "layer":
        with pytest.raises(RunError, match="deberta.encoder.layer.1.output"):
            backbone.load_weights(model, folder)
        return
    with caplog.at_level(logging.INFO):
        backbone.load_weights(model, folder)
    assert "random" in caplog.text
    assert torch.equal(model.head.dense.weight, drawn)
    words = published.deberta.get_input_embeddings().weight
    assert torch.equal(model.get_input_embeddings().weight, words)


@pytest.mark.parametrize(("files", "dtype"), [(1, torch.float16), (3, torch.float64)])
def test_weights_in_the_older_form(files, dtype, publish_encoder):
    """As those of mDeBERTa v3 are published; in any precision they become float32."""
    published, folder = publish_encoder("deberta-v2")
    (folder / "model.safetensors").unlink()
    weights = {name: weight.to(dtype) for name, weight in published.state_dict().items()}
    published.load_state_dict(weights)
    if files == 1:
        torch.save(weights, folder / "pytorch_model.bin")
    else:
        shards = {name: f"pytorch_model-{number % files}.bin" for number, name in enumerate(weights)}
        for shard in {*shards.values()}:
            torch.save({name: weights[name] for name in weights if shards[name] == shard}, folder / shard)
        index = {"metadata": {}, "weight_map": shards}
        (folder / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    backbone, model = own_encoder("deberta-v2")
    backbone.load_weights(model, folder)
    torch.testing.assert_close(model(IDS).logits, published(IDS).logits)


OLD = {
    "modernbert": {
        "deterministic_flash_attn": False,
        "global_attn_every_n_layers": 3,
        "global_rope_theta": 160000,
        "gradient_checkpointing": False,
        "layer_norm_eps": 1e-05,
        "local_attention": 8,
        "local_rope_theta": 160000,
        "norm_eps": 1e-05,
        "pad_token_id": 0,
        "position_embedding_type": "sans_pos",
        "sparse_pred_ignore_index": -100,
        "sparse_prediction": False,
    },
    "gpt2": {
        "attn_pdrop": 0.1,
        "n_ctx": 64,
        "n_embd": 16,
        "n_head": 4,
        "n_layer": 2,
        "n_positions": 64,
        "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}},
    },
}
"""Fields of the config.json of jhu-clsp/mmBERT-base and gpt2, but for those still written; sizes of a small model."""


@pytest.mark.parametrize("kind", OLD)
def test_published_config(kind, tmp_path):
    sizes = {} if kind == "gpt2" else PLAIN
    fields = {"model_type": kind} | sizes | OLD[kind] | {"vocab_size": VOCABULARY}
    auto = AutoModelForCausalLM if kind == "gpt2" else AutoModelForMaskedLM
    torch.manual_seed(1)
    published = auto.from_config(AutoConfig.for_model(**fields)).float().eval()
    published.save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(fields))
    attention = "causal" if kind == "gpt2" else "bidirectional"
    parameters = Settings(architecture=architecture_of(fields), attention=attention)
    special = {"vocab_size": VOCABULARY, "pad_token_id": OLD[kind].get("pad_token_id")}
    config = PretrainedBackboneConfig(**parameters.model_dump(exclude={"kind"}), **special)
    model = AutoModelForMaskedLM.from_config(config).eval()
    Backbone(parameters, seed=0).load_weights(model, tmp_path)
    document = documents()[0]
    torch.testing.assert_close(model(document).logits[0], logits_of(published, document))


HARMLESS = {
    "_attn_implementation": "flash_attention_2",
    "_commit_hash": "0" * 40,
    "add_cross_attention": False,
    "auto_map": {"AutoConfig": "configuration_own.OwnConfig", "AutoTokenizer": ["tokenization_own.Own", None]},
    "gradient_checkpointing": True,
    "id2label": {"0": "LABEL_0"},
    "matryoshka_dimensions": [64, 32],
    "output_attentions": True,
    "output_hidden_states": True,
    "position_embedding_type": None,
    "pruned_heads": {},
    "quantization_config": None,
    "sentence_transformers": {"activation_fn": "torch.nn.modules.activation.Sigmoid", "version": "4.1.0.dev0"},
    "tokenizer_class": "BertTokenizer",
    "torch_dtype": "float16",
}
"""Fields of published files that change no state."""


def with_fields(folder, fields):
    """Add fields to the config.json in a folder, and return all."""
    path = folder / "config.json"
    changed = json.loads(path.read_text()) | fields
    path.write_text(json.dumps(changed))
    return changed


@pytest.mark.parametrize(
    ("kind", "source"), [("bert", "by hand"), ("distilbert", "copied by hand"), ("longformer", "config.json")]
)
def test_fields_that_change_no_state(kind, source, publish_encoder, caplog):
    published, folder = publish_encoder(kind)
    plain = architecture_of(json.loads((folder / "config.json").read_text()))
    fields = with_fields(folder, HARMLESS)
    assert config_error(fields) is None
    assert not architecture_of(fields).keys() - plain.keys() - {"add_cross_attention"}
    copied = {name: value for name, value in fields.items() if name not in FAMILIES[kind].switches["bidirectional"]}
    changes = {"by hand": {}, "copied by hand": copied, "config.json": architecture_of(fields)}[source]
    backbone, model = own_encoder(kind, **changes)
    with caplog.at_level(logging.INFO):
        backbone.load_weights(model, folder)
    assert re.search("_commit_hash.* sentence_transformers, .*tokenizer_class", caplog.text)
    torch.testing.assert_close(model(IDS + 2).logits, logits_of_batch(published, IDS + 2))


def logits_of_batch(published, ids):
    return torch.stack([logits_of(published, document[None]) for document in ids])


HARMFUL = {
    "quantised": ("bert", "quantization_config", {"quant_method": "bitsandbytes", "load_in_4bit": True}),
    "quantised otherwise": ("bert", "compression_config", {"format": "int-quantized"}),
    "distances": ("bert", "position_embedding_type", "relative_key_query"),
    "code": ("bert", "auto_map", {"AutoModel": "jinaai/jina-bert--modeling_bert.JinaBertModel"}),
    "no window": ("longformer", "attention_mode", "tvm"),
    "far distances": ("mpnet", "relative_attention_max_distance", 64),
}


@pytest.mark.parametrize("harm", HARMFUL)
def test_fields_that_change_states(harm, publish_encoder):
    kind, name, value = HARMFUL[harm]
    _, folder = publish_encoder(kind)
    fields = with_fields(folder, {name: value} | ({} if name == "quantization_config" else HARMLESS | {name: value}))
    shown = "JinaBertModel" if name == "auto_map" else re.escape(repr(value))
    expected = rf"{name} = {shown}: .*(Name a|remove auto_map)"
    assert re.search(expected, config_error(fields))
    backbone, model = own_encoder(kind)
    before = {each: weight.clone() for each, weight in model.state_dict().items()}
    with pytest.raises(RunError, match=rf"config.json: it .*{expected}"):
        backbone.load_weights(model, folder)
    assert all(torch.equal(weight, before[each]) for each, weight in model.state_dict().items())
    with pytest.raises(ValidationError, match=rf"architecture.{expected}"):
        Settings(architecture=PLAIN | ENCODERS[kind] | {"model_type": kind, name: value})


def test_weights_that_are_left_over_in_a_block(publish_encoder):
    _, folder = publish_encoder("bert")
    weights = load_file(folder / "model.safetensors") | {"cls.seq_relationship.weight": torch.zeros(2, 16)}
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    backbone, model = own_encoder("bert")
    backbone.load_weights(model, folder)
    weights["bert.encoder.layer.0.attention.self.layer_norm_q.weight"] = torch.ones(16)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(RunError, match="layer_norm_q.weight"):
        backbone.load_weights(model, folder)
