"""Windowed layers in blocks, beside transformers' own classes with their N x N masks."""

from contextlib import contextmanager

import pytest
import torch
from encoder_cases import token_ids
from torch.nn.modules.module import register_module_forward_hook
from transformers import AutoConfig, AutoModel

from lib.attention import register_attention
from lib.attention.interface import WINDOWS
from lib.attention.window.mechanism import Mechanism as Window
from lib.attention.windowed_layers import FROM_REACHES, FROM_TOKENS
from lib.backbones.pretrained.configuration import PretrainedBackboneConfig
from lib.backbones.pretrained.families import FAMILIES
from lib.backbones.pretrained.fields import in_own_names
from lib.backbones.pretrained.model import PretrainedBackboneModel

REACH = 6
SHORTEST = FROM_TOKENS + FROM_REACHES * REACH
BLOCKS = -(-SHORTEST // 16) * 16
"""A length that fills the last of the blocks of 16 tokens."""
LENGTHS = (SHORTEST - 1, SHORTEST, BLOCKS, BLOCKS + 1)
SIZES = {
    "vocab_size": 50,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 2048,
    "pad_token_id": 0,
    "initializer_range": 0.2,
}
LAYERS = {"sliding_window": REACH, "layer_types": ["full_attention", "sliding_attention", "sliding_attention"]}
WHOLE = {"modernbert": {"local_attention": 2 * REACH, "layer_types": LAYERS["layer_types"]}, "ultrabert": LAYERS}
"""Encoders, and the fields that give them windows."""
OPENED = {
    "mistral": {"sliding_window": REACH},
    "phi3": {"sliding_window": REACH},
    "qwen2": LAYERS | {"use_sliding_window": True},
    "qwen3": LAYERS | {"use_sliding_window": True},
    "smollm3": LAYERS | {"use_sliding_window": True, "no_rope_layers": [1, 0, 1]},
    "olmo3": LAYERS,
    "modernbert-decoder": WHOLE["modernbert"],
}
"""Decoders."""
OTHERS = {"gemma3_text": LAYERS | {"sliding_window": 2 * REACH}, "gemma2": LAYERS}
"""Their windows are not plain ones: made by two masks, or with capped scores."""
KINDS = WHOLE | OPENED


def config(kind, direction="bidirectional", **changes):
    fields = {"model_type": kind} | SIZES | (KINDS | OTHERS)[kind] | dict(FAMILIES[kind].switches[direction])
    return AutoConfig.for_model(**in_own_names(fields | changes))


def model(kind, implementation="sdpa", **changes):
    torch.manual_seed(0)
    return AutoModel.from_config(config(kind, **changes), attn_implementation=implementation)


def batch(tokens, side="none"):
    mask = torch.ones(2, tokens, dtype=torch.long)
    shorter = tokens - 37
    if side == "left":
        mask[1, : tokens - shorter] = 0
    elif side == "right":
        mask[1, shorter:] = 0
    elif side == "holes":
        mask[1, 50:60] = 0
    return {"input_ids": token_ids(2, tokens), "attention_mask": None if side == "none" else mask}


@contextmanager
def windows():
    """Collect the windows that are computed in blocks."""
    found = []

    def after(module, *_):
        if isinstance(module, Window):
            found.append(module.settings.width // 2)

    hook = register_module_forward_hook(after)
    try:
        yield found
    finally:
        hook.remove()


def real_states(model, inputs):
    states = model(**inputs).last_hidden_state
    mask = inputs["attention_mask"]
    return states.flatten(0, 1) if mask is None else states[mask.bool()]


def states_and_gradients(model, implementation, inputs):
    model.set_attn_implementation(implementation)
    model.zero_grad()
    states = real_states(model, inputs)
    weighted = states * torch.randn(states.shape, generator=torch.Generator().manual_seed(0))
    weighted.mean().backward()
    return states, {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}


def assert_same(found, expected):
    torch.testing.assert_close(found[0], expected[0], atol=1e-5, rtol=0)
    assert found[1].keys() == expected[1].keys()
    for name, gradient in expected[1].items():
        torch.testing.assert_close(found[1][name], gradient, atol=1e-5 * max(1, float(gradient.abs().max())), rtol=1e-4)


def windowed(model):
    return sum(kind == "sliding_attention" for kind in getattr(model.config, "layer_types", None) or []) or 3


@pytest.mark.parametrize(
    ("kind", "side"),
    [
        pytest.param("modernbert", "left"),
        *(pytest.param("modernbert", side, marks=pytest.mark.extended) for side in ("none", "right")),
        *(
            pytest.param(kind, ("none", "left", "right")[number % 3], marks=pytest.mark.extended)
            for number, kind in enumerate(KINDS)
            if kind != "modernbert"
        ),
    ],
)
def test_states_and_gradients(kind, side):
    there = model(kind).train()
    for tokens in LENGTHS if kind in WHOLE else LENGTHS[1::2]:
        inputs = batch(tokens, side)
        expected = states_and_gradients(there, "sdpa", inputs)
        with windows() as found:
            assert_same(states_and_gradients(there, WINDOWS, inputs), expected)
        assert found == [REACH] * windowed(there) * (tokens >= SHORTEST)


@pytest.mark.extended
@pytest.mark.parametrize(
    ("kind", "direction", "side"),
    [
        ("modernbert", "bidirectional", "holes"),
        ("gemma3_text", "bidirectional", "right"),
        *((kind, "causal", "right") for kind in OPENED),
    ],
)
def test_masks_of_other_windows(kind, direction, side):
    there, inputs = model(kind, direction=direction).eval(), batch(SHORTEST, side)
    with torch.no_grad(), windows() as found:
        expected = real_states(there, inputs)
        there.set_attn_implementation(WINDOWS)
        torch.testing.assert_close(real_states(there, inputs), expected, atol=0, rtol=0)
    assert not found


def own(kind, attention="bidirectional", **fields):
    architecture = {"model_type": kind} | {key: each for key, each in SIZES.items() if key != "pad_token_id"}
    architecture |= (KINDS | OTHERS)[kind]
    architecture.pop("vocab_size")
    settings = PretrainedBackboneConfig(
        architecture=architecture, attention=attention, vocab_size=50, pad_token_id=0, **fields
    )
    torch.manual_seed(0)
    return PretrainedBackboneModel(settings).eval()


@pytest.mark.extended
@pytest.mark.parametrize("kind", KINDS)
def test_published_models(kind, tmp_path):
    ours = own(kind)
    ours.save_pretrained(tmp_path)
    again = PretrainedBackboneModel.from_pretrained(tmp_path)
    for side in ("left", "right"):
        inputs = batch(SHORTEST + 1, side)
        positions = (inputs["attention_mask"].cumsum(dim=1) - 1).clamp(min=0)
        theirs = AutoModel.from_config(ours.config.inner(), attn_implementation="sdpa").eval()
        theirs.load_state_dict(ours.inner.state_dict())
        with torch.no_grad(), windows() as found:
            expected = real_states(theirs, inputs | {"position_ids": positions})
            assert not found
            for each in (ours, again):
                torch.testing.assert_close(real_states(each, inputs), expected, atol=1e-5, rtol=0)
        assert found == [REACH] * windowed(theirs) * 2


def test_only_the_default_is_replaced():
    for kind, expected in (("modernbert", WINDOWS), ("gemma2", "eager"), ("gemma3_text", WINDOWS)):
        assert own(kind).inner.config._attn_implementation == expected
    asked = PretrainedBackboneModel._from_config(own("gemma3_text").config, attn_implementation="eager")
    assert asked.inner.config._attn_implementation == "eager"


@pytest.mark.extended
@pytest.mark.parametrize("kind", WHOLE)
def test_windows_beside_a_mechanism(kind):
    """In a study, where layers hold the mechanism, and by its name in transformers."""
    exact = own(kind)
    swapped = own(kind, mechanism={"kind": "sdpa"})
    swapped.load_state_dict(exact.state_dict())
    register_attention({"sdpa-swap": {"kind": "sdpa"}})
    inputs = batch(SHORTEST, "left")
    with torch.no_grad():
        expected = real_states(exact, inputs)
        with windows() as found:
            torch.testing.assert_close(real_states(swapped, inputs), expected, atol=1e-5, rtol=0)
            exact.inner.set_attn_implementation("sdpa-swap")
            torch.testing.assert_close(real_states(exact, inputs), expected, atol=1e-5, rtol=0)
    assert found == [REACH] * 4
