"""The contract of attention mechanisms: shapes, padding, random draws.

Shapes: B batch, H heads, N tokens, d head width, D width of the states.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from lib.attention.kernels import ComputesByKernels
from lib.attention.settings import MECHANISMS, MechanismSettings
from lib.core.errors import ConfigError

ABSENT = -1e30
"""Added to the scores of keys that are not seen. Finite, so that a query that sees none is never NaN."""


def attend_densely(
    query: Tensor, key: Tensor, value: Tensor, real: Tensor | None, *, bias: Tensor | None, dropout: float
) -> Tensor:
    """Return softmax(q k^T / sqrt(d) + bias) v over the real keys.

    Args:
        query: [B, H, N, d].
        key: as `query`.
        value: as `query`.
        real: [B, N], true at real tokens; None = all real. A row without any sees its padding.
        bias: [B or 1, H or 1, N, N], finite, in the type of `query`; None = no bias.
        dropout: probability of dropping a weight.

    Returns:
        [B, H, N, d].
    """
    mask = bias
    if real is not None:
        # A row without real tokens sees its (zero) padding: no softmax over nothing, whatever the kernel.
        seen = (real | ~real.any(-1, keepdim=True))[:, None, None, :]  # [B, 1, 1, N]
        mask = seen if bias is None else bias.masked_fill(~seen, float("-inf"))
    return functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout)


def alibi(slopes: Tensor | None, query: Tensor) -> Tensor | None:
    """Return what ALiBi adds to the scores [1, H, N, N], in the type of `query`; None without slopes [H]."""
    if slopes is None:
        return None
    positions = torch.arange(query.shape[2], device=query.device)
    distances = (positions[:, None] - positions).abs()
    return (-slopes[:, None, None] * distances).to(query.dtype)[None]  # without B, the fused kernel gives up


_BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Integer type by number of bytes."""


class Attention(ComputesByKernels, ABC):
    """Base of every mechanism; a mechanism defines `attend`.

    Padding is exact, at any position in a row: neither its amount nor its content (not even inf or nan)
    reaches an output at a real token. Outputs at padding are zeros, and so are the gradients of its inputs.
    Scores are scaled by 1/sqrt(d).

    Args:
        parameters: typed parameters of the mechanism's kind.
        num_heads: H.
        head_size: d.
        width: D, for mechanisms that read the states.
        layer: index of the layer; with the seed, it is the key of every random draw.
        seed: seed of the run.
        dropout: probability of dropping an attention weight in training.
        slopes: H factors of ALiBi: the score of a query and a key n columns apart falls by n times its head's slope.
            Padding between the two counts, as in every other position encoding. None = no such bias.

    Raises:
        ConfigError: the mechanism does not support its settings.
    """

    needs_clean_padding: bool = True
    """Whether `attend` relies on zeros at padding, and on others to clear the gradients there; otherwise it relies on
    finite numbers alone, and gradients at padding are zeros if nobody reads the outputs there."""

    is_traceable: ClassVar[bool] = False
    """Whether `torch.compile` can trace `forward`: it draws nothing of its own, and launches no kernels by hand."""

    def __init__(
        self,
        *,
        parameters: MechanismSettings,
        num_heads: int,
        head_size: int,
        width: int | None = None,
        layer: int,
        seed: int,
        dropout: float = 0.0,
        slopes: Sequence[float] | None = None,
    ) -> None:
        super().__init__()
        if slopes is not None and not parameters.takes_bias:
            raise ConfigError(f"{parameters.kind} forms no scores to add the bias of ALiBi to. Choose other positions.")
        if dropout and not parameters.takes_attention_dropout:
            raise ConfigError(f"attention_dropout: {parameters.kind} never forms attention weights. Set it to 0.")
        self.settings = parameters  # a module has a method `parameters`
        self.num_heads = num_heads
        self.head_size = head_size
        self.width = width
        self.layer = layer
        self.seed = seed
        self.dropout = dropout
        # Not a buffer, so it is never saved; on the CPU, since the default device may be `meta`.
        self._slopes = None if slopes is None else torch.tensor(slopes, device="cpu")
        self.step = 0
        self.pads_queries = True
        """Whether queries have the padding of keys; in cross-attention they do not."""

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None = None,
        *,
        states: Tensor | None = None,
        padding_is_finite: bool = False,
    ) -> Tensor:
        """Attend from every query to the real keys of its row.

        Args:
            query: [B, H, N, d].
            key: [B, H, N, d]; the same tensor as `query` if the mechanism shares the two.
            value: [B, H, N, d].
            attention_mask: [B, N], 1 = real token; None = all real.
            states: input of the layer [B, N, D], for mechanisms that read it, and for no others.
            padding_is_finite: whether padding holds neither inf nor nan, and nobody reads its outputs. Most mechanisms
                then need not clear it, which saves passes over memory, and no bit of a real token changes.

        Returns:
            [B, H, N, d] in the type of `value`; zeros at padding, or whatever is finite if `padding_is_finite`.

        Raises:
            ValueError: the mask is not [B, N], there are more tokens than the mechanism reads, a mechanism that
                shares queries and keys gets two tensors, or one that reads the states gets none.
        """
        self.check_length(query.shape[2])
        if (states is None) != (self.settings.reads() == "heads"):
            raise ValueError(f"{self.settings.kind} reads {self.settings.reads()}. Pass states only if it reads them.")
        further: tuple[Tensor, ...] = () if states is None else (states,)
        if self.settings.shares_query_and_key and key is not query:
            raise ValueError(f"{self.settings.kind} has one projection: pass the same tensor as query and key.")
        attend: Any = self._attend_exactly if self.is_exact_at(query) else self.attend
        if attention_mask is None:
            return attend(query, key, value, None, *further).to(value.dtype)
        expected = (query.shape[0], query.shape[2])
        if attention_mask.shape != expected:
            raise ValueError(f"attention_mask has shape {tuple(attention_mask.shape)}; expected [B, N] = {expected}.")
        real = attention_mask.bool()
        if self.hides_padding(query):
            return self.attend(query, key, value, real).to(value.dtype)
        if padding_is_finite and not self.needs_clean_padding:
            return attend(query, key, value, real, *further).to(value.dtype)
        clean = without_padding(query, real)
        key = clean if key is query else without_padding(key, real)
        further = tuple(without_padding(each[:, None], real)[:, 0] for each in further)
        output = attend(clean, key, without_padding(value, real), real, *further)
        return without_padding(output, real).to(value.dtype)

    def weights(self, query: Tensor, key: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Return the N x N matrix that `forward` applies to the values, without dropout.

        Where outputs are linear in the values, those for the columns of the identity are the columns of this matrix,
        even if a mechanism never forms it. It is for inspection: memory is quadratic in N, and the time is N / d times
        that of `forward`.

        Args:
            query: [B, H, N, d].
            key: as in `forward`.
            attention_mask: [B, N], 1 = real token; None = all real.

        Returns:
            [B, H, N, N], in float32 at least, also under autocast. If the mechanism declares `row_stochastic`, rows of
            real tokens sum to 1, or slightly less if a normaliser has an `eps`. Rows and columns of padding are zeros.

        Raises:
            ValueError: as `forward`; or the mechanism is not linear in the values, or reads the states.
        """
        if not self.settings.linear_in_values or self.settings.reads() != "heads":
            raise ValueError(f"{self.settings.kind}: its outputs are no sums of values by weights of queries and keys.")
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
            raise ValueError(f"{self.settings.name()} reads {longest} tokens at most, but the text has {tokens}.")

    def slopes(self, device: torch.device) -> Tensor | None:
        """Return the slopes of ALiBi [H] in float32, None without it."""
        if self._slopes is not None and self._slopes.device != device:
            self._slopes = self._slopes.to(device)  # kept, since a copy to a GPU synchronises
        return self._slopes

    def is_exact_at(self, query: Tensor) -> bool:
        """Return whether such texts are so short that the mechanism is exact attention, which one fused call computes.

        Not for mechanisms that are exact at every length, whose own computation it is.
        """
        return query.shape[2] <= (self.settings.exact_up_to() or 0)

    def exact_bias(self, query: Tensor) -> Tensor | None:
        """Return the bias of the scores of texts so short that it is exact attention [B or 1, H or 1, N, N]."""
        return alibi(self.slopes(query.device), query)

    def _attend_exactly(
        self, query: Tensor, key: Tensor, value: Tensor, real: Tensor | None, added: Tensor | None = None
    ) -> Tensor:
        """Return exact attention, in float32 at least, also under autocast; see `attend`.

        `added` are further terms of the scores [B or 1, H or 1, N, N].
        """
        precision = torch.promote_types(value.dtype, torch.float32)
        query, key, value = (rows.to(precision) for rows in (query, key, value))
        dropout = self.dropout if self.training else 0.0
        with torch.autocast(query.device.type, enabled=False):
            bias = self.exact_bias(query)
            if added is not None:
                bias = added.to(precision) if bias is None else added.to(precision) + bias
            return attend_densely(query, key, value, real, bias=bias, dropout=dropout)

    def hides_padding(self, rows: Tensor) -> bool:
        """Whether `attend` itself ignores padding in such rows, and returns zeros there.

        Kernels do, which saves passes over memory to clear padding.
        """
        return False

    @abstractmethod
    def attend(self, query: Tensor, key: Tensor, value: Tensor, real: Tensor | None) -> Tensor:
        """Compute the outputs of the mechanism.

        That of a mechanism which reads the states has them as a further argument [B, N, D], with padding as below.

        Args:
            query: [B, H, N, d], at padding zeros if `needs_clean_padding`, finite otherwise, anything at all if
                `hides_padding`; likewise `key` and `value`.
            key: as `query`.
            value: as `query`.
            real: [B, N], true at real tokens; None = all real. A row may have none.

        Returns:
            [B, H, N, d], finite; values at padding are discarded unless `hides_padding`.
        """

    @property
    def may_be_captured(self) -> bool:
        """Whether a CUDA graph of a training step can repeat it: only kernels, and no draws of the host."""
        return self.is_traceable or (self.computed_by == "triton" and not self.dropout)

    def draw_for(self, tokens: int, device: torch.device) -> Tensor | None:
        """Draw the random numbers of this step for texts of `tokens` tokens, and return them; None = there are none."""
        return None

    def set_step(self, step: int) -> None:
        """Set the optimiser step, which is a key of random draws in training."""
        self.step = step

    def reset_features(self) -> None:
        """Draw the persistent random features or initial weights, if any; weight initialisation calls it."""


def build(parameters: MechanismSettings, **others: Any) -> Attention:
    """Return the mechanism that `parameters` describe; `others` are the other arguments of `Attention`.

    Raises:
        ConfigError: the kind is unknown, or the mechanism does not support its settings.
    """
    return MECHANISMS.load(parameters.kind, "mechanism").Mechanism(parameters=parameters, **others)


def for_every_head(query: Tensor, rows: Tensor) -> Tensor:
    """Return keys or values with the number of heads of `query`: each head is repeated for a group of query heads.

    Args:
        query: [B, H, N, d].
        rows: [B, K, N, d], K a divisor of H.
    """
    groups = query.shape[1] // rows.shape[1]
    return rows.repeat_interleave(groups, dim=1) if groups > 1 else rows


def without_padding(rows: Tensor, real: Tensor) -> Tensor:
    """Return `rows` with zeros at padding, even if it holds inf or nan; the gradient is zero there, too.

    The result is that of `masked_fill`, bit for bit, in a third of its time on a CPU: it passes over the memory once.

    Args:
        rows: [B, H, N, d].
        real: [B, N], true at real tokens.
    """
    return _WithoutPadding.apply(rows, real)


class _WithoutPadding(torch.autograd.Function):
    """Clear all bits at padding, since multiplying by zero would leave inf and nan."""

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
    """Return the number of real tokens before each token, and the number in each row.

    Args:
        real: [B, N], true at real tokens; None = all real.
        rows: [B, H, N, d]; the results are on its device.

    Returns:
        Ranks [B, N], those of padding not below 0, and lengths [B]; [1, N] and [1] if all are real.
    """
    if real is None:
        length = rows.shape[2]
        return torch.arange(length, device=rows.device)[None], torch.full((1,), length, device=rows.device)
    return (real.cumsum(-1) - 1).clamp_(min=0), real.sum(-1)


def set_step(model: nn.Module, step: int) -> None:
    """Set the optimiser step of every mechanism in `model`."""
    for mechanism in mechanisms(model):
        mechanism.set_step(step)


def mechanisms(model: nn.Module) -> Iterator[Attention]:
    """Yield every mechanism in `model`."""
    return (module for module in model.modules() if isinstance(module, Attention))
