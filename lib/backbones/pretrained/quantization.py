"""Weights in four bits: the frozen linear layers of an architecture, by bitsandbytes.

Source: Dettmers et al. 2023, "QLoRA": NF4 in blocks of 64, whose scales are not quantised again.
"""

from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from lib.backbones.settings import Precision
from lib.core.packages import require

COMPUTED_IN: dict[Precision, torch.dtype] = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def quantize(model: PreTrainedModel, precision: Precision) -> None:
    """Replace the linear layers of the backbone of `model`, on a CPU, by such of bitsandbytes with the same weights.

    Embeddings, norms and the head stay as they are. The same weights give the same bits on every machine.

    Args:
        model: with its first weights; it stays the same object.
        precision: precision of the run and of the layers' computation.

    Raises:
        RunError: bitsandbytes is not installed.
    """
    require("bitsandbytes", "quantization: nf4")
    from bitsandbytes.nn import Linear4bit, Params4bit

    kind: dict[str, Any] = {"quant_type": "nf4", "compress_statistics": False}
    backbone = model.base_model
    layers = {name: module for name, module in backbone.named_modules() if isinstance(module, nn.Linear)}
    for name, layer in layers.items():
        small = Linear4bit(
            layer.in_features,
            layer.out_features,
            bias=layer.bias is not None,
            compute_dtype=COMPUTED_IN[precision],
            device="meta",
            **kind,
        )
        weight: Any = Params4bit(layer.weight.data, module=small, **kind)  # its own annotations fit no call of `to`
        small.weight = weight.to("cpu")
        small.bias = layer.bias
        # Some CPUs would evaluate in a format of their own, which then stays and has no gradient.
        small.support_avx512bf16_for_cpu = False
        backbone.set_submodule(name, small)
    model.is_loaded_in_4bit = True  # what peft and accelerate ask a model
