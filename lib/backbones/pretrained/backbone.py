"""An architecture of transformers as a backbone of runs."""

from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from lib.backbones import contract
from lib.backbones.architecture import is_published
from lib.backbones.pretrained.families import FAMILIES
from lib.backbones.pretrained.hub_weights import load_head, load_published
from lib.backbones.pretrained.model import PretrainedBackboneModel
from lib.backbones.pretrained.probe import probe
from lib.backbones.pretrained.settings import Settings
from lib.backbones.settings import Precision
from lib.core.errors import require
from lib.core.vocabulary import rows

COMPUTED_IN: dict[Precision, torch.dtype] = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


class Backbone(contract.TokenBackbone):
    """An architecture of transformers, with weights of ours or of a published model of that architecture."""

    parameters: Settings
    model_class = PretrainedBackboneModel

    def config(self, tokenizer: PreTrainedTokenizerBase, options: dict[str, Any]) -> PretrainedConfig:
        """See `lib.backbones.contract.TokenBackbone.config`.

        A published vocabulary may have more rows than its tokeniser has tokens; they stay. A token that serves as
        padding only where none is meant for it is like any other.
        """
        padding = None if tokenizer.pad_token_id == tokenizer.eos_token_id else tokenizer.pad_token_id
        special = {"vocab_size": self.parameters.rows(rows(tokenizer)), "pad_token_id": padding}
        return super().config(tokenizer, special | options)

    def check(self, model: PreTrainedModel) -> None:
        """See `lib.backbones.contract.TokenBackbone.check`: every layer attends in the direction asked for.

        An approximation need not show every token to every other one, so mechanisms have tests of their own.
        """
        if self.parameters.mechanism is None:
            probe(model.base_model.inner, model.config.direction)

    def quantize(self, model: PreTrainedModel, precision: Precision) -> None:
        """See `lib.backbones.contract.TokenBackbone.quantize`."""
        if self.parameters.quantized:
            quantize(model, precision)

    def set_step(self, model: PreTrainedModel, step: int | None) -> None:
        """See `lib.backbones.contract.TokenBackbone.set_step`: gradual attention opens evenly.

        A token sees itself, all tokens before it and, at first, none after it; then ever more of the nearest ones.
        Evaluations see all, as the stored model does.

        Source:
            MAGNET (Khosla et al., 2025) and the authors of llm2vec (BehnamGhader et al., 2024) ask whether that spares
            a decoder a shock.
        """
        if self.parameters.opening_steps is not None:
            model.base_model.opened = 1.0 if step is None else min(1.0, step / self.parameters.opening_steps)

    def load_weights(self, model: PreTrainedModel, folder: str | Path, *, with_head: bool = False) -> None:
        """See `lib.backbones.contract.TokenBackbone.load_weights`."""
        # Early files of BERT name no type.
        if is_published(Path(folder), {*FAMILIES, None}):
            load_published(model, Path(folder))
            if with_head:
                load_head(model, Path(folder))
        else:
            super().load_weights(model, folder, with_head=with_head)


def quantize(model: PreTrainedModel, precision: Precision) -> None:
    """Replace the linear layers of the backbone of `model`, on a CPU, by layers of bitsandbytes in four bits.

    The weights have four bits. Embeddings, norms and the head stay as they are. The same weights give the same bits on
    every machine.

    Args:
        model: model with its first weights; it stays the same object.
        precision: precision of the run and of the layers' computation.

    Raises:
        RunError: bitsandbytes is not installed.

    Source:
        Dettmers et al. 2023, "QLoRA": NF4 in blocks of 64, whose scales are not quantised again.
    """
    require("bitsandbytes", "quantization: nf4")
    from bitsandbytes.nn import Linear4bit, Params4bit

    kind: dict[str, Any] = {"quant_type": "nf4", "compress_statistics": False}
    made: dict[str, Any] = {"compute_dtype": COMPUTED_IN[precision], "device": "meta"}
    backbone = model.base_model
    layers = {name: module for name, module in backbone.named_modules() if isinstance(module, nn.Linear)}
    for name, layer in layers.items():
        small = Linear4bit(layer.in_features, layer.out_features, bias=layer.bias is not None, **kind, **made)
        weight: Any = Params4bit(layer.weight.data, module=small, **kind)  # its own annotations fit no call of `to`
        small.weight = weight.to("cpu")
        small.bias = layer.bias
        # Some CPUs would evaluate in a format of their own, which then stays and has no gradient.
        small.support_avx512bf16_for_cpu = False
        backbone.set_submodule(name, small)
    model.is_loaded_in_4bit = True  # what peft and accelerate ask a model
