"""Mechanisms, encoders and packages that `make bench` compares with those of a study. Imports no torch."""

from typing import Any

ENCODERS: dict[str, dict[str, Any]] = {
    "sdpa": {"kind": "encoder", "mechanism": {"kind": "sdpa"}},
    "lsh-h2-c64": {"kind": "encoder", "mechanism": {"kind": "lsh", "num_hashes": 2, "chunk_size": 64}},
    "favor-m64": {"kind": "encoder", "mechanism": {"kind": "favor", "nb_features": 64}},
    "window-w128-g0": {"kind": "encoder", "mechanism": {"kind": "window", "width": 128}},
    "hybrid": {"kind": "encoder", "mechanism": [*3 * [{"kind": "window", "width": 128}], {"kind": "sdpa"}]},
    "ssm": {"kind": "ssm"},
}
"""Our whole encoders that are compared with those of transformers: kind of backbone and its own settings, by name. The
window is that of ModernBERT's local layers; the hybrid has it in three of four layers, and exact attention in the
fourth."""

FORWARD_ONLY = frozenset({"mamba"})
"""Encoders whose training is not measured: the backward pass of Mamba's reference scan writes, for each token, a tensor
as large as the states of all tokens."""

EXTRA: dict[str, dict[str, Any]] = {
    "window-w256-g1": {"kind": "window", "width": 256, "global_tokens": 1},
    "window-w256-g0": {"kind": "window", "width": 256},
    "bigbird-b64-w3-g2-r3": {"kind": "bigbird", "block_size": 64},
    "strided-s128": {"kind": "strided", "stride": 128},
    "cosformer": {"kind": "cosformer"},
    "linformer-k256": {"kind": "linformer", "rank": 256, "length": 16_384},
    "nystrom-m64": {"kind": "nystrom", "landmarks": 64},
    "topk-k64": {"kind": "topk", "keys": 64},
    "topk_blocks-b64-k4": {"kind": "topk_blocks", "block_size": 64, "blocks": 4},
}
"""Mechanisms that are measured in addition to those of the study: parameters by name."""

IN_ADDITION_TO_THE_GRID: dict[str, dict[str, Any]] = {
    "window-w256-g0": EXTRA["window-w256-g0"],
    "ssm": ENCODERS["ssm"],
}
"""Rows of a GPU in addition to the mechanisms of the study: attention within a window, and the state-space
encoder."""

NAIVE: dict[str, dict[str, Any]] = {"sdpa-naive": {"kind": "sdpa", "use_native_sdpa": False}}
"""Exact attention in plain operations, which holds the N x N matrices: its parameters by its name."""

PROJECTED = "+projections"
"""Ends the name of a row whose projections of queries and values are measured with it."""

PACKAGES = {
    "reformer-pytorch": "reformer_pytorch",
    "performer-pytorch": "performer_pytorch",
    "linformer": "linformer",
    "x-transformers": "x_transformers",
    "local-attention": "local_attention",
}
"""Packages that need not be there, by implementation."""

FORMULA = "published formula"
"""Implementation of a formula as its paper writes it, in plain operations, where no package has it."""

FLEX = "flex-attention"
"""Implementation by torch's FlexAttention, which compiles a kernel for a mask; on a GPU, since it has gradients there
only."""

PEERS = {
    "sdpa": ["torch"],
    "lsh-h2-c64": ["reformer-pytorch"],
    f"lsh-h2-c64{PROJECTED}": ["transformers"],
    f"nystrom-m64{PROJECTED}": ["transformers"],
    f"window-w256-g1{PROJECTED}": ["transformers"],
    f"bigbird-b64-w3-g2-r3{PROJECTED}": ["transformers"],
    "favor-m64": ["performer-pytorch"],
    "favor-m256": ["performer-pytorch"],
    f"linformer-k256{PROJECTED}": ["linformer"],
    "topk-k64": ["x-transformers"],
    "window-w256-g0": ["local-attention", FLEX],
    "window-w256-g1": [FLEX],
    "cosformer": [FORMULA],
}
"""Which rows of ours have which peers."""

LONGEST_NAIVE = 2_048
"""Where the plain N x N matrices of a batch still fit into a laptop's memory, and patience ends."""

LONGEST_TORCH = 4_096
"""Our exact attention is torch's kernel: up to here rows of both show what hiding padding costs."""

LONGEST_PADDED = 4_096
"""Up to here rows have padding on a CPU: beyond, exact attention is far behind, with padding or without."""

REACH = {
    "bigbird": (1_024, 4_096),  # transformers' needs more blocks than it sees, and fills an N x N matrix
    "topk": (0, LONGEST_NAIVE),  # x-transformers' holds several N x N matrices per head
}
"""Lengths between which other people's implementations of a kind are measured, where they cannot take all."""
