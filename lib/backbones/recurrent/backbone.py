"""The recurrent encoder as a backbone of runs."""

from pathlib import Path
from typing import Any

from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from lib.backbones import contract
from lib.backbones.loading import load_weights
from lib.backbones.recurrent.configuration import RecurrentConfig


class Backbone(contract.TokenBackbone):
    """Bidirectional recurrent encoder. It draws nothing of its own."""

    def config(self, tokenizer: PreTrainedTokenizerBase, options: dict[str, Any]) -> PretrainedConfig:
        """See `lib.backbones.contract.TokenBackbone.config`."""
        return RecurrentConfig(
            **self.parameters.model_dump(exclude={"kind"}),
            vocab_size=len(tokenizer),
            pad_token_id=tokenizer.pad_token_id,
            **options,
        )

    def load_weights(self, model: PreTrainedModel, folder: str | Path, *, with_head: bool = False) -> None:
        """See `lib.backbones.contract.TokenBackbone.load_weights`."""
        load_weights(model, folder, with_head=with_head)
