"""An encoder-decoder of transformers as a backbone of runs."""

from pathlib import Path
from typing import Any

from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from lib.backbones import contract
from lib.backbones.architecture import is_published
from lib.core.vocabulary import rows
from studies.hate_speech.backbones.encoder_decoder.hub_weights import load_published
from studies.hate_speech.backbones.encoder_decoder.model import EncoderDecoderModel
from studies.hate_speech.backbones.encoder_decoder.settings import ARCHITECTURES, Settings


class Backbone(contract.TokenBackbone):
    """An encoder-decoder, with weights of ours or of a published model of that architecture."""

    parameters: Settings
    model_class = EncoderDecoderModel

    def config(self, tokenizer: PreTrainedTokenizerBase, options: dict[str, Any]) -> PretrainedConfig:
        """See `lib.backbones.contract.TokenBackbone.config`; a published vocabulary may have rows beyond the tokens."""
        return super().config(tokenizer, {"vocab_size": self.parameters.rows(rows(tokenizer))} | options)

    def load_weights(self, model: PreTrainedModel, folder: str | Path, *, with_head: bool = False) -> None:
        """See `lib.backbones.contract.TokenBackbone.load_weights`; published models write texts without a head."""
        if is_published(Path(folder), ARCHITECTURES):
            load_published(model, Path(folder))
        else:
            super().load_weights(model, folder, with_head=with_head)
