"""The encoder: a BERT-style stack with an exchangeable attention mechanism, and its models with a head."""

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
    # On demand, so that the masked-language model does not import the classification code.
    if name in _HEADS:
        head = importlib.import_module(f"lib.backbones.heads.{_HEADS[name]}").Head
        return head.on(importlib.import_module(f"{__name__}.model").EncoderModel)
    if name not in _EXPORTS:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(importlib.import_module(f"{__name__}.{_EXPORTS[name]}"), name)
