import pytest
import torch
from transformers.models.longformer.configuration_longformer import LongformerConfig
from transformers.models.longformer.modeling_longformer import LongformerSelfAttention

from lib.attention.contract import build
from lib.attention.settings import MECHANISMS

HEADS, WIDTH = 2, 8


def parsed(**settings):
    return MECHANISMS.parse({"kind": "window", **settings})


@pytest.mark.parametrize("global_tokens", [0, 1, 3])
def test_equals_longformer_with_one_set_of_projections(global_tokens):
    torch.manual_seed(0)
    config = LongformerConfig(
        hidden_size=HEADS * WIDTH, num_attention_heads=HEADS, attention_window=[12], attention_probs_dropout_prob=0.0
    )
    theirs = LongformerSelfAttention(config, layer_id=0).eval()
    for name in ("query", "key", "value"):
        getattr(theirs, f"{name}_global").load_state_dict(getattr(theirs, name).state_dict())
    states = torch.randn(2, 48, HEADS * WIDTH)
    told = torch.zeros(2, 48)
    told[:, :global_tokens] = 10_000
    told[1, 37:] = -10_000
    expected, *_ = theirs(
        states,
        attention_mask=told,
        is_index_masked=told < 0,
        is_index_global_attn=told > 0,
        is_global_attn=bool(global_tokens),
    )
    mechanism = build(parsed(width=12, global_tokens=global_tokens), num_heads=HEADS, head_size=WIDTH, layer=0, seed=0)
    projected = [
        projection(states).unflatten(-1, (HEADS, WIDTH)).transpose(1, 2)
        for projection in (theirs.query, theirs.key, theirs.value)
    ]
    ours = mechanism(*projected, told >= 0).transpose(1, 2).flatten(2)
    torch.testing.assert_close(ours[told >= 0], expected[told >= 0], atol=1e-6, rtol=1e-5)
