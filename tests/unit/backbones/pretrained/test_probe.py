"""The probe tells causal from bidirectional attention, layer by layer, for every family."""

from dataclasses import replace

import pytest
import torch
from transformers import AutoConfig, AutoModel

from lib.backbones.pretrained.families import FAMILIES
from lib.backbones.pretrained.fields import in_own_names
from lib.backbones.pretrained.probe import probe
from lib.core.errors import ConfigError

SIZES = {
    "vocab_size": 50,
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 4,
    "pad_token_id": 0,
}
WINDOWED = {"sliding_window": 6, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}
USED = {"use_sliding_window": True, "sliding_window": 6, "max_window_layers": 1}
DISTANCES = {"relative_attention": True, "position_buckets": 4, "position_biased_input": False, "type_vocab_size": 0}
EXTRA = {
    "gemma2": WINDOWED,
    "gemma3_text": WINDOWED,
    "olmo3": WINDOWED,
    "ultrabert": WINDOWED,
    "modernbert-decoder": {"local_attention": 12},
    "mistral": {"sliding_window": 6},
    "qwen2": USED,
    "qwen3": USED,
    "phi3": {"sliding_window": 6},
    "smollm3": {"use_sliding_window": True, "sliding_window": 6, "no_rope_layers": [1, 0, 1]},
    "deberta-v2": DISTANCES | {"norm_rel_ebd": "layer_norm", "share_att_key": True, "pos_att_type": "p2c|c2p"},
    "modernbert": {"local_attention": 12},
    "albert": {"embedding_size": 8},
    "electra": {"embedding_size": 8},
    "longformer": {"attention_window": [12, 4, 6]},
    "nystromformer": {"conv_kernel_size": 5},
}


def build(family, direction, implementation="sdpa", dtype=torch.float32, **changes):
    if FAMILIES[family].eager_only:
        implementation = "eager"
    if family == "modernbert-decoder":  # its plain attention fails without a mask, as transformers makes none here
        implementation = "sdpa"
    fields = SIZES | EXTRA.get(family, {}) | FAMILIES[family].switches[direction] | changes
    torch.manual_seed(0)
    config = AutoConfig.for_model(**in_own_names({"model_type": family} | fields))
    model = AutoModel.from_config(config, attn_implementation=implementation)
    return model.to(dtype)


IN_THE_RING = ("llama", "bert", "gemma3_text")


@pytest.mark.parametrize(
    "family", [pytest.param(name, marks=[] if name in IN_THE_RING else pytest.mark.extended) for name in FAMILIES]
)
def test_family_and_direction(family):
    """In each direction that it has, in both implementations and types; a batch of one, and no other direction."""
    for number, direction in enumerate(FAMILIES[family].switches):
        probe(build(family, direction, ("sdpa", "eager")[number], torch.float32), direction)
        probe(build(family, direction, ("eager", "sdpa")[number], torch.bfloat16), direction)
        other = {"causal": "bidirectional", "bidirectional": "causal"}.get(direction, direction)
        if other != direction:
            with pytest.raises(ConfigError, match=r"layers\.0 of "):
                probe(build(family, direction), other)
    model = build(family, "bidirectional").eval()
    ids = torch.arange(1, 8)[None]
    changed = ids.clone()
    changed[0, 3] = 20
    for mask in (None, torch.ones_like(ids)):
        first, other = (model(row, attention_mask=mask).last_hidden_state[0, 0] for row in (ids, changed))
        assert not torch.equal(first, other)


@pytest.mark.parametrize("layer", [0, 2])
def test_single_layer_that_stays_causal(layer):
    """As after an upgrade that moves the switch: the mask is gone, the layer is causal all the same."""
    model = build("llama", "bidirectional")
    attention = model.layers[layer].self_attn
    inner = attention.forward

    def causal(*arguments, **named):
        rows, tokens = named["hidden_states"].shape[:2]
        mask = torch.ones(tokens, tokens, dtype=torch.bool).tril().expand(rows, 1, tokens, tokens)
        return inner(*arguments, **named | {"attention_mask": mask})

    attention.forward = causal
    with pytest.raises(ConfigError, match=rf"layers\.{layer} of"):
        probe(model, "bidirectional")


def test_padding_that_is_seen(monkeypatch):
    model = build("llama", "bidirectional")
    inner = model.layers[2].self_attn.forward
    monkeypatch.setattr(
        model.layers[2].self_attn,
        "forward",
        lambda *arguments, **named: inner(*arguments, **named | {"attention_mask": None, "is_causal": False}),
    )
    with pytest.raises(ConfigError, match=r"layers\.2 of .*padding"):
        probe(model, "bidirectional")


def test_window_of_another_width():
    model = build("gemma3_text", "bidirectional")
    inner = model.layers[0].self_attn.forward
    model.layers[0].self_attn.forward = lambda *arguments, **named: inner(
        *arguments, **named | {"attention_mask": torch.ones_like(named["attention_mask"])}
    )
    with pytest.raises(ConfigError, match=r"layers\.0 of"):
        probe(model, "bidirectional")


def test_layers_that_are_not_looked_at(monkeypatch):
    """As with BigBird, which exchanges what attends when it reads its first short text."""
    monkeypatch.setitem(FAMILIES, "big_bird", replace(FAMILIES["big_bird"], attends="attention.self"))
    probe(build("big_bird", "bidirectional"), "bidirectional")
    monkeypatch.setattr("lib.backbones.pretrained.probe.settle", lambda model, tokens: None)
    with pytest.raises(ConfigError, match="0 of 3"):
        probe(build("big_bird", "bidirectional"), "bidirectional")
