"""Fewer heads of keys and values, and keys and values from a latent: equal to the full projections they stand for."""

import pytest
import torch
from encoder_cases import EXAMPLES, build, masks, token_ids

from lib.backbones.encoder.model import EncoderModel

IDS, MASK = token_ids(3, 9), masks(9, 5, 1)
exchangeable = pytest.mark.parametrize("mechanism", ["sdpa", "favor"])


def model(mechanism, position="rope", **changes):
    changes = {"num_attention_heads": 4, "initializer_range": 0.3} | changes
    return build(EncoderModel, mechanism=EXAMPLES[mechanism], position_embedding_type=position, **changes).eval()


def states(encoder):
    return encoder(IDS, attention_mask=MASK).last_hidden_state


def with_full_projections(weights, full):
    """Load `weights` into `full`, with what `weights` has narrower keys and values for multiplied out."""
    weights, head = dict(weights), full.config.head_size
    for layer in range(full.config.num_hidden_layers):
        attention = f"layers.{layer}.attention"
        down = weights.pop(f"{attention}.latent.weight", None)
        for part in ("key", "value"):
            for kind in ("weight", "bias"):
                rows = weights[f"{attention}.{part}.{kind}"]
                if kind == "weight" and down is not None:
                    rows = rows @ down
                copies = full.config.hidden_size // len(rows)
                by_head = rows.unflatten(0, (-1, head))
                weights[f"{attention}.{part}.{kind}"] = torch.cat([each for each in by_head for _ in range(copies)])
    full.load_state_dict(weights)
    return full


@exchangeable
def test_as_many_heads_of_keys_as_of_queries(mechanism):
    plain, grouped = model(mechanism), model(mechanism, num_key_value_heads=4)
    assert grouped.state_dict().keys() == plain.state_dict().keys()
    assert torch.equal(states(grouped), states(plain))


@pytest.mark.parametrize(
    ("mechanism", "position", "changes"),
    [
        ("sdpa", "rope", {"num_key_value_heads": 2}),
        ("favor", "rope", {"num_key_value_heads": 1}),
        ("favor", "learned", {"kv_rank": 6}),
        ("sdpa", "rope", {"num_key_value_heads": 2, "kv_rank": 6}),
    ],
)
def test_narrow_keys_and_values(mechanism, position, changes):
    """They equal the full projections that they stand for."""
    narrow = model(mechanism, position, **changes)
    full = with_full_projections(narrow.state_dict(), model(mechanism, position))
    assert torch.allclose(states(narrow), states(full), atol=1e-5)
    maps = [encoder(IDS, attention_mask=MASK, output_attentions=True).attentions for encoder in (narrow, full)]
    assert all(torch.allclose(*pair, atol=1e-5) for pair in zip(*maps, strict=True))
