"""Compilation of the blocks of a model by torch, which fuses operations between matrix products."""

import torch
from torch import nn

VARIANTS = 64
"""Most variants of a block that are compiled: with and without padding, in training or not, of several models."""


def compile_blocks(model: nn.Module) -> None:
    """Let torch compile each block of a model, in place, for texts of any length.

    Args:
        model: whose lists of modules hold its blocks, as those of our encoders and of transformers do.
    """
    torch._dynamo.config.recompile_limit = VARIANTS
    for part in model.modules():
        if isinstance(part, nn.ModuleList):
            for block in part:
                block.compile(dynamic=True)
