"""Attention that opens while a model trains."""

import pytest
import torch
from transformers import AutoModel

from lib.backbones.pretrained.backbone import Backbone
from lib.backbones.pretrained.configuration import PretrainedBackboneConfig
from lib.backbones.pretrained.settings import Settings

SIZES = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "head_dim": 4}
FAMILIES = {
    "llama": {},
    "qwen3": {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1},
    "mistral": {"sliding_window": 4},
    "gemma3_text": {"sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"]},
    "gemma2": {"sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"]},
    "granite": {},
    "modernbert-decoder": {"local_attention": 8, "layer_types": ["sliding_attention", "full_attention"]},
    "olmo2": {},
    "olmo3": {"sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"]},
    "smollm3": {"use_sliding_window": True, "sliding_window": 4, "no_rope_layers": [1, 0]},
    "phi3": {"sliding_window": 4},
    "gpt2": {"max_position_embeddings": 16},
}
TOKENS = 11


def build(family, attention="gradual", implementation="sdpa"):
    architecture = SIZES | {"model_type": family, "num_key_value_heads": 4} | FAMILIES[family]
    steps = {"opening_steps": 10} if attention == "gradual" else {}
    config = PretrainedBackboneConfig(architecture=architecture, attention=attention, vocab_size=30, **steps)
    torch.manual_seed(0)
    return AutoModel.from_config(config, attn_implementation=implementation).eval()


def states(model, length=TOKENS, mask=None):
    ids = torch.arange(1, TOKENS + 1)[None, :length]
    return model(ids, mask).last_hidden_state


@pytest.mark.parametrize(
    "family", ["llama", *(pytest.param(name, marks=pytest.mark.extended) for name in FAMILIES if name != "llama")]
)
def test_begun_causal_and_ended_bidirectional(family):
    """And padding changes nothing on the way."""
    # The plain attention of this architecture fails without a mask, which an open model has none of.
    implementations = ["sdpa"] if family == "modernbert-decoder" else ["sdpa", "eager"]
    for implementation in implementations:
        model = build(family, implementation=implementation)
        for opened, attention in ((0.0, "causal"), (1.0, "bidirectional")):
            model.opened = opened
            other = build(family, attention, implementation)
            torch.testing.assert_close(states(model), states(other), atol=1e-5, rtol=0)
        model.opened, mask = 0.5, (torch.arange(TOKENS) < 7).long()[None]
        torch.testing.assert_close(states(model, mask=mask)[:, :7], states(model, 7), atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("family", "reach"), [("mistral", {0.0: (3, 0), 0.5: (3, 4)}), ("gemma3_text", {0.0: (7, 0), 0.5: (6, 4)})]
)
def test_window_that_opens(family, reach):
    """Mistral's window of 4 has distance 3 to the left, and open 4 to both sides; Gemma's of 8 has 7, and open 4."""
    model = build(family)
    model.layers[1].self_attn.o_proj.weight.data.zero_()
    for opened, (behind, ahead) in reach.items():
        model.opened = opened
        embedded = torch.randn(1, 25, SIZES["hidden_size"], requires_grad=True)
        model(inputs_embeds=embedded).last_hidden_state[0, 12].sum().backward()
        seen = embedded.grad[0].abs().sum(dim=-1).gt(0).nonzero().flatten() - 12
        assert seen.tolist() == list(range(-behind, ahead + 1))


@pytest.mark.parametrize("opened", [0.3, 0.99])
def test_share_of_the_tokens_that_are_seen(opened):
    model = build("llama")
    model.opened = opened
    model.layers[1].self_attn.o_proj.weight.data.zero_()  # so that a single layer attends
    embedded = model.embeddings(torch.arange(1, TOKENS + 1)[None]).detach().requires_grad_()
    model(inputs_embeds=embedded).last_hidden_state[0, 0].sum().backward()
    seen = embedded.grad[0].abs().sum(dim=-1).gt(0)
    assert seen.tolist() == [place <= int(opened * (TOKENS - 1)) for place in range(TOKENS)]


def test_share_by_the_step():
    model, found = build("llama"), []
    settings = {"kind": "pretrained", "architecture": SIZES | {"model_type": "llama"}, "attention": "gradual"}
    backbone = Backbone(Settings.model_validate(settings | {"opening_steps": 4}), seed=1)
    for step in (0, 1, 2, None, 3, 4, 9):
        backbone.set_step(model, step)
        found.append(model.opened)
    assert found == [0, 0.25, 0.5, 1, 0.75, 1, 1]
