"""The encoder as a backbone of runs."""

from pathlib import Path
from typing import Any

from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from lib.backbones import contract
from lib.backbones.encoder.configuration import EncoderConfig
from lib.backbones.loading import load_weights


class Backbone(contract.TokenBackbone):
    """BERT-style encoder with an exchangeable attention mechanism."""

    def config(self, tokenizer: PreTrainedTokenizerBase, options: dict[str, Any]) -> PretrainedConfig:
        """See `lib.backbones.contract.TokenBackbone.config`."""
        return EncoderConfig(
            **self.parameters.model_dump(exclude={"kind"}),
            vocab_size=len(tokenizer),
            pad_token_id=tokenizer.pad_token_id,
            feature_seed=self.seed,
            **options,
        )

    def load_weights(self, model: PreTrainedModel, folder: str | Path, *, with_head: bool = False) -> None:
        """See `lib.backbones.contract.TokenBackbone.load_weights`."""
        load_weights(model, folder, with_head=with_head)
