"""Forms of live layers equal dense matrices made by hand, for every family, with updates, rotations and norms."""

import pytest
import torch
from peft import LoraConfig, inject_adapter_in_model
from torch import nn
from transformers import AutoModel

from lib.backbones.encoder.configuration import EncoderConfig
from lib.backbones.encoder.model import EncoderModel
from lib.backbones.positions import rotate
from lib.backbones.pretrained.configuration import PretrainedBackboneConfig
from lib.backbones.pretrained.families import FAMILIES
from lib.backbones.pretrained.model import PretrainedBackboneModel
from studies.decoders.training.projections import Projections, attention_layers, attention_maps

SIZES = {
    "hidden_size": 24,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "initializer_range": 0.3,
}
WINDOWED = {"sliding_window": 6, "layer_types": ["sliding_attention", "full_attention"]}
EXTRA = {"gemma3_text": WINDOWED, "smollm3": {"no_rope_layers": [1, 0]}}
TOKENS = torch.arange(3, 23)[None]
pytestmark = pytest.mark.extended
every_family = pytest.mark.parametrize(
    "family", [name for name, family in FAMILIES.items() if family.queries == "q_proj"]
)


def decoder(family, **changes):
    torch.manual_seed(0)
    architecture = {"model_type": family, **SIZES, **EXTRA.get(family, {})}
    fields = {"attention": "bidirectional", "vocab_size": 50, "pad_token_id": 0} | changes
    model = PretrainedBackboneModel(PretrainedBackboneConfig(architecture=architecture, **fields)).eval()
    for name, parameter in model.named_parameters():
        if name.endswith(("q_norm.weight", "k_norm.weight")):
            nn.init.normal_(parameter, 0.5, 0.5)
        if name.endswith("proj.bias"):
            nn.init.zeros_(parameter)  # of Qwen 2; no part of a form
    return model


def encoder(mechanism="sdpa", **changes):
    torch.manual_seed(0)
    extra = {"num_hashes": 2, "chunk_size": 8} if mechanism == "lsh" else {}
    fields = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 32}
    fields |= {"vocab_size": 50, "mechanism": {"kind": mechanism, **extra}, "initializer_range": 0.3} | changes
    return EncoderModel(EncoderConfig(**fields)).eval()


def adapted(model, targets=("q_proj", "k_proj"), **changes):
    """The model with LoRA whose matrices are drawn."""
    config = LoraConfig(r=3, lora_alpha=6, target_modules=list(targets), **changes)
    inject_adapter_in_model(config, model)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            nn.init.normal_(parameter, std=0.2)
    return model


def dense(form):
    left, right = form
    return left.mT @ right


def weight_of(module):
    """The weight by which a projection, whatever wraps it, really multiplies [out, in]."""
    linear = getattr(module, "base_layer", module)
    return (module(torch.eye(linear.in_features)) - module(torch.zeros(1, linear.in_features))).T.detach().double()


@every_family
@pytest.mark.parametrize("position", [3, -7])
def test_forms_are_the_scores_of_the_model(family, position, monkeypatch):
    """What attention multiplies, for two tokens that far apart, but for the lengths that norms divide by."""
    model = decoder(family)
    if position > 0:
        adapted(model)
    seen, states = [], []
    layers = attention_layers(model)
    for block in model.layers:
        block.self_attn.register_forward_pre_hook(
            lambda module, arguments, named: states.append((*arguments, *named.values())[0]), with_kwargs=True
        )
    monkeypatch.setattr(
        "transformers.integrations.sdpa_attention.torch.nn.functional.scaled_dot_product_attention",
        lambda query, key, *arguments, **named: seen.append((query, key)) or query,
    )
    model(input_ids=TOKENS)
    monkeypatch.undo()
    assert len(seen) == len(layers) == 2
    for layer, (query, key), entered in zip(layers, seen, states, strict=True):
        matrices = dense(Projections.read(layer).form("merged", position))
        here, there = (10, 10 + position) if position >= 0 else (10 - position, 10)
        first, second = entered[0, here].double(), entered[0, there].double()
        key = key.repeat_interleave(query.shape[1] // key.shape[1], 1)
        found = torch.einsum("hd,hd->h", query[0, :, here].double(), key[0, :, there].double())
        if layer.norms is not None:
            lengths = [  # of each head, or of all at once
                weight_of(module).matmul(state).view(-1, len(norm.weight)).square().mean(1).sqrt()
                for module, state, norm in zip((layer.query, layer.key), (first, second), layer.norms, strict=True)
            ]
            found = found * lengths[0] * lengths[1].repeat_interleave(len(lengths[0]) // len(lengths[1]))
        torch.testing.assert_close(torch.einsum("i,hij,j->h", first, matrices, second), found, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(("heads_of_keys", "position"), [(None, 5), (1, -2)])
def test_forms_of_the_encoder(position, heads_of_keys):
    model = encoder(num_key_value_heads=heads_of_keys)
    layer = attention_layers(model)[1]
    assert layer.query is model.layers[1].attention.query
    matrices = dense(Projections.read(layer).form("merged", position))
    state, other = torch.randn(2, 24)
    places = {"query": 6, "key": 6 + position}
    turned = {}
    for name, vector in (("query", state), ("key", other)):
        heads = (getattr(layer, name).weight @ vector).view(1, -1, 1, 8)
        rotation = torch.stack(model.phases(20, torch.device("cpu")), dim=-1)
        turned[name] = rotate([heads], rotation[places[name], None])[0][0, :, 0]
    expected = (turned["query"] * turned["key"]).sum(1).double()
    found = torch.einsum("i,hij,j->h", state.double(), matrices, other.double())
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@every_family
@pytest.mark.parametrize(("position", "targets"), [(4, ("q_proj", "k_proj")), (0, ("q_proj",))])
def test_forms_of_an_update(family, position, targets):
    model = decoder(family)
    before = [Projections.read(layer).form("merged", position) for layer in attention_layers(model)]
    for layer, old in zip(attention_layers(adapted(model, targets)), before, strict=True):
        read = Projections.read(layer)
        assert read.kinds == ("merged", "delta", "adapter")
        delta = read.form("delta", position)
        assert delta[0].shape[1] == 3 * len(targets)  # its rank
        torch.testing.assert_close(dense(delta), dense(read.form("merged", position)) - dense(old))
        for weights in read.kinds:
            whole = read.form(weights, position, whole=True)
            torch.testing.assert_close(dense(whole)[0], dense(read.form(weights, position)).sum(0))
            keys = weight_of(layer.key).shape[0]  # of all heads
            assert (
                whole[0].shape[1]
                == {"merged": keys, "delta": 3 * len(targets), "adapter": len(read.query.down)}[weights]
            )


@every_family
def test_attention_maps(family):
    model = decoder(family)
    usual, before = model.inner.config._attn_implementation, model(input_ids=TOKENS).last_hidden_state
    maps = attention_maps(model, TOKENS)
    assert [each.shape for each in maps] == [(4, 20, 20)] * 2
    torch.testing.assert_close(maps[0].sum(-1), torch.ones(4, 20))
    assert model.inner.config._attn_implementation == usual != "eager"
    assert torch.equal(model(input_ids=TOKENS).last_hidden_state, before)
    options = FAMILIES[family].options
    inner = AutoModel.from_config(model.inner.config, attn_implementation="eager", **options).eval()
    inner.load_state_dict(model.inner.state_dict())
    words = model.get_input_embeddings()(TOKENS)
    expected = inner(inputs_embeds=words, output_attentions=True).attentions
    torch.testing.assert_close(torch.stack(maps), torch.cat(expected))
