"""An encoder that reads documents in segments, as a backbone of runs."""

from pathlib import Path
from typing import Any

from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from lib.backbones import contract
from lib.backbones.architecture import is_published
from lib.backbones.hierarchical.model import HierarchicalModel
from lib.backbones.hierarchical.settings import Settings
from lib.backbones.settings import BACKBONES, Precision
from lib.core.enclosing import enclosing


class Backbone(contract.TokenBackbone):
    """Reads documents in segments by another backbone, the encoder."""

    parameters: Settings
    model_class = HierarchicalModel

    def __init__(self, parameters: Settings, *, seed: int) -> None:
        super().__init__(parameters, seed=seed)
        inner = parameters.encoder
        self.encoder: contract.TokenBackbone = BACKBONES.load(inner.kind, "backbone").Backbone(inner, seed=seed)

    def config(self, tokenizer: PreTrainedTokenizerBase, options: dict[str, Any]) -> PretrainedConfig:
        """See `lib.backbones.contract.TokenBackbone.config`; special tokens are those that the encoder takes."""
        inner = self.encoder.config(tokenizer, {})
        own = self.parameters.model_dump(exclude={"kind", "encoder"})
        before, behind = enclosing(tokenizer)
        special = {"vocab_size": inner.vocab_size, "pad_token_id": inner.pad_token_id}
        return self.model_class.config_class(
            encoder=inner.to_diff_dict(), tokens_before=before, tokens_behind=behind, **own, **special | options
        )

    def load_weights(self, model: PreTrainedModel, folder: str | Path, *, with_head: bool = False) -> None:
        """See `lib.backbones.contract.TokenBackbone.load_weights`.

        A model that reads no segments gives the encoder its weights: one that was published, or that a run left.
        """
        if with_head or is_published(Path(folder), {model.config.model_type}):
            super().load_weights(model, folder, with_head=with_head)
        else:
            self.encoder.load_weights(model.base_model.encoder, folder)

    def check(self, model: PreTrainedModel) -> None:
        """See `lib.backbones.contract.TokenBackbone.check`."""
        self.encoder.check(model.base_model.encoder)

    def quantize(self, model: PreTrainedModel, precision: Precision) -> None:
        """See `lib.backbones.contract.TokenBackbone.quantize`."""
        if self.parameters.quantized:
            self.encoder.quantize(model.base_model.encoder, precision)
            model.is_loaded_in_4bit = True

    def set_step(self, model: PreTrainedModel, step: int | None) -> None:
        """See `lib.backbones.contract.TokenBackbone.set_step`."""
        self.encoder.set_step(model.base_model.encoder, step)
