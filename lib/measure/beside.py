"""Mechanisms that `make bench` measures in addition to those of the study. Imports no torch."""

from typing import Any

BESIDE: dict[str, dict[str, Any]] = {
    "window-w256-g1": {"kind": "window", "width": 256, "global_tokens": 1},
    "bigbird-b64-w3-g2-r3": {"kind": "bigbird", "block_size": 64},
    "strided-s128": {"kind": "strided", "stride": 128},
    "cosformer": {"kind": "cosformer"},
    "linformer-k256": {"kind": "linformer", "rank": 256, "length": 16_384},
    "nystrom-m64": {"kind": "nystrom", "landmarks": 64},
    "topk-k64": {"kind": "topk", "keys": 64},
    "topk_blocks-b64-k4": {"kind": "topk_blocks", "block_size": 64, "blocks": 4},
}
"""Settings by name."""
