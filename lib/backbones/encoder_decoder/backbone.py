"""An encoder-decoder of transformers as a backbone of runs."""

from pathlib import Path
from typing import Any

from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from lib.backbones import contract
from lib.backbones.encoder_decoder.configuration import EncoderDecoderBackboneConfig
from lib.backbones.encoder_decoder.parameters import Parameters
from lib.backbones.encoder_decoder.published import is_published, load_published
from lib.backbones.loading import load_weights


class Backbone(contract.TokenBackbone):
    """An encoder-decoder, with weights of ours or of a published model of that architecture."""

    parameters: Parameters

    def config(self, tokenizer: PreTrainedTokenizerBase, options: dict[str, Any]) -> PretrainedConfig:
        """See `lib.backbones.contract.TokenBackbone.config`.

        A published vocabulary may have more rows than its tokeniser has tokens; they stay.
        """
        return EncoderDecoderBackboneConfig(
            **self.parameters.model_dump(exclude={"kind"}),
            vocab_size=max(len(tokenizer), self.parameters.architecture.get("vocab_size", 0)),
            pad_token_id=tokenizer.pad_token_id,
            **options,
        )

    def load_weights(self, model: PreTrainedModel, folder: str | Path, *, with_head: bool = False) -> None:
        """See `lib.backbones.contract.TokenBackbone.load_weights`; what was published writes texts without a head."""
        if is_published(Path(folder)):
            load_published(model, Path(folder))
        else:
            load_weights(model, folder, with_head=with_head)
