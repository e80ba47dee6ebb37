"""What every attention mechanism owes to the layer that holds it, to padding and to randomness.

Shapes: B batch, H heads, N tokens, d head width.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from lib.attention.kernels import by_triton
from lib.attention.settings import MECHANISMS, Kernels, MechanismSettings
from lib.core.errors import ConfigError

_BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Integers as wide as a number of so many bytes."""


class Attention(nn.Module, ABC):
    """Base of every mechanism; a mechanism defines `attend`.

    Padding is exact, at any position in a row: neither its amount nor its content (not even inf or nan)
    reaches an output at a real token. Outputs at padding are zeros, and so are the gradients of its inputs.
    Scores are scaled by 1/sqrt(d).

    Args:
        parameters: typed parameters of the mechanism's kind.
        num_heads: H.
        head_size: d.
        layer: index of the layer, part of the key of every random draw.
        seed: seed of the run, the other part.
        dropout: probability of dropping an attention weight in training.
        slopes: H factors of ALiBi: the score of a query and a key n columns apart falls by n times its head's slope.
            Padding between the two counts, as in every other position encoding. None = no such bias.

    Raises:
        ConfigError: the mechanism cannot honour its settings.
    """

    def __init__(
        self,
        *,
        parameters: MechanismSettings,
        num_heads: int,
        head_size: int,
        layer: int,
        seed: int,
        dropout: float = 0.0,
        slopes: Sequence[float] | None = None,
    ) -> None:
        super().__init__()
        if slopes is not None and not parameters.takes_bias:
            raise ConfigError(
                f"{parameters.kind} forms no scores to which the bias of ALiBi could be added. Set "
                "position_embedding_type to rope, sinusoidal or learned, or choose a mechanism that takes a bias."
            )
        if dropout and not parameters.takes_attention_dropout:
            raise ConfigError(
                f"attention_dropout = {dropout}: {parameters.kind} never forms attention weights, so it cannot "
                "drop any. Set it to 0 for this mechanism."
            )
        self.settings = parameters  # a module has a method `parameters`
        self.num_heads = num_heads
        self.head_size = head_size
        self.layer = layer
        self.seed = seed
        self.dropout = dropout
        # Not a buffer: nothing to store or to initialise. On the CPU even where the default device holds no data.
        self._slopes = None if slopes is None else torch.tensor(slopes, device="cpu")
        self.step = 0
        self.kernels: Kernels = "auto"
        self.pads_queries = True
        """Whether the padding of keys is that of queries, too; in cross-attention it is not."""
        self.computed_by: Literal["torch", "triton"] | None = None
        """Implementation of the last pass; None before the first one."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Attend from every query to the real keys of its row.

        Args:
            query: [B, H, N, d].
            key: [B, H, N, d]; the very tensor `query` where the mechanism shares the two.
            value: [B, H, N, d].
            attention_mask: [B, N], 1 = real token; None = all real.

        Returns:
            [B, H, N, d] in the type of `value`, zeros at padding.

        Raises:
            ValueError: the mask is not [B, N], there are more tokens than the mechanism reads, or the key is another
                tensor than the query it should be.
        """
        self.check_length(query.shape[2])
        if self.settings.shares_query_and_key and key is not query:
            raise ValueError(
                f"{self.settings.kind} has one projection for both: pass the same tensor as query and key."
            )
        if attention_mask is None:
            return self.attend(query, key, value, None).to(value.dtype)
        expected = (query.shape[0], query.shape[2])
        if attention_mask.shape != expected:
            raise ValueError(f"attention_mask has shape {tuple(attention_mask.shape)}; expected [B, N] = {expected}.")
        real = attention_mask.bool()
        if self.hides_padding(query):
            return self.attend(query, key, value, real).to(value.dtype)
        clean = without_padding(query, real)
        key = clean if key is query else without_padding(key, real)
        output = self.attend(clean, key, without_padding(value, real), real)
        return without_padding(output, real).to(value.dtype)

    def weights(self, query: Tensor, key: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Return the N x N matrix that `forward` applies to the values, without dropout.

        Every mechanism is linear in the values, so its outputs for the columns of the identity are the columns of this
        matrix, also where it never forms one. To look at: memory is quadratic in N, and time N / d times that of
        `forward`. Differentiable as `forward` is.

        Args:
            query: [B, H, N, d].
            key: as in `forward`.
            attention_mask: [B, N], 1 = real token; None = all real.

        Returns:
            [B, H, N, N], in float32 at least, also under autocast. If the mechanism declares `row_stochastic`, rows of
            real tokens sum to 1 (where a normaliser has an `eps`, to as much less as this takes). Rows and columns of
            padding are zeros.

        Raises:
            ValueError: as `forward`.
        """
        precision = torch.promote_types(query.dtype, torch.float32)
        length, width = query.shape[2:]
        columns = torch.eye(length, -(-length // width) * width, dtype=precision, device=query.device)
        exact = query.to(precision)
        key = exact if key is query else key.to(precision)
        dropout, self.dropout = self.dropout, 0.0
        try:
            with torch.autocast(query.device.type, enabled=False):
                parts = [
                    self.forward(exact, key, part.expand(query.shape), attention_mask)
                    for part in columns.split(width, dim=1)
                ]
        finally:
            self.dropout = dropout
        return torch.cat(parts, dim=-1)[..., :length]

    def check_length(self, tokens: int) -> None:
        """Refuse more tokens than the mechanism reads.

        Raises:
            ValueError: there are more.
        """
        longest = self.settings.longest()
        if longest is not None and tokens > longest:
            raise ValueError(
                f"{self.settings.name()} reads {longest} tokens at most, but the text has {tokens}. Cut it, or choose "
                "another mechanism."
            )

    def slopes(self, device: torch.device) -> Tensor | None:
        """Return the slopes of ALiBi [H] in float32, None without it."""
        if self._slopes is not None and self._slopes.device != device:
            self._slopes = self._slopes.to(device)  # kept, since every copy to a GPU waits for it
        return self._slopes

    def hides_padding(self, rows: Tensor) -> bool:
        """Return whether `attend` itself lets nothing of padding in such rows reach anything, and gives zeros there.

        Kernels do: it saves passes over memory that fill all rows.
        """
        return False

    def by_triton(self, rows: Tensor) -> bool:
        """Return whether to compute on `rows` with Triton kernels; for mechanisms that have some.

        Raises:
            RunError: they are asked for, and cannot run here or on such numbers.
        """
        chosen = by_triton(self.kernels, rows)
        self.computed_by = "triton" if chosen else "torch"
        return chosen

    @abstractmethod
    def attend(self, query: Tensor, key: Tensor, value: Tensor, real: Tensor | None) -> Tensor:
        """Do the mechanism's arithmetic.

        Args:
            query: [B, H, N, d], zeros at padding unless `hides_padding`; likewise `key` and `value`.
            key: as `query`.
            value: as `query`.
            real: [B, N], true at real tokens; None = all real. A row may be without any.

        Returns:
            [B, H, N, d], finite; values at padding are discarded unless `hides_padding`.
        """

    def set_step(self, step: int) -> None:
        """Tell the optimiser step that draws in training are keyed by."""
        self.step = step

    def reset_features(self) -> None:
        """Draw the persistent random features or first weights, if there are any; part of weight initialisation."""


def build(
    parameters: MechanismSettings,
    *,
    num_heads: int,
    head_size: int,
    layer: int,
    seed: int,
    dropout: float = 0.0,
    slopes: Sequence[float] | None = None,
) -> Attention:
    """Return the mechanism that `parameters` describe; the arguments are those of `Attention`.

    Raises:
        ConfigError: the kind is unknown, or the mechanism does not support its settings.
    """
    mechanism = MECHANISMS.load(parameters.kind, "mechanism").Mechanism
    return mechanism(
        parameters=parameters,
        num_heads=num_heads,
        head_size=head_size,
        layer=layer,
        seed=seed,
        dropout=dropout,
        slopes=slopes,
    )


def for_every_head(query: Tensor, rows: Tensor) -> Tensor:
    """Return keys or values with as many heads as `query` has; each of fewer ones serves several of its heads.

    Args:
        query: [B, H, N, d].
        rows: [B, K, N, d], K a divisor of H.
    """
    groups = query.shape[1] // rows.shape[1]
    return rows.repeat_interleave(groups, dim=1) if groups > 1 else rows


def without_padding(rows: Tensor, real: Tensor) -> Tensor:
    """Return `rows` with zeros at padding, whatever it holds, inf and nan included; so is the gradient.

    Bit for bit what `masked_fill` returns, in a third of its time on a CPU: one pass over the memory in place of two.

    Args:
        rows: [B, H, N, d].
        real: [B, N], true at real tokens.
    """
    return _WithoutPadding.apply(rows, real)


class _WithoutPadding(torch.autograd.Function):
    """Clear all bits of a number at padding. Multiplying by zero would leave inf and nan."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, real: Tensor) -> Tensor:
        """See `without_padding`."""
        ctx.save_for_backward(real)
        bits = _BITS[rows.element_size()]
        cleared = torch.empty(rows.shape, dtype=bits, device=rows.device)  # contiguous, as `masked_fill` returns it
        kept = real[:, None, :, None].to(bits).neg()  # all bits of -1 are set
        return torch.bitwise_and(rows.view(bits), kept, out=cleared).view(rows.dtype)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        """Return the gradient by the rows."""
        (real,) = ctx.saved_tensors
        return without_padding(gradient, real), None


def ranks(real: Tensor | None, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return how many real tokens stand before each token, and how many a row has.

    Args:
        real: [B, N], true at real tokens; None = all real.
        rows: [B, H, N, d], on whose device the results lie.

    Returns:
        Ranks [B, N], those of padding not below 0, and lengths [B]; [1, N] and [1] if all are real.
    """
    if real is None:
        length = rows.shape[2]
        return torch.arange(length, device=rows.device)[None], torch.full((1,), length, device=rows.device)
    return (real.cumsum(-1) - 1).clamp_(min=0), real.sum(-1)


def set_step(model: nn.Module, step: int) -> None:
    """Tell the optimiser step to every mechanism in `model`."""
    for mechanism in mechanisms(model):
        mechanism.set_step(step)


def set_kernels(model: nn.Module, kernels: Kernels) -> None:
    """Tell every mechanism in `model` what to compute with."""
    for mechanism in mechanisms(model):
        mechanism.kernels = kernels


def mechanisms(model: nn.Module) -> Iterator[Attention]:
    """Yield every mechanism in `model`."""
    return (module for module in model.modules() if isinstance(module, Attention))
