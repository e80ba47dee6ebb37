"""Fewer heads of keys and values, and keys and values from a latent: equal to the full projections they stand for."""

import pytest
import torch
from encoder_cases import EXAMPLES, EncoderForMaskedLM, build, masks, tiny_config, token_ids
from pydantic import ValidationError

from lib.backbones.encoder.model import EncoderModel
from lib.backbones.settings import BACKBONES

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


def test_a_saved_model_is_the_same(tmp_path):
    narrow = build(EncoderForMaskedLM, num_attention_heads=4, num_key_value_heads=2, kv_rank=6).eval()
    narrow.save_pretrained(tmp_path)
    loaded = EncoderForMaskedLM.from_pretrained(tmp_path).eval()
    assert (loaded.config.num_key_value_heads, loaded.config.kv_rank) == (2, 6)
    outputs = [each(IDS, attention_mask=MASK).logits for each in (narrow, loaded)]
    assert torch.equal(*outputs)


def test_what_cannot_be_narrow():
    for name in ("num_key_value_heads", "kv_rank"):
        with pytest.raises(ValidationError, match=f"{name} = 1"):
            tiny_config(mechanism=EXAMPLES["lsh"], **{name: 1}).parameters  # noqa: B018
    with pytest.raises(ValidationError, match="num_key_value_heads = 3"):
        tiny_config(num_key_value_heads=3)
    latent = BACKBONES.parse({"kind": "encoder", "kv_rank": 8})
    assert "queries_and_keys" not in latent.abilities
    assert "attention_maps" in latent.abilities
    assert "latent" in latent.linear_layers


def test_work_is_counted_by_what_is_projected():
    sizes = {"kind": "encoder", "hidden_size": 64, "num_attention_heads": 8, "num_hidden_layers": 1}
    plain = BACKBONES.parse(sizes).products_per_token(16, 0)
    grouped = BACKBONES.parse(sizes | {"num_key_value_heads": 2}).products_per_token(16, 0)
    latent = BACKBONES.parse(sizes | {"kv_rank": 8}).products_per_token(16, 0)
    assert plain - grouped == 2 * 64 * (64 - 16)
    assert plain - latent == 2 * 64 * 64 - (64 * 8 + 2 * 8 * 64)
