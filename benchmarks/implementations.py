"""Implementations of attention, ours and other people's, as passes that can be compared.

Shapes: B batch, H heads, N tokens, d head width. Other people's packages are the optional extra `bench`.
"""

import functools
import importlib
import itertools
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.compared import FLEX, FORMULA, PACKAGES, PROJECTED
from benchmarks.comparison import Case, Counted
from benchmarks.cost import fused_attention, operation_counter, reset_peak
from lib.attention.contract import build, set_step
from lib.attention.kept_bytes import KeptBytes
from lib.attention.kernels import set_kernels
from lib.attention.settings import MECHANISMS, MechanismSettings, each_of, least, parse_mechanisms
from lib.core.errors import ConfigError

logger = logging.getLogger(__name__)

Padding = Literal["none", "ragged"]

VARIANTS = 64
"""Shapes and masks that FlexAttention may be compiled for in a process."""


@dataclass(frozen=True)
class CountedPass(Counted):
    """Counts of a pass."""

    bytes_kept: int = 0
    """Bytes that the forward pass keeps for the backward pass."""
    kernels: str = "torch"
    """Its implementation: `torch`, `triton`, or the name of torch's own kernel of attention on a GPU."""


@dataclass(frozen=True, kw_only=True)
class AttentionCase(Case):
    """A forward and backward pass of attention.

    Args:
        implementation: `ours`, `torch`, `FLEX`, `transformers`, `FORMULA`, or one of `PACKAGES`.
        mechanism: name of the row.
        parameters: parameters of the mechanism, `kind` included; of a list, a pass goes through each of its layers.
        length: N.
        padding: `none`, or `ragged`: rows of half to all of N real tokens, and a mask that says so.
        heads: H.
        head_size: d.
    """

    NAMED_BY = ("implementation", "mechanism")

    implementation: str = "ours"
    mechanism: str
    parameters: Any
    length: int
    padding: Padding = "none"
    heads: int
    head_size: int

    @property
    def tokens(self) -> int:
        """All tokens, those of padding included."""
        return self.batch * self.length

    @property
    def settings(self) -> Any:
        """Settings of the mechanism, of a case with one."""
        return MECHANISMS.parse(self.parameters)

    @property
    def held(self) -> list[MechanismSettings]:
        """Settings of the mechanism of each layer."""
        return each_of(parse_mechanisms(self.parameters))

    @property
    def rows(self) -> int:
        """Number of tensors that the layers get: one for queries and keys, if all mechanisms share the two."""
        return 2 if all(each.shares_query_and_key for each in self.held) else 3

    @property
    def width(self) -> int:
        """Width of all heads."""
        return self.heads * self.head_size

    @property
    def projects(self) -> bool:
        """Whether projections of queries and values are measured with it."""
        return self.mechanism.endswith(PROJECTED)

    def prepare(self) -> "AttentionPass":
        """Return the pass over random inputs, norms as of standard normal entries.

        Raises:
            ConfigError: the package of the implementation is not installed.
        """
        torch.manual_seed(0)
        options = {"device": self.device, "dtype": getattr(torch, self.dtype)}
        heads = (self.batch, self.heads, self.length, self.head_size)
        shape = (self.batch, self.length, self.width) if self.projects else heads
        number = 1 if self.projects else self.rows
        inputs = [torch.randn(shape, **options).requires_grad_() for _ in range(number)]
        mask = ragged_mask(self.batch, self.length, self.device) if self.padding == "ragged" else None
        module = _MAKERS[self.implementation](self).to(**options)
        parameters: list[Tensor] = list(module.parameters())
        return AttentionPass(lambda: module(*inputs, mask), [*inputs, *parameters], parameters)

    def count(self) -> CountedPass:
        """Return the memory and the counts of one pass; operations of a compiled one are not seen."""
        attention = self.prepare()
        if self.implementation == FLEX:
            reset_peak(torch.device(self.device))  # that of making the mask
            return CountedPass(bytes_kept=attention.kept_bytes())
        with operation_counter() as counter:
            kept = attention.kept_bytes()
        fused = fused_attention(counter) if self.device == "cuda" else None
        return CountedPass(counter.get_total_flops(), kept, fused or self.kernels)


def own_cases(
    mechanisms: Mapping[str, Any], lengths: Iterable[int], tokens: int, **setting: Any
) -> Iterator[AttentionCase]:
    """Yield what measures each mechanism at each length that it reads, by torch's operations and kernels of ours.

    Args:
        mechanisms: parameters by name, or lists of such, one per layer.
        lengths: N in tokens.
        tokens: of a batch, unless one sequence has more.
        setting: other fields of `AttentionCase`.
    """
    for (name, parameters), length in itertools.product(mechanisms.items(), lengths):
        held = parse_mechanisms(parameters)
        if length > (least(each.longest() for each in each_of(held)) or length):
            continue
        batch = max(1, tokens // length)
        case = AttentionCase(mechanism=name, parameters=parameters, length=length, batch=batch, **setting)
        yield from case.with_kernels(held)


@dataclass(frozen=True)
class AttentionPass:
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

    def kept_bytes(self) -> int:
        """Run a forward and a backward pass, and return the bytes that the first keeps for the second."""
        with KeptBytes(self.parameters) as kept:
            output = self.forward()
        self.backward(output)
        return kept.total

    def backward(self, output: Tensor) -> None:
        """Run the backward pass, for a gradient of ones."""
        output.backward(torch.ones_like(output))
        for tensor in self.inputs:
            tensor.grad = None


@functools.cache
def is_installed(implementation: str) -> bool:
    """Return whether the package of an implementation is there; a warning says once which is not."""
    found = implementation not in PACKAGES or find_spec(PACKAGES[implementation]) is not None
    if not found:
        logger.warning("the package %s is not installed: its rows are left out", implementation)
    return found


def ragged_mask(batch: int, length: int, device: str) -> Tensor:
    """Return a mask [B, N] of rows that have half to all of N real tokens, three quarters in the mean."""
    share = 0.5 + (torch.arange(batch) + 0.5) / (2 * batch)
    return (torch.arange(length) < (share * length).round()[:, None]).to(device)


class Called(nn.Module):
    """A module, called as its own interface wants it."""

    def __init__(self, module: nn.Module, call: Callable[..., Tensor]) -> None:
        super().__init__()
        self.module, self.call = module.train(), call

    def forward(self, *arguments: Tensor) -> Tensor:
        """Return the output of the call."""
        return self.call(self.module, *arguments)


class _Ours(nn.Module):
    """Our mechanisms, one per layer, and the projections of a case that has some.

    Every layer gets the same rows, and the output is the sum of the layers' outputs. Gates read the values as states.
    """

    def __init__(self, case: AttentionCase) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            build(each, num_heads=case.heads, head_size=case.head_size, width=case.width, layer=layer, seed=0)
            for layer, each in enumerate(case.held)
        ).train()
        set_kernels(self, case.kernels)
        number = case.rows if case.projects else 0
        self.projections = nn.ModuleList(nn.Linear(case.width, case.width, bias=False) for _ in range(number))
        self.heads, self.steps = (case.heads, case.head_size), 0

    def forward(self, *arguments: Tensor) -> Tensor:
        # As in training: rotations are drawn again at every step.
        self.steps += 1
        set_step(self, self.steps)
        *rows, mask = arguments
        if self.projections:
            rows = [each(rows[0]).unflatten(2, self.heads).transpose(1, 2) for each in self.projections]
        output = functools.reduce(torch.add, (self._output(layer, rows, mask) for layer in self.layers))
        return output.transpose(1, 2).flatten(2) if self.projections else output

    def _output(self, layer: Any, rows: Sequence[Tensor], mask: Tensor | None) -> Tensor:
        query, value = rows[0], rows[-1]
        seen = {} if layer.settings.reads() == "heads" else {"states": value.transpose(1, 2).flatten(2)}
        return layer(query, query if layer.settings.shares_query_and_key else rows[1], value, mask, **seen)


def _torch(case: AttentionCase) -> nn.Module:
    def attend(_: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        allowed = None if mask is None else mask[:, None, None]
        return functional.scaled_dot_product_attention(query, key, value, attn_mask=allowed)

    return Called(nn.Identity(), attend)


def _flex_attention(case: AttentionCase) -> nn.Module:
    """Return FlexAttention under the mask of a window; the mask of its blocks is made once, before any pass.

    With padding, blocks without a real token are skipped, of queries as well as of keys.
    """
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    reach, number = case.settings.width // 2, case.settings.global_tokens
    ragged = case.padding == "ragged"
    lengths = ragged_mask(case.batch, case.length, case.device).sum(1) if ragged else None

    def sees(row: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        seen = (query - key).abs() <= reach
        if number:
            seen = seen | (query < number) | (key < number)
        return seen if lengths is None else seen & (query < lengths[row]) & (key < lengths[row])

    rows = case.batch if ragged else None
    blocks = create_block_mask(sees, rows, None, case.length, case.length, device=case.device)
    torch._dynamo.config.recompile_limit = VARIANTS
    compiled = torch.compile(flex_attention, fullgraph=True, dynamic=False)
    function: Callable[..., Any] = compiled if case.device == "cuda" else flex_attention

    def attend(_: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        return function(query, key, value, block_mask=blocks)

    return Called(nn.Identity(), attend)


def _reformer_pytorch(case: AttentionCase) -> nn.Module:
    def attend(lsh: nn.Module, query: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        rows = None if mask is None else mask.repeat_interleave(case.heads, dim=0)
        output, *_ = lsh(query.flatten(0, 1), value.flatten(0, 1), input_mask=rows)
        return output.unflatten(0, query.shape[:2])

    sizes = {"bucket_size": case.settings.chunk_size, "n_hashes": case.settings.num_hashes}
    return Called(_package("reformer_pytorch").LSHAttention(**sizes), attend)


def _performer_pytorch(case: AttentionCase) -> nn.Module:
    def attend(attention: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        # As the package's own layer treats padding: it hides the values, though not the keys.
        value = value if mask is None else value.masked_fill(~mask[:, None, :, None], 0)
        return attention(query, key, value)

    package = _package("performer_pytorch")
    return Called(package.FastAttention(case.head_size, nb_features=case.settings.nb_features), attend)


def _linformer(case: AttentionCase) -> nn.Module:
    def attend(layer: nn.Module, states: Tensor, mask: Tensor | None) -> Tensor:
        # It takes no mask; keys and values of padding are zeros if its states are, since projections have no bias.
        return layer(states if mask is None else states.masked_fill(~mask[..., None], 0))

    package, settings = _package("linformer").linformer, case.settings
    layer = package.LinformerSelfAttention(case.width, settings.length, k=settings.rank, heads=case.heads)
    layer.proj_v = layer.proj_k  # ours has one table for keys and values
    layer.to_out = nn.Identity()
    return Called(layer, attend)


def _x_transformers(case: AttentionCase) -> nn.Module:
    def attend(attention: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        return attention(query, key, value, mask=mask)[0]

    return Called(_package("x_transformers").attend.Attend(heads=case.heads, sparse_topk=case.settings.keys), attend)


def _local_attention(case: AttentionCase) -> nn.Module:
    def attend(attention: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        return attention(query, key, value, mask=mask)

    # Its windows are blocks: with one more on each side, and all tokens further away hidden, they are ours.
    sizes = {"window_size": case.settings.width // 2, "look_backward": 1, "look_forward": 1}
    package = _package("local_attention")
    return Called(package.LocalAttention(**sizes, exact_windowsize=True, use_rotary_pos_emb=False), attend)


def _cosformer(case: AttentionCase) -> nn.Module:
    """Return equations 10 to 12 of Qin et al. 2022, "cosFormer", with the floor of the sums of their code."""

    def attend(_: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        angles = torch.arange(case.length, device=query.device)[:, None] * (math.pi / 2 / case.length)
        turns = angles.cos().to(query.dtype), angles.sin().to(query.dtype)
        query, key = (torch.cat([functional.relu(rows) * turn for turn in turns], -1) for rows in (query, key))
        if mask is not None:
            key = key.masked_fill(~mask[:, None, :, None], 0)
        sums = query @ key.sum(2)[..., None]
        return query @ (key.mT @ value) / sums.clamp_min(1e-6)

    return Called(nn.Identity(), attend)


def _transformers(case: AttentionCase) -> nn.Module:
    sizes = {"hidden_size": case.width, "num_attention_heads": case.heads}
    return {"lsh": _reformer, "nystrom": _nystromformer, "window": _longformer, "bigbird": _bigbird}[
        case.parameters["kind"]
    ](case, sizes)


def _longformer(case: AttentionCase, sizes: dict[str, int]) -> nn.Module:
    from transformers import LongformerConfig
    from transformers.models.longformer.modeling_longformer import LongformerSelfAttention

    settings = case.settings

    def attend(layer: nn.Module, states: Tensor, mask: Tensor | None) -> Tensor:
        seen = states.new_zeros(states.shape[:2])  # below 0: padding, above 0: global
        seen[:, : settings.global_tokens] = 1
        seen = seen if mask is None else seen.masked_fill(~mask, -1)
        masks = {"is_index_masked": seen < 0, "is_index_global_attn": seen > 0}
        return layer(states, attention_mask=10_000 * seen, is_global_attn=settings.global_tokens > 0, **masks)[0]

    config = LongformerConfig(attention_window=[settings.width], attention_probs_dropout_prob=0.0, **sizes)
    return Called(LongformerSelfAttention(config, layer_id=0), attend)


def _bigbird(case: AttentionCase, sizes: dict[str, int]) -> nn.Module:
    from transformers import BigBirdConfig
    from transformers.models.big_bird.modeling_big_bird import BigBirdBlockSparseAttention, BigBirdModel

    settings = case.settings
    names = ("from_blocked_mask", "band_mask", "from_mask", "to_mask")

    def attend(layer: nn.Module, states: Tensor, mask: Tensor | None) -> Tensor:
        seen = states.new_ones(states.shape[:2]) if mask is None else mask.to(states.dtype)
        masks = dict(
            zip(names, BigBirdModel.create_masks_for_block_sparse_attn(seen, settings.block_size), strict=True)
        )
        return layer(states, to_blocked_mask=masks["from_blocked_mask"], **masks)[0]

    config = BigBirdConfig(
        max_position_embeddings=max(4096, case.length),
        block_size=settings.block_size,
        num_random_blocks=settings.random_blocks,
        **sizes,
    )
    return Called(BigBirdBlockSparseAttention(config, seed=0), attend)


def _nystromformer(case: AttentionCase, sizes: dict[str, int]) -> nn.Module:
    from transformers import NystromformerConfig
    from transformers.models.nystromformer.modeling_nystromformer import NystromformerSelfAttention

    def attend(layer: nn.Module, states: Tensor, mask: Tensor | None) -> Tensor:
        hidden = None if mask is None else (~mask[:, None, None]).to(states.dtype) * torch.finfo(states.dtype).min
        return layer(states, attention_mask=hidden)[0]

    config = NystromformerConfig(
        num_landmarks=case.settings.landmarks,
        segment_means_seq_len=case.length,
        attention_probs_dropout_prob=0.0,
        **sizes,
    )
    layer = NystromformerSelfAttention(config)
    layer.conv_kernel_size = None  # ours has no convolution over the values
    del layer.conv
    return Called(layer, attend)


def _reformer(case: AttentionCase, sizes: dict[str, int]) -> nn.Module:
    from transformers import ReformerConfig
    from transformers.models.reformer import modeling_reformer

    def attend(layer: nn.Module, states: Tensor, mask: Tensor | None) -> Tensor:
        return layer(states, attention_mask=mask).hidden_states

    modeling_reformer.logger.setLevel(logging.ERROR)  # it reports every number of buckets that it chooses
    config = ReformerConfig(
        attention_head_size=case.head_size,
        num_hashes=case.settings.num_hashes,
        lsh_attn_chunk_length=case.settings.chunk_size,
        lsh_num_chunks_before=1,
        lsh_num_chunks_after=1,
        num_buckets=None,
        max_position_embeddings=max(4096, case.length),
        is_decoder=False,
        **sizes,
    )
    return Called(modeling_reformer.LSHSelfAttention(config), attend)


_MAKERS: dict[str, Callable[[AttentionCase], nn.Module]] = {
    "ours": _Ours,
    "torch": _torch,
    FLEX: _flex_attention,
    "reformer-pytorch": _reformer_pytorch,
    "transformers": _transformers,
    "performer-pytorch": _performer_pytorch,
    "linformer": _linformer,
    "x-transformers": _x_transformers,
    "local-attention": _local_attention,
    FORMULA: _cosformer,
}


def _package(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ConfigError(
            f"the package {name.replace('_', '-')} cannot be imported ({error}), but is to be compared with. "
            'Install the extra: pip install -e ".[bench]", or run: make bench'
        ) from error
