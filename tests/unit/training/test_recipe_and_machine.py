"""What the recipe and the machine make of a training: its batches, its optimiser, its device, its repeatability."""

import numpy as np
import pytest
import torch
from sklearn.utils.class_weight import compute_class_weight
from transformers import BertConfig, BertForMaskedLM

from lib.core import errors
from lib.core.errors import RunError
from lib.study.recipe import Recipe
from lib.training import predictor
from lib.training.optimisation import class_weights, make_optimizer, warmup_steps
from lib.training.predictor import check_device
from lib.training.run import repeatable


def recipe(**changes):
    return Recipe.model_validate({"epochs": 1, "learning_rate": 1e-3, "min_lr_ratio": 0.1, "batch_size": 8} | changes)


def test_warm_up_steps():
    assert [warmup_steps(recipe(warmup_ratio=share), 24) for share in (0.0, 1e-9, 0.1, 0.5, 1.0)] == [0, 1, 3, 12, 24]


def test_class_weights_that_are_balanced():
    labels, names = [0] * 6 + [1] * 3 + [3], ["a", "b", "unseen", "c"]
    found = class_weights(recipe(class_weights="balanced"), labels, names)
    expected = compute_class_weight("balanced", classes=np.array([0, 1, 3]), y=labels)
    assert expected == pytest.approx([10 / (3 * 6), 10 / (3 * 3), 10 / 3])
    assert found.tolist() == pytest.approx([*expected[:2], 1, expected[2]])
    assert class_weights(recipe(class_weights={"c": 2.5, "a": 2}), labels, names).tolist() == [2, 1, 1, 2.5]


def test_bf16_on_a_gpu_without_it(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: False)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "Old GPU")
    with pytest.raises(RunError, match="'bf16'"):
        check_device("auto", "bf16")
    check_device("cpu", "bf16")


def test_devices_without_a_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(RunError, match="'cuda'"):
        check_device("cuda", "fp32")
    with pytest.raises(RunError, match="'fp16'"):
        check_device("auto", "fp16")
    check_device("auto", "bf16")


@pytest.mark.parametrize(
    ("device", "precision", "multiplies", "warned"),
    [("auto", "bf16", False, True), ("cpu", "bf16", True, False), ("cpu", "fp32", False, False)],
)
def test_bf16_on_a_cpu_without_instructions(monkeypatch, caplog, device, precision, multiplies, warned):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(predictor, "multiplies_bf16", lambda: multiplies)
    check_device(device, precision)
    assert ("experiment.precision" in caplog.text) == warned


def test_groups_of_the_optimiser(monkeypatch):
    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    model = BertForMaskedLM(BertConfig(vocab_size=9, **sizes))
    plain = make_optimizer(model, recipe(weight_decay=0.5, head_lr_multiplier=2.0))
    assert type(plain) is torch.optim.AdamW
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    for group in plain.param_groups:
        found = [names[id(parameter)] for parameter in group["params"]]
        assert all(("bias" in name or "LayerNorm" in name) == (group["weight_decay"] == 0) for name in found)
        assert all(name.startswith("bert.") == (group["lr"] == 1e-3) for name in found)
    monkeypatch.setattr(errors, "find_spec", lambda name: None)
    with pytest.raises(RunError, match="adamw_8bit"):
        make_optimizer(model, recipe(optimizer="adamw_8bit"))


def test_repeatable_operations():
    for wanted in (True, False):
        with repeatable(wanted=wanted):
            assert torch.are_deterministic_algorithms_enabled() is wanted
    assert not torch.are_deterministic_algorithms_enabled()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_repeated_attention_on_a_gpu():
    generator = torch.Generator("cuda").manual_seed(0)
    tensors = [torch.randn(16, 4, 500, 64, device="cuda", dtype=torch.bfloat16, generator=generator) for _ in range(4)]
    seen = (torch.arange(500, device="cuda") < torch.linspace(250, 500, 16, device="cuda")[:, None])[:, None, None]

    def gradients():
        query, key, value = (tensor.clone().requires_grad_() for tensor in tensors[:3])
        output = torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=seen)
        return torch.autograd.grad(output, (query, key, value), tensors[3])

    with repeatable(wanted=True):
        first = gradients()
        for _ in range(10):
            assert all(map(torch.equal, first, gradients()))
