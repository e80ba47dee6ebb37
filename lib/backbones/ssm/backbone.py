"""The state-space encoder as a backbone of runs."""

from typing import Any

from transformers import PretrainedConfig, PreTrainedTokenizerBase

from lib.backbones import contract
from lib.backbones.ssm.model import SsmModel


class Backbone(contract.TokenBackbone):
    """Bidirectional state-space encoder, some of whose layers may attend."""

    model_class = SsmModel

    def config(self, tokenizer: PreTrainedTokenizerBase, options: dict[str, Any]) -> PretrainedConfig:
        """See `lib.backbones.contract.TokenBackbone.config`."""
        return super().config(tokenizer, {"feature_seed": self.seed} | options)
