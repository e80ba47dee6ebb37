"""Implementations of attention, ours and other people's, as forward passes that can be compared.

Shapes: B batch, H heads, N tokens, d head width. Other people's packages are the optional extra `bench`.
"""

import functools
import importlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from lib.attention.contract import set_kernels
from lib.attention.parameters import MECHANISMS, Kernels
from lib.attention.registry import build
from lib.core.errors import ConfigError

logger = logging.getLogger(__name__)

Padding = Literal["none", "ragged"]
PACKAGES = {"reformer-pytorch": "reformer_pytorch", "performer-pytorch": "performer_pytorch"}
"""Packages that need not be there, by implementation."""

NAIVE: dict[str, dict[str, Any]] = {"sdpa-naive": {"kind": "sdpa", "use_native_sdpa": False}}
"""Exact attention in plain operations, which holds the N x N matrices: its parameters by its name."""

PROJECTED = "+projections"
"""Ends the name of a row whose projections of queries and values are measured with it."""


@dataclass(frozen=True)
class Case:
    """One row of the comparison.

    Args:
        implementation: `ours`, `torch`, `reformer-pytorch`, `transformers` or `performer-pytorch`.
        mechanism: name of the row.
        parameters: parameters of the mechanism, `kind` included.
        length: N.
        batch: B.
        padding: `none`, or `ragged`: rows of half to all of N real tokens, and a mask that says so.
        heads: H.
        head_size: d.
        device: such as `cpu`.
        dtype: such as `float32`.
        kernels: what ours computes with.
    """

    implementation: str
    mechanism: str
    parameters: dict[str, Any]
    length: int
    batch: int
    padding: Padding
    heads: int
    head_size: int
    device: str
    dtype: str
    kernels: Kernels = "torch"


@dataclass(frozen=True)
class Attention:
    """A prepared case.

    Args:
        forward: the forward pass.
        inputs: what to differentiate by.
        parameters: weights among the inputs.
    """

    forward: Callable[[], Tensor]
    inputs: list[Tensor]
    parameters: list[Tensor]

    def __call__(self) -> None:
        """Run a forward and a backward pass."""
        self.backward(self.forward())

    def backward(self, output: Tensor) -> None:
        """Run the backward pass, for a gradient of ones."""
        output.backward(torch.ones_like(output))
        for tensor in self.inputs:
            tensor.grad = None


def is_installed(case: Case) -> bool:
    """Return whether the package of a case's implementation is there; a warning says once which is not."""
    return _is_installed(case.implementation)


@functools.cache
def _is_installed(implementation: str) -> bool:
    found = implementation not in PACKAGES or find_spec(PACKAGES[implementation]) is not None
    if not found:
        logger.warning("the package %s is not installed: its rows are left out", implementation)
    return found


def prepare(case: Case) -> Attention:
    """Return `case` with random inputs, norms as of standard normal entries.

    Raises:
        ConfigError: the package of the implementation is not installed.
    """
    torch.manual_seed(0)
    options = {"device": case.device, "dtype": getattr(torch, case.dtype)}
    projected = case.mechanism.endswith(PROJECTED)
    width = case.heads * case.head_size
    shape = (case.batch, case.length, width) if projected else (case.batch, case.heads, case.length, case.head_size)
    shared = MECHANISMS.parse(case.parameters).shares_query_and_key
    inputs = [torch.randn(shape, **options).requires_grad_() for _ in range(1 if projected else 2 if shared else 3)]
    mask = ragged_mask(case.batch, case.length, case.device) if case.padding == "ragged" else None
    made = _MAKERS[case.implementation](case)
    module = made.to(**options) if isinstance(made, nn.Module) else made
    parameters: list[Tensor] = list(module.parameters()) if isinstance(module, nn.Module) else []
    return Attention(lambda: module(*inputs, mask), [*inputs, *parameters], parameters)


def ragged_mask(batch: int, length: int, device: str) -> Tensor:
    """Return a mask [B, N] of rows that have half to all of N real tokens, three quarters in the mean."""
    share = 0.5 + (torch.arange(batch) + 0.5) / (2 * batch)
    return (torch.arange(length) < (share * length).round()[:, None]).to(device)


class _Ours(nn.Module):
    def __init__(self, case: Case) -> None:
        super().__init__()
        self.mechanism = build(
            MECHANISMS.parse(case.parameters), num_heads=case.heads, head_size=case.head_size, layer=0, seed=0
        ).train()
        set_kernels(self, case.kernels)
        self.steps = 0

    def forward(self, *arguments: Tensor) -> Tensor:
        # As in training: rotations are drawn anew every step.
        self.steps += 1
        self.mechanism.set_step(self.steps)
        *rows, mask = arguments
        query, key, value = rows if len(rows) == 3 else (rows[0], rows[0], rows[1])
        return self.mechanism(query, key, value, mask)


class _OursProjected(nn.Module):
    def __init__(self, case: Case) -> None:
        super().__init__()
        width = case.heads * case.head_size
        self.attention = _Ours(case)
        self.query, self.value = (nn.Linear(width, width, bias=False) for _ in range(2))
        self.heads = (case.heads, case.head_size)

    def forward(self, states: Tensor, mask: Tensor | None) -> Tensor:
        query, value = (
            projection(states).unflatten(2, self.heads).transpose(1, 2) for projection in (self.query, self.value)
        )
        return self.attention(query, value, mask).transpose(1, 2).flatten(2)


def _ours(case: Case) -> nn.Module:
    return _OursProjected(case) if case.mechanism.endswith(PROJECTED) else _Ours(case)


def _torch(case: Case) -> Callable[..., Tensor]:
    def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        allowed = None if mask is None else mask[:, None, None]
        return functional.scaled_dot_product_attention(query, key, value, attn_mask=allowed)

    return attend


def _reformer_pytorch(case: Case) -> nn.Module:
    settings: Any = MECHANISMS.parse(case.parameters)
    lsh = _package("reformer_pytorch").LSHAttention(bucket_size=settings.chunk_size, n_hashes=settings.num_hashes)

    class Heads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lsh = lsh

        def forward(self, query: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
            rows = None if mask is None else mask.repeat_interleave(case.heads, dim=0)
            output, *_ = self.lsh(query.flatten(0, 1), value.flatten(0, 1), input_mask=rows)
            return output.unflatten(0, query.shape[:2])

    return Heads()


def _transformers(case: Case) -> nn.Module:
    from transformers import ReformerConfig
    from transformers.models.reformer import modeling_reformer

    modeling_reformer.logger.setLevel(logging.ERROR)  # it tells every number of buckets that it chooses
    settings: Any = MECHANISMS.parse(case.parameters)
    width = case.heads * case.head_size
    config = ReformerConfig(
        hidden_size=width,
        num_attention_heads=case.heads,
        attention_head_size=case.head_size,
        num_hashes=settings.num_hashes,
        lsh_attn_chunk_length=settings.chunk_size,
        lsh_num_chunks_before=1,
        lsh_num_chunks_after=1,
        num_buckets=None,
        max_position_embeddings=max(4096, case.length),
        is_decoder=False,
    )

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = modeling_reformer.LSHSelfAttention(config)

        def forward(self, states: Tensor, mask: Tensor | None) -> Tensor:
            return self.layer(states, attention_mask=mask).hidden_states

    return Layer().train()


def _performer_pytorch(case: Case) -> nn.Module:
    settings: Any = MECHANISMS.parse(case.parameters)
    attention = _package("performer_pytorch").FastAttention(case.head_size, nb_features=settings.nb_features)

    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = attention

        def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
            # As the package's own layer treats padding: it hides the values, though not the keys.
            value = value if mask is None else value.masked_fill(~mask[:, None, :, None], 0)
            return self.attention(query, key, value)

    return Masked()


_MAKERS: dict[str, Callable[[Case], Callable[..., Tensor]]] = {
    "ours": _ours,
    "torch": _torch,
    "reformer-pytorch": _reformer_pytorch,
    "transformers": _transformers,
    "performer-pytorch": _performer_pytorch,
}


def _package(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ConfigError(
            f"the package {name.replace('_', '-')} cannot be imported ({error}), but is to be compared with. "
            'Install the extra: pip install -e ".[bench]", or run: make bench'
        ) from error
