"""Weights in four bits, with adapters beside them."""

import copy

import pytest
import torch
from peft import PeftModel
from peft.tuners.lora import LoraLayer
from transformers import AutoModelForMaskedLM

from lib.backbones.adapters import Adapters
from lib.backbones.pretrained.backbone import Backbone
from lib.backbones.pretrained.configuration import PretrainedBackboneConfig
from lib.backbones.pretrained.settings import Settings
from lib.backbones.settings import Lora

SIZES = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": 64,
    "attention_bias": True,
    "tie_word_embeddings": True,
}
IDS = torch.arange(1, 21).view(2, 10)
pytestmark = pytest.mark.extended


@pytest.fixture
def backbone():
    return Backbone(Settings(architecture=SIZES | {"model_type": "llama"}, quantization="nf4"), seed=0)


@pytest.fixture
def plain(backbone):
    config = PretrainedBackboneConfig(**backbone.parameters.model_dump(exclude={"kind"}), vocab_size=40, pad_token_id=0)
    torch.manual_seed(0)
    return AutoModelForMaskedLM.from_config(config).eval()


@pytest.fixture
def nf4():
    return pytest.importorskip("bitsandbytes").functional


@pytest.fixture
def quantized(backbone, plain, nf4):
    model = copy.deepcopy(plain)
    backbone.quantize(model, "fp32")
    return model


def linear_layers(model):
    return {name: each for name, each in model.base_model.named_modules() if isinstance(each, torch.nn.Linear)}


def test_linear_layers_of_sixteen_values(plain, quantized, nf4):
    values = nf4.get_4bit_type("nf4", device="cpu")
    assert linear_layers(quantized).keys() == linear_layers(plain).keys()
    for name, layer in linear_layers(quantized).items():
        exact = linear_layers(plain)[name].weight.data
        scales = exact.flatten().view(-1, 64).abs().amax(dim=1, keepdim=True)
        shares = exact.flatten().view(-1, 64) / scales
        nearest = values[(shares[..., None] - values).abs().argmin(dim=-1)] * scales
        found = nf4.dequantize_4bit(layer.weight.data, layer.weight.quant_state)
        torch.testing.assert_close(found, nearest.view_as(exact))
        assert layer.weight.element_size() * layer.weight.numel() * 8 == exact.numel() * 4
    same = {name: tensor for name, tensor in quantized.named_parameters() if "_proj.weight" not in name}
    assert {name.rpartition(".")[2] for name in same} == {"weight", "bias"}
    assert all(torch.equal(tensor, plain.get_parameter(name)) for name, tensor in same.items())


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_precision_of_layers(precision, backbone, plain, nf4):
    backbone.quantize(plain, precision)
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[precision]
    assert {layer.compute_dtype for layer in linear_layers(plain).values()} == {dtype}


def test_adapters_beside_them(backbone, plain, quantized, tmp_path):
    adapters = Adapters(quantized, Lora(r=4, merge=False), seed=0, start="the/start")
    layers = [module for module in quantized.modules() if isinstance(module, LoraLayer)]
    assert len(layers) == 2 * 7
    for layer in layers:
        torch.nn.init.normal_(layer.lora_B["default"].weight, std=0.1)
    quantized.train()(IDS).logits.sum().backward()
    assert all(layer.lora_A["default"].weight.grad.abs().sum() > 0 for layer in layers)
    expected = quantized.eval()(IDS).logits
    adapters.save(tmp_path / "model")
    assert [path.name for path in (tmp_path / "model").glob("**/*.safetensors")] == ["adapter_model.safetensors"]

    backbone.quantize(plain, "fp32")
    found = PeftModel.from_pretrained(plain, tmp_path / "model" / "adapter").eval()
    torch.testing.assert_close(found(IDS).logits, expected, rtol=1e-5, atol=1e-6)
