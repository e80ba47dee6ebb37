"""Compilation of a model's blocks by `torch.compile`: fewer and larger kernels, and less work for the host."""

import functools
from typing import Any

import torch
from torch import nn

from lib.attention.contract import Attention, mechanisms
from lib.backbones.encoder.block import EncoderBlock
from lib.backbones.heads.masked_lm import VocabularyHead

VERSIONS = 64
"""Most variants of a piece that are compiled: with and without padding, in training or not, of one document or more."""


def compile_blocks(model: nn.Module, backend: str = "inductor") -> None:
    """Compile the blocks of a model, and its vocabulary head, for batches of any size.

    Blocks of the same kind share what is compiled. A mechanism that cannot be traced is computed as before, between the
    two compiled pieces of its block.

    Args:
        model: changed in place; names and values of its weights stay.
        backend: of `torch.compile`.
    """
    torch._dynamo.config.recompile_limit = VERSIONS
    if backend == "inductor":
        # Nothing is chosen by measuring: a choice would differ from process to process, and with it the last digits.
        torch._inductor.config.deterministic = True
    compiled = functools.partial(torch.compile, dynamic=True, backend=backend)
    blocks = set(getattr(model, "_no_split_modules", None) or ())
    for module in list(model.modules()):
        if isinstance(module, EncoderBlock) and not module.attention.mechanism.is_traceable:
            module.attention.project = compiled(module.attention.project)  # type: ignore[method-assign]
            module.finish = compiled(module.finish)  # type: ignore[method-assign]
        elif isinstance(module, VocabularyHead) or type(module).__name__ in blocks:
            for mechanism in mechanisms(module):
                _leave_out(mechanism)
            module.compile(dynamic=True, backend=backend)


def _leave_out(mechanism: Attention) -> None:
    if not mechanism.is_traceable:
        forward: Any = torch.compiler.disable(mechanism.forward)
        mechanism.forward = forward  # type: ignore[method-assign]
