"""A published model of an architecture as first weights."""

import json
import logging

import pytest
import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForTokenClassification,
    Gemma3Config,
    Gemma3ForConditionalGeneration,
)

from lib.backbones.pretrained.backbone import Backbone
from lib.backbones.pretrained.configuration import PretrainedBackboneConfig
from lib.backbones.pretrained.parameters import Parameters
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
    parameters = Parameters(architecture=ARCHITECTURE | changes, attention=attention)
    config = PretrainedBackboneConfig(**parameters.model_dump(exclude={"kind"}), vocab_size=vocabulary, pad_token_id=0)
    torch.manual_seed(0)
    return Backbone(parameters, seed=0), auto.from_config(config).eval()


IDS = torch.arange(1, 21).view(2, 10)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("shards", ["1GB", "2KB"])
def test_a_causal_model_gives_what_the_published_one_gives(tied, shards, publish):
    published, folder = publish(shards, tie_word_embeddings=tied)
    assert len(list(folder.glob("*.safetensors"))) > 1 or shards == "1GB"
    backbone, model = own(tie_word_embeddings=tied)
    backbone.load_weights(model, folder)
    torch.testing.assert_close(model(IDS).logits, published(IDS).logits)


@pytest.mark.parametrize("family", ["mistral", "qwen2", "qwen3", "olmo2", "smollm3", "phi3"])
def test_every_decoder_gives_what_the_published_one_gives(family, publish):
    published, folder = publish(model_type=family, pad_token_id=0)
    backbone, model = own(model_type=family)
    backbone.load_weights(model, folder)
    torch.testing.assert_close(model(IDS).logits, published(IDS).logits)


@pytest.mark.parametrize("width", [64, 48])
def test_gpt_2_gives_what_the_published_one_gives(width, tmp_path):
    """Its file says null where its feed-forward layers are four times as wide as a state."""
    unknown = {"intermediate_size", "num_key_value_heads"}
    fields = {name: value for name, value in ARCHITECTURE.items() if name not in unknown}
    fields |= {"model_type": "gpt2", "vocab_size": VOCABULARY, "n_inner": None if width == 64 else width}
    torch.manual_seed(1)
    published = AutoModelForCausalLM.from_config(AutoConfig.for_model(**fields)).eval()
    published.save_pretrained(tmp_path)
    backbone, model = own(model_type="gpt2", intermediate_size=width, num_key_value_heads=None)
    backbone.load_weights(model, tmp_path)
    torch.testing.assert_close(model(IDS).logits, published(IDS).logits)
    assert {id(each) for each in model.base_model.embeddings.parameters()} == {
        id(each) for name, each in model.named_parameters() if "wte" in name or "wpe" in name
    }


def test_an_opened_model_has_the_weights_and_sees_both_sides(publish):
    published, folder = publish()
    backbone, model = own(attention="bidirectional")
    backbone.load_weights(model, folder)
    assert not torch.allclose(model(IDS).logits[:, 0], published(IDS).logits[:, 0])
    torch.testing.assert_close(model(IDS).logits[:, -1:].shape, published(IDS).logits[:, -1:].shape)
    for name, weight in published.model.named_parameters():
        assert torch.equal(model.pretrained.inner.get_parameter(name), weight), name


def test_a_head_of_another_task_stays_as_drawn(publish):
    _, folder = publish()
    backbone, model = own(AutoModelForTokenClassification)
    before = [weight.clone() for weight in model.head.parameters()]
    backbone.load_weights(model, folder)
    assert all(torch.equal(weight, other) for weight, other in zip(model.head.parameters(), before, strict=True))


@pytest.mark.parametrize("tied", [True, False])
def test_tokens_beyond_the_vocabulary_keep_their_embeddings(tied, publish):
    published, folder = publish(tie_word_embeddings=tied)
    backbone, model = own(vocabulary=VOCABULARY + 3, tie_word_embeddings=tied)
    drawn = model.get_input_embeddings().weight[VOCABULARY:].clone()
    backbone.load_weights(model, folder)
    assert torch.equal(model.get_input_embeddings().weight[VOCABULARY:], drawn)
    torch.testing.assert_close(model(IDS).logits[..., :VOCABULARY], published(IDS).logits)


def test_another_architecture_is_refused(publish):
    _, folder = publish(rms_norm_eps=1e-3, intermediate_size=48)
    backbone, model = own()
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    with pytest.raises(
        RunError, match=r"config.json: another architecture.*intermediate_size is 32, there 48; rms_norm"
    ):
        backbone.load_weights(model, folder)
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())


def test_missing_weights_are_refused(publish):
    _, folder = publish("2KB")
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    (folder / index["weight_map"]["model.layers.1.mlp.up_proj.weight"]).unlink()
    backbone, model = own()
    with pytest.raises(RunError, match="published: cannot be loaded"):
        backbone.load_weights(model, folder)


def test_a_run_goes_on_from_a_saved_model(publish, tmp_path):
    _, model = own(attention="causal")
    model.save_pretrained(tmp_path / "own")
    opened, other = own(attention="bidirectional")
    torch.nn.init.zeros_(other.head.decoder.weight)
    opened.load_weights(other, tmp_path / "own")
    assert torch.equal(other.head.decoder.weight, model.head.decoder.weight)


STRETCHED = {"rope_type": "llama3", "factor": 4.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0}
STRETCHED |= {"original_max_position_embeddings": 16}


def test_positions_are_stretched_as_those_that_were_published(publish):
    """As in Llama 3.2."""
    published, folder = publish(rope_scaling=STRETCHED, rope_theta=100.0)
    backbone, model = own(rope_scaling=STRETCHED, rope_theta=100.0)
    backbone.load_weights(model, folder)
    torch.testing.assert_close(model(IDS).logits, published(IDS).logits)
    _, plain = own(rope_theta=100.0)
    with pytest.raises(RunError, match="config.json: another architecture.*rope_parameters"):
        backbone.load_weights(plain, folder)


GEMMA = ARCHITECTURE | {"model_type": "gemma3_text", "head_dim": 4, "sliding_window": 8}
GEMMA |= {
    "layer_types": ["sliding_attention", "full_attention"],
    "rope_scaling": {"rope_type": "linear", "factor": 8.0},
}
IMAGES = {"model_type": "siglip_vision_model", "hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 1}
IMAGES |= {"num_attention_heads": 2, "image_size": 16, "patch_size": 8}


@pytest.mark.parametrize("attention", ["causal", "bidirectional"])
def test_the_text_part_of_a_model_that_also_sees_is_taken(attention, tmp_path):
    """As Gemma 3 is published from 4 billion weights on."""
    config = Gemma3Config(text_config=GEMMA | {"vocab_size": VOCABULARY}, vision_config=IMAGES, mm_tokens_per_image=4)
    torch.manual_seed(1)
    published = Gemma3ForConditionalGeneration(config).eval()
    published.save_pretrained(tmp_path / "published")
    parameters = Parameters(architecture=GEMMA, attention=attention)
    values = parameters.model_dump(exclude={"kind"})
    model = AutoModelForMaskedLM.from_config(
        PretrainedBackboneConfig(**values, vocab_size=VOCABULARY, pad_token_id=0)
    ).eval()
    Backbone(parameters, seed=0).load_weights(model, tmp_path / "published")
    same = torch.allclose(model(IDS).logits, published(IDS).logits, atol=1e-5)
    assert same == (attention == "causal")
    for name, weight in published.model.language_model.named_parameters():
        assert torch.equal(model.pretrained.inner.get_parameter(name), weight), name


PLAIN = {name: ARCHITECTURE[name] for name in ARCHITECTURE if name not in ("model_type", "num_key_value_heads")}
DISTANCES = {"relative_attention": True, "position_buckets": 8, "position_biased_input": False, "type_vocab_size": 0}
ENCODERS = {
    "bert": {},
    "roberta": {"type_vocab_size": 1},
    "xlm-roberta": {"type_vocab_size": 1},
    "deberta-v2": DISTANCES | {"norm_rel_ebd": "layer_norm", "share_att_key": True, "pos_att_type": ["p2c", "c2p"]},
    "modernbert": {"local_attention": 6},
}
every_encoder = pytest.mark.parametrize("kind", ENCODERS)
PAD = 1


@pytest.fixture
def publish_encoder(tmp_path):
    def make(kind, **changes):
        special = {"bos_token_id": 0, "eos_token_id": 2, "cls_token_id": 0, "sep_token_id": 2, "pad_token_id": PAD}
        fields = PLAIN | ENCODERS[kind] | special | {"vocab_size": VOCABULARY} | changes
        torch.manual_seed(1)
        model = AutoModelForMaskedLM.from_config(AutoConfig.for_model(kind, **fields)).eval()
        with torch.no_grad():  # biases and norms begin alike in all models
            for weight in model.parameters():
                weight.add_(torch.randn_like(weight) / 10)
        model.save_pretrained(tmp_path / "published")
        return model, tmp_path / "published"

    return make


def own_encoder(kind, auto=AutoModelForMaskedLM, vocabulary=VOCABULARY, pad=PAD, **changes):
    parameters = Parameters(architecture=PLAIN | ENCODERS[kind] | {"model_type": kind} | changes)
    values = parameters.model_dump(exclude={"kind"})
    torch.manual_seed(0)
    model = auto.from_config(PretrainedBackboneConfig(**values, vocab_size=vocabulary, pad_token_id=pad)).eval()
    return Backbone(parameters, seed=0), model


def padded(ids, side):
    """Return ids of two documents of 10 and 6 tokens, padded, with their mask."""
    real = torch.tensor([[1] * 10, [1] * 6 + [0] * 4])
    mask = real if side == "right" else real.flip(1)
    return ids.masked_fill(mask == 0, PAD), mask


@every_encoder
def test_a_published_encoder_gives_what_it_gave(kind, publish_encoder):
    published, folder = publish_encoder(kind)
    backbone, model = own_encoder(kind, vocabulary=VOCABULARY + 3)
    backbone.load_weights(model, folder)
    ids, mask = padded(IDS + 2, "right")
    expected = published(ids, attention_mask=mask).logits[mask.bool()]
    torch.testing.assert_close(model(ids, mask).logits[mask.bool()][:, :VOCABULARY], expected)
    torch.testing.assert_close(model(ids[:1]).logits[..., :VOCABULARY], published(ids[:1]).logits)
    left, mask = padded((IDS + 2).roll(4, 1), "left")
    torch.testing.assert_close(model(left, mask).logits[1, 4:, :VOCABULARY], expected[10:])
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight


@every_encoder
def test_an_encoder_of_another_architecture_or_task(kind, publish_encoder):
    _, folder = publish_encoder(kind)
    backbone, model = own_encoder(kind, intermediate_size=48)
    with pytest.raises(RunError, match="config.json: another architecture.*intermediate_size is 48, there 32"):
        backbone.load_weights(model, folder)
    backbone, model = own_encoder(kind, AutoModelForTokenClassification)
    backbone.load_weights(model, folder)  # the head has nothing to take over


def test_positions_that_begin_behind_another_padding_are_refused(publish_encoder):
    _, folder = publish_encoder("xlm-roberta")
    backbone, model = own_encoder("xlm-roberta", pad=0)
    with pytest.raises(RunError, match="config.json: another architecture.*pad_token_id is 0, there 1"):
        backbone.load_weights(model, folder)
    _, folder = publish_encoder("bert")
    backbone, model = own_encoder("bert", pad=0)
    backbone.load_weights(model, folder)


@pytest.mark.parametrize("lack", ["head", "activation", "layer"])
def test_an_encoder_without_a_head_like_ours_keeps_the_drawn_one(lack, publish_encoder, caplog):
    changes = {"hidden_act": "relu"} if lack == "activation" else {}
    published, folder = publish_encoder("deberta-v2", **changes)
    if lack == "head":
        published.deberta.save_pretrained(folder)
    if lack == "layer":
        weights = {name: weight for name, weight in published.state_dict().items() if "layer.1.output" not in name}
        published.save_pretrained(folder, state_dict=weights)
    backbone, model = own_encoder("deberta-v2", **changes)
    drawn = model.head.dense.weight.clone()
    if lack == "layer":
        with pytest.raises(RunError, match=r"4 weights are missing.*deberta.encoder.layer.1.output"):
            backbone.load_weights(model, folder)
        return
    with caplog.at_level(logging.INFO):
        backbone.load_weights(model, folder)
    assert "holds no head like the one that predicts tokens here, which starts from drawn weights" in caplog.text
    assert torch.equal(model.head.dense.weight, drawn)
    words = published.deberta.get_input_embeddings().weight
    assert torch.equal(model.get_input_embeddings().weight, words)


def test_weights_in_the_older_form_are_read(publish_encoder):
    """As those of mDeBERTa v3 are published."""
    published, folder = publish_encoder("deberta-v2")
    (folder / "model.safetensors").unlink()
    torch.save(published.state_dict(), folder / "pytorch_model.bin")
    backbone, model = own_encoder("deberta-v2")
    backbone.load_weights(model, folder)
    torch.testing.assert_close(model(IDS).logits, published(IDS).logits)


@pytest.mark.parametrize("kind", ["opt", "recurrent_encoder"])
def test_a_model_of_no_known_family_is_refused(kind, publish):
    _, folder = publish()
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"model_type": kind}))
    backbone, model = own()
    with pytest.raises(RunError, match=rf"config.json: model_type is '{kind}'; expected 'pretrained_backbone'"):
        backbone.load_weights(model, folder)
