"""The recurrent encoder as a backbone of runs."""

import importlib
from pathlib import Path
from typing import Any

from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from lib.backbones import contract
from lib.backbones.recurrent.model import RecurrentModel
from lib.core.errors import RunError
from lib.core.extensions import part
from lib.core.weights import VECTORS


class Backbone(contract.TokenBackbone):
    """Recurrent encoder, in one direction or in both. It has no random draws of its own."""

    model_class = RecurrentModel

    def config(self, tokenizer: PreTrainedTokenizerBase, options: dict[str, Any]) -> PretrainedConfig:
        """See `lib.backbones.contract.TokenBackbone.config`; the tokens are remembered, in case words are asked for."""
        self.tokenizer = tokenizer
        return super().config(tokenizer, options)

    def load_weights(self, model: PreTrainedModel, folder: str | Path, *, with_head: bool = False) -> None:
        """See `lib.backbones.contract.TokenBackbone.load_weights`; of word vectors, embeddings alone are taken."""
        if not (Path(folder) / VECTORS).is_file():
            super().load_weights(model, folder, with_head=with_head)
            return
        if with_head:
            raise RunError(f"{folder}: holds word vectors and no head. Give a trained model, or train with a recipe.")
        importlib.import_module(part("lib.backbones.first_embeddings")).embed_words(model, self.tokenizer, folder)
