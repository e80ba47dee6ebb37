"""The encoder as a backbone of runs."""

from typing import Any

from transformers import PretrainedConfig, PreTrainedTokenizerBase

from lib.backbones import contract
from lib.backbones.encoder.model import EncoderModel


class Backbone(contract.TokenBackbone):
    """BERT-style encoder with an exchangeable attention mechanism."""

    model_class = EncoderModel

    def config(self, tokenizer: PreTrainedTokenizerBase, options: dict[str, Any]) -> PretrainedConfig:
        """See `lib.backbones.contract.TokenBackbone.config`."""
        return super().config(tokenizer, {"feature_seed": self.seed} | options)
