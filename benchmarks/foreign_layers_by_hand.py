"""Repeat the failures of docs/exact_under_padding.md in plain torch, without any code of this project.

python benchmarks/foreign_layers_by_hand.py

A line per layer: how far its outputs for 96 tokens move, relative to the largest, if 64 tokens of padding join them on
the right, on the left or between them; how many tokens move by padding on the right; how far other numbers in the
padding move them; and the largest output.
"""

import sys
from importlib import import_module
from typing import Any

import torch
import transformers
from torch import Tensor

TOKENS, WHOLE = 96, 160
PLACES = {
    "right": torch.arange(TOKENS),
    "left": torch.arange(WHOLE - TOKENS, WHOLE),
    "inside": torch.arange(TOKENS) * WHOLE // TOKENS,
}
SIZES = {"hidden_size": 64, "num_attention_heads": 4, "attention_probs_dropout_prob": 0.0, "hidden_dropout_prob": 0.0}
LSH = {"lsh_attn_chunk_length": 16, "num_buckets": 16, "hash_seed": 0, "attention_head_size": 16, "is_decoder": False}
ROUTING = {"dim": 64, "heads": 4, "depth": 1, "max_seq_len": WHOLE, "local_attn_heads": 2, "window_size": 32}
PLAIN = {"dim": 64, "heads": 4, "dim_head": 16}


def _added(layer: Any, x: Tensor, real: Tensor) -> Any:
    return layer(x, attention_mask=~real[:, None, None] * torch.finfo(x.dtype).min)


def _heads(layer: Any, x: Tensor, **mask: Tensor) -> Tensor:
    heads = x.unflatten(2, (4, 16)).transpose(1, 2)
    return layer(heads, heads, heads, **mask).transpose(1, 2).flatten(2)


def _nystromformer(layer: Any, x: Tensor, real: Tensor) -> Any:
    layer.seq_len = x.shape[1]
    return _added(layer, x, real)


def _longformer(layer: Any, x: Tensor, real: Tensor) -> Any:
    seen = {"is_index_masked": ~real, "is_index_global_attn": real & False, "is_global_attn": False}
    return layer(x, attention_mask=-10_000.0 * ~real, **seen)


def _bigbird(layer: Any, x: Tensor, real: Tensor) -> Any:
    made = transformers.BigBirdModel.create_masks_for_block_sparse_attn(real.to(x.dtype), 8)
    return layer(x, *made[1:], made[0], made[0])


CALLS = {
    "alone": lambda layer, x, real: layer(x),
    "mask": lambda layer, x, real: layer(x, mask=real),
    "input_mask": lambda layer, x, real: layer(x, input_mask=real),
    "attention_mask": lambda layer, x, real: layer(x, attention_mask=real),
    "embeddings": lambda layer, x, real: layer(inputs_embeds=x, attention_mask=real.long()),
    "heads": lambda layer, x, real: _heads(layer, x),
    "heads, mask": lambda layer, x, real: _heads(layer, x, mask=real),
    "added": _added,
    "nystromformer": _nystromformer,
    "longformer": _longformer,
    "bigbird": _bigbird,
}
"""How a layer is called with states and the mask that is true at real tokens, by a name."""
OTHERS = [
    ("local_attention.LocalAttention", {"window_size": 32}, "heads, mask"),
    ("local_attention.LocalMHA", PLAIN | {"window_size": 32}, "mask"),
    ("colt5_attention.ConditionalRoutedAttention",
     {"dim": 64, "num_heavy_tokens_q": 16, "num_heavy_tokens_kv": 16}, "mask"),
    ("h_transformer_1d.h_transformer_1d.HAttention1D", PLAIN | {"block_size": 16}, "mask"),
    ("linformer.LinformerSelfAttention", {"dim": 64, "seq_len": WHOLE, "k": 64}, "alone"),
    ("performer_pytorch.SelfAttention", PLAIN, "mask"),
    ("performer_pytorch.FastAttention", {"dim_heads": 16}, "heads"),
    ("nystrom_attention.NystromAttention", PLAIN | {"num_landmarks": 32}, "mask"),
    ("reformer_pytorch.LSHSelfAttention", {"dim": 64, "bucket_size": 16}, "input_mask"),
    ("routing_transformer.routing_transformer.SelfAttention", ROUTING, "input_mask"),
    ("sinkhorn_transformer.sinkhorn_transformer.SinkhornSelfAttention",
     {"dim": 64, "bucket_size": 32, "max_seq_len": WHOLE}, "input_mask"),
]  # fmt: skip
"""Class, arguments and call of each layer."""
OF_TRANSFORMERS: list[tuple[str, str, dict[str, Any], str]] = [
    ("convbert.modeling_convbert.ConvBertSelfAttention", "ConvBert", {}, "added"),
    ("nystromformer.modeling_nystromformer.NystromformerSelfAttention",
     "Nystromformer", {"num_landmarks": 32}, "nystromformer"),
    ("longformer.modeling_longformer.LongformerSelfAttention", "Longformer", {"attention_window": [32]}, "longformer"),
    ("big_bird.modeling_big_bird.BigBirdBlockSparseAttention",
     "BigBird", {"block_size": 8, "num_random_blocks": 1}, "bigbird"),
    ("reformer.modeling_reformer.LSHSelfAttention", "Reformer", LSH, "attention_mask"),
    ("fnet.modeling_fnet.FNetBasicFourierTransform", "FNet", {}, "alone"),
    ("mra.modeling_mra.MraSelfAttention", "Mra", {}, "attention_mask"),
    ("yoso.modeling_yoso.YosoModel", "Yoso", {"num_hidden_layers": 1, "vocab_size": 9}, "embeddings"),
]  # fmt: skip
"""Class, name and settings of the configuration, and call of each layer of transformers."""
SECOND = {"Longformer": [0], "BigBird": [0]}
"""Second argument of the constructor: the index of the layer, or the seed."""


def made(name: str, *given: Any, **named: Any) -> Any:
    """Return an object of a class by its dotted name."""
    module, _, kind = name.rpartition(".")
    return getattr(import_module(module), kind)(*given, **named).eval()


@torch.no_grad()
def show(name: str, layer: Any, call: str) -> None:
    """Print the line of a layer."""

    def output(states: Tensor, real: Tensor) -> Tensor:
        torch.manual_seed(0)  # some draw in evaluation, too
        found = CALLS[call](layer, states, real)
        return found if isinstance(found, Tensor) else found[0]

    states = torch.randn(1, TOKENS, 64)
    expected = output(states, torch.ones(1, TOKENS, dtype=torch.bool))
    largest, moved, numbers = expected.abs().max(), {}, []
    for place, columns in PLACES.items():
        real = torch.zeros(1, WHOLE, dtype=torch.bool).index_fill(1, columns, value=True)
        noise = torch.randn(1, WHOLE, 64)
        empty, full = (output((size * noise).index_copy(1, columns, states), real)[:, columns] for size in (0, 1))
        moved[place] = (full - expected).abs().amax(-1) / largest
        numbers.append((full - empty).abs().max() / largest)
    shown = " ".join(f"{place} {each.max():.0e}" for place, each in moved.items())
    tokens = int((moved["right"] > 1e-5).sum())
    sys.stdout.write(f"{name:62} {shown} tokens {tokens:2} numbers {max(numbers):.0e} largest {largest:.0e}\n")


if __name__ == "__main__":
    torch.manual_seed(0)
    for name, family, options, call in OF_TRANSFORMERS:
        config = getattr(transformers, f"{family}Config")(**SIZES | options)
        show(name, made(f"transformers.models.{name}", config, *SECOND.get(family, [])), call)
    for name, given, call in OTHERS:
        show(name, made(name, **given), call)
