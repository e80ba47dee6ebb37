"""A published model of an architecture as first weights."""

import json

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForTokenClassification

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


@pytest.mark.parametrize("kind", ["bert", "recurrent_encoder"])
def test_a_model_of_no_known_family_is_refused(kind, publish):
    _, folder = publish()
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"model_type": kind}))
    backbone, model = own()
    with pytest.raises(RunError, match=rf"config.json: model_type is '{kind}'; expected 'pretrained_backbone'"):
        backbone.load_weights(model, folder)
