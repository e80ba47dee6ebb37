"""Compilation of a model's blocks by `torch.compile`: fewer and larger kernels, and less work for the host."""

from collections.abc import Iterator

import torch
from torch import nn

from lib.attention.contract import mechanisms
from lib.backbones.heads.masked_lm import VocabularyHead

VERSIONS = 64
"""Most variants of a piece that are compiled: with and without padding, in training or not, of one document or more."""


def compile_blocks(model: nn.Module, backend: str = "inductor") -> None:
    """Compile the blocks of a model, and its vocabulary head, for batches of any size.

    Blocks of the same kind share what is compiled. A mechanism that cannot be traced is computed as before, between
    the compiled pieces of its block.

    Args:
        model: changed in place, whose lists of modules hold its blocks; names and values of its weights stay.
        backend: of `torch.compile`.
    """
    torch._dynamo.config.recompile_limit = VERSIONS
    if backend == "inductor":
        # Nothing is chosen by measuring: a choice would differ from process to process, and with it the last digits.
        torch._inductor.config.deterministic = True
    for block in _blocks(model):
        for mechanism in mechanisms(block):
            if not mechanism.is_traceable:
                mechanism.forward = torch.compiler.disable(mechanism.forward)  # type: ignore[method-assign]
        block.compile(dynamic=True, backend=backend)


def _blocks(module: nn.Module) -> Iterator[nn.Module]:
    """Yield the entries of the outermost lists of modules, and a vocabulary head."""
    for child in module.children():
        if isinstance(child, nn.ModuleList):
            yield from child
        elif isinstance(child, VocabularyHead):
            yield child
        else:
            yield from _blocks(child)
