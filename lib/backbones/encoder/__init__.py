"""The encoder: a BERT-style stack whose attention mechanism is exchangeable, and its models with a head.

It does not know data, training or metrics.
"""

import importlib
from typing import Any

_EXPORTS = {"EncoderConfig": "configuration", "EncoderModel": "model"}
_HEADS = {
    "EncoderForMaskedLM": "masked_lm",
    "EncoderForSequenceClassification": "sequence_classification",
    "EncoderForTokenClassification": "token_classification",
}

__all__ = [*_EXPORTS, *_HEADS]


def __getattr__(name: str) -> Any:
    # On demand, so that importing the masked-language model neither runs nor depends on the classification code.
    if name in _HEADS:
        head = importlib.import_module(f"lib.backbones.heads.{_HEADS[name]}").Head
        return head.on(importlib.import_module(f"{__name__}.model").EncoderModel)
    if name not in _EXPORTS:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(importlib.import_module(f"{__name__}.{_EXPORTS[name]}"), name)
