"""Mechanisms whose cost `make bench` measures beside those of the study. Imports no torch."""

from typing import Any

BESIDE: dict[str, dict[str, Any]] = {
    "cosformer": {"kind": "cosformer"},
    "linformer-k256": {"kind": "linformer", "rank": 256, "length": 16_384},
    "nystrom-m64": {"kind": "nystrom", "landmarks": 64},
    "topk-k64": {"kind": "topk", "keys": 64},
    "topk_blocks-b64-k4": {"kind": "topk_blocks", "block_size": 64, "blocks": 4},
}
"""Parameters by name."""
