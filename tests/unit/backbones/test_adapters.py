"""Low-rank adapters: what trains, what is saved, and that nothing else differs."""

import copy
import json

import pytest
import torch
from peft import PeftModel
from peft.tuners.lora import LoraLayer
from safetensors.torch import load_file
from transformers import AutoModelForMaskedLM, AutoModelForSequenceClassification, AutoModelForTokenClassification

from lib.backbones.adapters import Adapters
from lib.backbones.encoder.configuration import EncoderConfig
from lib.backbones.pretrained.configuration import PretrainedBackboneConfig
from lib.backbones.settings import Lora
from lib.backbones.stored import load_weights
from lib.core.errors import RunError

SIZES = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
DECODER = SIZES | {"num_key_value_heads": 1, "head_dim": 8, "max_position_embeddings": 64}
VOCABULARY = 40
IDS = torch.arange(1, 21).view(2, 10)
PROJECTIONS = {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}


def decoder(kind, *, tied=True, **sizes):
    architecture = DECODER | {"model_type": kind, "tie_word_embeddings": tied} | sizes
    return PretrainedBackboneConfig(architecture=architecture, vocab_size=VOCABULARY, pad_token_id=0)


def encoder(**mechanism):
    return EncoderConfig(vocab_size=VOCABULARY, pad_token_id=0, mechanism=mechanism or {"kind": "sdpa"}, **SIZES)


CASES = {
    "encoder": (encoder, AutoModelForMaskedLM),
    "lsh": (lambda: encoder(kind="lsh", num_hashes=2, chunk_size=4), AutoModelForSequenceClassification),
    "favor": (lambda: encoder(kind="favor", nb_features=8), AutoModelForTokenClassification),
    "llama": (lambda: decoder("llama"), AutoModelForMaskedLM),
    "llama, untied": (lambda: decoder("llama", tied=False), AutoModelForMaskedLM),
    "gemma": (lambda: decoder("gemma3_text", sliding_window=8), AutoModelForTokenClassification),
}


def adapted(case, seed=3, **settings):
    """Return a model with adapters that change something, and the one that it was before."""
    config, auto = CASES[case]
    torch.manual_seed(0)
    before = auto.from_config(config()).eval()
    model = copy.deepcopy(before)
    adapters = Adapters(model, Lora(r=4, alpha=8, **settings), seed=seed, start="the/start")
    torch.testing.assert_close(model(IDS).logits, before(IDS).logits)  # at first they change nothing
    torch.manual_seed(1)
    for parameter in model.parameters():
        if parameter.requires_grad:
            torch.nn.init.normal_(parameter, std=0.1)
    assert not torch.allclose(model(IDS).logits, before(IDS).logits, atol=1e-3)
    return adapters, model.eval(), before, auto


@pytest.fixture(params=CASES)
def case(request):
    return request.param


def test_adapters_and_head_train(case):
    _, model, before, _ = adapted(case)
    model.train()
    model(IDS).logits.sum().backward()
    prefix = f"{model.base_model_prefix}."
    for name, parameter in model.named_parameters():
        trains = ".lora_" in name or not name.startswith(prefix)
        assert parameter.requires_grad == trains, name
        assert (parameter.grad is not None) == trains, name
    untouched = {name.replace(".base_layer.", "."): tensor for name, tensor in model.state_dict().items()}
    for name, tensor in before.state_dict().items():
        if name.startswith(prefix):
            assert torch.equal(tensor, untouched[name]), name


def test_merged_model(case, tmp_path):
    adapters, model, before, auto = adapted(case)
    adapters.save(tmp_path / "merged")
    before.save_pretrained(tmp_path / "plain")
    merged, plain = (load_file(tmp_path / name / "model.safetensors") for name in ("merged", "plain"))
    assert {name: tensor.shape for name, tensor in merged.items()} == {
        name: tensor.shape for name, tensor in plain.items()
    }
    configs = [json.loads((tmp_path / name / "config.json").read_text()) for name in ("merged", "plain")]
    assert configs[0] == configs[1]

    expected = model(IDS).logits
    loaded = auto.from_pretrained(tmp_path / "merged").eval()
    torch.testing.assert_close(loaded(IDS).logits, expected, rtol=0, atol=1e-5)
    load_weights(before, tmp_path / "merged", with_head=True)  # as a later stage does, strictly
    assert torch.equal(before(IDS).logits, loaded(IDS).logits)
    adapters.merge()
    assert torch.equal(model(IDS).logits, loaded(IDS).logits)


def test_adapters_alone_by_peft(case, tmp_path):
    merge = len(case) % 2 == 0
    adapters, model, before, _ = adapted(case, merge=merge)
    adapters.save(tmp_path / "model")
    found = PeftModel.from_pretrained(before, tmp_path / "model" / "adapter").eval()
    torch.testing.assert_close(found(IDS).logits, model(IDS).logits, rtol=1e-5, atol=1e-6)
    assert json.loads((tmp_path / "model/adapter/adapter_config.json").read_text())["base_model_name_or_path"] == (
        "the/start"
    )
    assert (tmp_path / "model" / "model.safetensors").exists() == merge


def test_adapters_alone_as_a_start(tmp_path):
    adapters, model, before, _ = adapted("llama", merge=False)
    adapters.save(tmp_path / "model")
    with pytest.raises(RunError, match="merge: true"):
        load_weights(before, tmp_path / "model")
    live = model(IDS).logits
    adapters.merge()
    assert any(isinstance(module, LoraLayer) and not module.merged for module in model.modules())
    assert torch.equal(model(IDS).logits, live)


def layers(model):
    return {name: module for name, module in model.named_modules() if isinstance(module, LoraLayer)}


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        *((case, PROJECTIONS) for case in ("llama", "gemma")),
        ("encoder", {"query", "key", "value", "output", "intermediate"}),
        ("lsh", {"query", "value", "output", "intermediate"}),
    ],
)
def test_linear_layer_without_targets(case, expected):
    _, model, _, _ = adapted(case)
    assert {name.rpartition(".")[2] for name in layers(model)} == expected
    assert all(name.startswith(f"{model.base_model_prefix}.") for name in layers(model))
    for layer in layers(model).values():
        assert (layer.r["default"], layer.scaling["default"], layer.lora_dropout["default"].p) == (4, 2.0, 0.05)


def test_targets():
    _, model, _, _ = adapted("llama", targets=["q_proj", "down_proj"])
    assert {name.rpartition(".")[2] for name in layers(model)} == {"q_proj", "down_proj"}
    with pytest.raises(RunError, match=r"recipe\.lora: .*query.*down_proj"):
        adapted("llama", targets=["q_proj", "query"])


def test_draws_are_keyed():
    """Neither what was drawn before nor which other layers are adapted matters."""

    def draws(seed, **settings):
        config, auto = CASES["llama"]
        model = auto.from_config(config())
        Adapters(model, Lora(r=4, **settings), seed=seed, start=None)
        return {name: layer.lora_A["default"].weight for name, layer in layers(model).items()}

    torch.manual_seed(0)
    every, some, other = draws(1), draws(1, targets=["v_proj"]), draws(2)
    assert 0 < len(some) < len(every)
    for name, weight in some.items():
        assert torch.equal(weight, every[name])
    assert len({weight.flatten()[0].item() for weight in (*every.values(), *other.values())}) == 2 * len(every)
