"""Attention mechanisms: the map from queries, keys and values to outputs.

`contract.py` is the interface of a mechanism and builds one; `interface.py` offers mechanisms to transformers' models,
whose windowed layers `windowed_layers.py` computes in linear time.
Each mechanism has a folder: `settings.py` (no torch) and `mechanism.py` (its arithmetic); `tests/helpers/references`
has the same, dense, in float64. Projections, positions and the other dropouts are the layer's.
"""

import importlib
from typing import Any

_EXPORTS = {"number_layers": "interface", "register_attention": "interface"}

__all__ = list(_EXPORTS)


def __getattr__(name: str) -> Any:
    # On demand, since the workflow reads the settings of mechanisms without torch.
    if name not in _EXPORTS:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(importlib.import_module(f"{__name__}.{_EXPORTS[name]}"), name)
