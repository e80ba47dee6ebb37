"""Measure which layers of other packages are exact under padding, with the masks that their documentation names.

python benchmarks/foreign_layers.py --out foreign_layers.md

Layers whose packages are not installed are left out. A layer gets its mask also where all tokens are real. Some want a
mask of their own kind, or texts of whole blocks, which the models around them make: `Wrapped` does the same.
"""

import sys
from collections.abc import Callable
from functools import partial
from importlib.metadata import packages_distributions, version
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks import options
from lib.attention.contract import build
from lib.attention.settings import MECHANISMS
from lib.attention.verdict import GARBAGE, ROUNDING, drawn, failing_lengths, failure, padding_errors, read
from lib.core import program
from lib.core.files import write_text

SIZES = ((100, 150), (128, 192), (128, 256))
"""Real tokens, and tokens with padding: the first that a layer reads."""


def _bigbird(layer: Any, states: Tensor, mask: Tensor) -> Any:
    from transformers.models.big_bird.modeling_big_bird import BigBirdModel

    made = BigBirdModel.create_masks_for_block_sparse_attn(mask.to(states.dtype), layer.block_size)
    names = ("from_blocked_mask", "band_mask", "from_mask", "to_mask")
    masks = dict(zip(names, made, strict=True))
    return layer(states, to_blocked_mask=masks["from_blocked_mask"], **masks)


def _longformer(layer: Any, states: Tensor, mask: Tensor) -> Any:
    seen = {"is_index_masked": ~mask, "is_index_global_attn": mask & False, "is_global_attn": False}
    return layer(states, attention_mask=_lowered(mask, states, -10_000), **seen)


def _nystromformer(layer: Any, states: Tensor, mask: Tensor) -> Any:
    layer.seq_len = states.shape[1]  # `segment_means_seq_len` of the configuration, the only length that it reads
    return CALLS["added"](layer, states, mask)


def _lowered(mask: Tensor, states: Tensor, by: float) -> Tensor:
    return (~mask).to(states.dtype) * by


CALLS: dict[str, Callable[[Any, Tensor, Tensor], Any]] = {
    "input_mask": lambda layer, states, mask: layer(states, input_mask=mask),
    "attention_mask": lambda layer, states, mask: layer(states, attention_mask=mask),
    "added": lambda layer, states, mask: layer(
        states, attention_mask=_lowered(mask, states, torch.finfo(states.dtype).min)[:, None, None]
    ),
    "-10,000 at padding": lambda layer, states, mask: layer(states, attention_mask=_lowered(mask, states, -10_000)),
    "key_padding_mask": lambda layer, states, mask: layer(states, states, states, key_padding_mask=~mask),
    "four masks of blocks": _bigbird,
    "three masks of positions": _longformer,
    "added, to one length": _nystromformer,
}
"""How a layer is called, by the kind of its mask."""
HF, NO_DROPOUT = "transformers.models", {"attention_probs_dropout_prob": 0.0, "hidden_dropout_prob": 0.0}
LSH = {"lsh_attn_chunk_length": 16, "num_buckets": 16, "hash_seed": 0, "is_decoder": False, "attention_head_size": 16}
ROUTING = {"depth": 1, "max_seq_len": 4_128, "local_attn_heads": 2, "window_size": 32}
SCALE = {"args": SimpleNamespace(multiway=False, xpos_rel_pos=False), "self_attention": True}
WRAPPED: dict[str, tuple[str, int, dict[str, Any]]] = {
    "torchscale.component.multihead_attention.MultiheadAttention": ("key_padding_mask", 1, SCALE),
    f"{HF}.bert.modeling_bert.BertSelfAttention": ("added", 1, {"config": NO_DROPOUT}),
    f"{HF}.convbert.modeling_convbert.ConvBertSelfAttention": ("added", 1, {"config": NO_DROPOUT}),
    f"{HF}.yoso.modeling_yoso.YosoSelfAttention": ("-10,000 at padding", 1, {"config": NO_DROPOUT}),
    f"{HF}.mra.modeling_mra.MraSelfAttention": ("attention_mask", 32, {"config": NO_DROPOUT}),
    f"{HF}.nystromformer.modeling_nystromformer.NystromformerSelfAttention": (
        "added, to one length", 32, {"config": NO_DROPOUT | {"num_landmarks": 32}}),
    f"{HF}.longformer.modeling_longformer.LongformerSelfAttention": (
        "three masks of positions", 32, {"config": NO_DROPOUT | {"attention_window": [32]}}),
    f"{HF}.big_bird.modeling_big_bird.BigBirdBlockSparseAttention": (
        "four masks of blocks", 8, {"config": NO_DROPOUT | {"block_size": 8, "num_random_blocks": 1}}),
    f"{HF}.reformer.modeling_reformer.LSHSelfAttention": ("attention_mask", 16, {"config": LSH}),
    "reformer_pytorch.LSHSelfAttention": ("input_mask", 32, {"bucket_size": 16}),
    "routing_transformer.routing_transformer.SelfAttention": ("input_mask", 32, ROUTING),
    "sinkhorn_transformer.sinkhorn_transformer.SinkhornSelfAttention": (
        "input_mask", 32, {"bucket_size": 32, "max_seq_len": 4_128}),
}  # fmt: skip
"""Kind of the mask, tokens of a block, and options, by the class of a layer."""

PLAIN: dict[str, dict[str, Any]] = {
    "torch.nn.MultiheadAttention": {"mask": "padding"},
    "x_transformers.Attention": {"mask": "real"},
    "memory_efficient_attention_pytorch.Attention": {"mask": "real", "options": {"memory_efficient": True}},
    "local_attention.LocalAttention": {
        "mask": "real", "takes": "heads", "options": {"window_size": 32, "autopad": True}},
    "local_attention.LocalMHA": {"mask": "real", "options": {"window_size": 32}},
    "colt5_attention.ConditionalRoutedAttention": {
        "mask": "real", "options": {"num_heavy_tokens_q": 16, "num_heavy_tokens_kv": 16}},
    "h_transformer_1d.h_transformer_1d.HAttention1D": {"mask": "real", "options": {"block_size": 16}},
    "linformer.LinformerSelfAttention": {"options": {"seq_len": 4_096, "k": 64}},
    "performer_pytorch.SelfAttention": {"mask": "real"},
    "performer_pytorch.FastAttention": {"takes": "heads"},
    "nystrom_attention.NystromAttention": {"mask": "real", "options": {"num_landmarks": 32}},
    "agent_attention_pytorch.AgentSelfAttention": {"mask": "real", "options": {"num_agent_tokens": 16}},
    "taylor_series_linear_attention.TaylorSeriesLinearAttn": {"mask": "real"},
    "linear_attention_transformer.linear_attention_transformer.SelfAttention": {"mask": "real"},
    f"{HF}.fnet.modeling_fnet.FNetBasicFourierTransform": {},
}  # fmt: skip
"""Settings of layers that are called as they are, by their classes."""


class Wrapped(nn.Module):
    """A layer that gets a mask of its own kind, and texts padded to whole blocks."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.kind, self.block, given = WRAPPED[name]
        settings = MECHANISMS.parse({"kind": "module", "class": name, "options": given})
        self.layer = MECHANISMS.load("module", "adapter").made(settings, width=64, heads=4, head_size=16, layer=0)[0]

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        """Return the outputs [B, N, D]; `mask` [B, N] is true at real tokens."""
        further = -states.shape[1] % self.block
        padded = functional.pad(states, (0, 0, 0, further))
        output = CALLS[self.kind](self.layer, padded, functional.pad(mask, (0, further)))
        return (output if isinstance(output, Tensor) else output[0])[:, : states.shape[1]]


def measured(name: str) -> dict[str, Any]:
    """Return the row of a layer."""
    wrapped = {"class": "benchmarks.foreign_layers.Wrapped", "options": {"name": name}, "mask": "real"}
    settings = MECHANISMS.parse({"kind": "module", "class": name} | (wrapped if name in WRAPPED else PLAIN[name]))
    mechanism = partial(build, settings, num_heads=4, head_size=16, width=64, layer=0, seed=0)

    def make() -> Any:
        return mechanism().eval()

    package = name.partition(".")[0]
    dtype = torch.float32 if failure(make, 128, torch.float64) else torch.float64
    sizes = next(each for each in SIZES if not any(failure(make, tokens) for tokens in each))
    garbage, zeros = (padding_errors(make, dtype, sizes, content) for content in (GARBAGE, 0.0))
    exact = [place for place, each in garbage.items() if each[0] <= ROUNDING]
    probe = MECHANISMS.load("module", "mechanism").is_causal
    rows = drawn(make(), 1, sizes[0])
    with torch.no_grad():
        causal, is_empty = probe(partial(read, make()), rows), not read(make(), rows).any()
    return {
        "layer": f"{package} {version(packages_distributions()[package][0])}: {name.rpartition('.')[2]}",
        "mask": WRAPPED[name][0] if name in WRAPPED else make().described().rpartition("; ")[2],
        **{place: f"{each[0]:.1g}" for place, each in garbage.items()},
        "zeros": f"{max(each[0] for each in zeros.values()):.1g}",
        "fails at": ", ".join(map("{:,}".format, failing_lengths(make))),
        "causal": "yes" if causal else "no",
        "exact": "all zeros" if is_empty else "yes" if len(exact) == len(garbage) else ", ".join(exact) or "no",
    }


def main(argv: program.Argv = None) -> None:
    """Run the program."""
    parser = program.parser(__doc__)
    parser.add_argument(
        "--out", type=program.file_to_write, required=True, metavar="FILE", help="Markdown; FILE.csv has all columns"
    )
    parser.add_argument("--names", nargs="+", default=[*PLAIN, *WRAPPED], metavar="CLASS", help="layers (all)")
    given = parser.parse_args(argv)
    packages = {name.partition(".")[0] for name in given.names}
    MECHANISMS.load("module", "settings").TRUSTED.update(packages, {"benchmarks"})
    rows = [measured(name) for name in given.names if find_spec(name.partition(".")[0])]
    table = pd.DataFrame(rows)
    write_text(f"{given.out}.csv", table.to_csv(index=False))
    shown = table[["layer", "right", "left", "inside", "exact"]]
    write_text(given.out, shown.to_markdown(index=False, disable_numparse=True) + "\n")


if __name__ == "__main__":
    sys.exit(options.run(__file__))
