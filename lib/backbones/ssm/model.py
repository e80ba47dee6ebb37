"""The state-space encoder without a head, and the base of its models.

Shapes: B batch, N tokens, D hidden size, E inner size, H heads, P width of a head, S state size.
"""

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel, initialization

from lib.attention.kernels import ComputesByKernels
from lib.backbones.self_attention import SelfAttention, draw_features
from lib.backbones.ssm.configuration import SsmConfig
from lib.backbones.ssm.scan import scan
from lib.backbones.words import Embeddings, ReadsInOrder, Rows

STEPS = (0.001, 0.1)
"""Range of the initial step sizes; at rate 1, a state forgets within some 1,000 or 10 tokens."""


class SsmPreTrainedModel(PreTrainedModel):
    """Base of the state-space models: configuration, initial weights, saving and loading."""

    config_class = SsmConfig
    base_model_prefix = "ssm"
    _input_embed_layer = "word_embeddings"

    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if isinstance(module, Mixer):
            module.draw()
        draw_features(module)


class Mixer(ComputesByKernels):
    """Mix tokens by a quasi-separable matrix: a scan from each end, and each token itself in between.

    It is what attention is in a block of the encoder, in time linear in the length.

    With x the inputs of a head, the output is shift(scan(x)) + reverse(shift(scan(reverse(x)))) + (fc_D x) x, where
    shift moves everything one token on, so that neither scan counts a token itself. The scans have step sizes, write
    and read directions of their own, and share inputs, rates and convolution. Gated by a projection of the token.

    Names of the weights are those of the published code.

    Source:
        Hwang et al. 2024, "Hydra: Bidirectional State Space Models Through Generalized Matrix Mixers", section 3; the
        scan is that of Mamba-2. Its code takes no mask: there, padding enters every state.
    """

    def __init__(self, config: SsmConfig) -> None:
        super().__init__()
        self.head_size, self.state_size, self.chunk_size = config.head_size, config.state_size, config.chunk_size
        self.inner_size = config.expansion * config.hidden_size
        self.heads = self.inner_size // config.head_size
        mixed = self.inner_size + 4 * self.state_size
        self.in_proj = nn.Linear(config.hidden_size, self.inner_size + mixed + 2 * self.heads, bias=False)
        self.conv1d = nn.Conv1d(mixed, mixed, config.convolution, groups=mixed, padding="same")
        self.dt_bias = nn.Parameter(torch.empty(self.heads))
        self.A_log = nn.Parameter(torch.empty(self.heads))
        self.fc_D = nn.Linear(self.inner_size, self.heads)
        self.norm = nn.RMSNorm(self.inner_size, eps=1e-5)
        self.out_proj = nn.Linear(self.inner_size, config.hidden_size, bias=False)

    def draw(self) -> None:
        """Draw the initial weights that are not those of a linear layer."""
        bound = self.conv1d.kernel_size[0] ** -0.5  # as torch draws them
        initialization.uniform_(self.conv1d.weight, -bound, bound)
        initialization.uniform_(self.conv1d.bias, -bound, bound)
        steps = torch.empty_like(self.dt_bias).uniform_(*map(math.log, STEPS)).exp()
        initialization.copy_(self.dt_bias, steps + torch.log(-torch.expm1(-steps)))  # softplus of it is the step
        initialization.zeros_(self.A_log)
        initialization.ones_(self.fc_D.bias)

    def forward(self, states: Tensor, real: Tensor | None) -> Tensor:
        """Return the mixed states [B, N, D]; those at padding have no meaning.

        Args:
            states: [B, N, D], the real ones of each row first.
            real: [B, N], true at real tokens; None = all real.
        """
        sizes = [self.inner_size, self.inner_size + 4 * self.state_size, 2 * self.heads]
        gate, mixed, steps = self.in_proj(states).split(sizes, dim=2)
        # Sums over many tokens: in float32 in mixed precision, too, and the scan whatever the type of the weights. Only
        # Triton kernels take operands of products in the type of the projections.
        operands = gate.dtype if self.by_triton(gate.unflatten(2, (-1, self.head_size)), self.state_size) else None
        with torch.autocast(states.device.type, enabled=False):
            mixed = mixed.to(self.conv1d.weight.dtype)
            steps = functional.softplus(steps.float().unflatten(2, (2, -1)) + self.dt_bias)
            if real is not None:
                mixed = mixed.masked_fill(~real[:, :, None], 0)
                steps = steps.masked_fill(~real[:, :, None, None], 0)  # a state passes over padding unchanged
            mixed = functional.silu(self._convolved(mixed))
            values, forwards, backwards = mixed.split([self.inner_size, *[2 * self.state_size] * 2], dim=2)
            heads = values.unflatten(2, (-1, self.head_size))
            before = self._scanned(heads, steps[:, :, 0], forwards, operands, reverse=False)
            after = self._scanned(heads, steps[:, :, 1], backwards, operands, reverse=True)
            outputs = before + after + heads * self.fc_D(values)[..., None]
            outputs = self.norm(outputs.flatten(2)) * functional.silu(gate.to(heads.dtype))
        return self.out_proj(outputs)

    @torch.compiler.disable  # compiled by torch 2.13, a convolution takes texts of the first length alone
    def _convolved(self, mixed: Tensor) -> Tensor:
        """Return `mixed` [B, N, E + 4 S], each dimension mixed with its neighbours along the text."""
        return self.conv1d(mixed.transpose(1, 2)).transpose(1, 2)

    @torch.compiler.disable
    def _scanned(
        self, heads: Tensor, steps: Tensor, directions: Tensor, operands: torch.dtype | None, *, reverse: bool
    ) -> Tensor:
        """Return the contribution of earlier tokens to each token, or of later ones if reversed [B, N, H, P].

        Args:
            heads: [B, N, H, P].
            steps: [B, N, H].
            directions: write and read directions [B, N, 2 S].
            operands: type of the operands of Triton kernels; None = torch's operations.
            reverse: whether to begin at the last token.
        """
        if reverse and operands is None:  # kernels begin at either end
            heads, steps, directions = (each.flip(1) for each in (heads, steps, directions))
            return self._scanned(heads, steps, directions, None, reverse=False).flip(1)
        write, read = directions.float().chunk(2, dim=2)
        decay = -steps * self.A_log.float().exp()
        inputs = heads.float() * steps[..., None]
        if operands is None:
            outputs = scan(inputs, decay, write, read, self.chunk_size)
        else:
            from lib.backbones.ssm.kernels import ScanByTriton  # needs the package triton

            outputs = ScanByTriton.apply(inputs.to(operands), decay, write, read, reverse)
        shift = (-1, 1) if reverse else (1, -1)
        return functional.pad(outputs, (0, 0, 0, 0, *shift)).to(heads.dtype)


class Layer(nn.Module):
    """A mixer on normalised states, added to them. There is no feed-forward part: the mixer's gate does its work."""

    def __init__(self, config: SsmConfig) -> None:
        super().__init__()
        self.layer_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.mixer = Mixer(config)
        self.dropout = nn.Dropout(config.layer_dropout)

    def forward(self, states: Tensor, real: Tensor | None) -> Tensor:
        """Return the layer's output [B, N, D]; arguments as of `Mixer.forward`."""
        return states + self.dropout(self.mixer(self.layer_norm(states), real))


class AttentionLayer(nn.Module):
    """Self-attention on normalised states, added to them, in place of a mixer.

    Its positions are those that the states of other layers tell.
    """

    def __init__(self, config: SsmConfig, layer: int) -> None:
        super().__init__()
        self.layer_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        held = config.parameters.held_mechanisms
        self.attention = SelfAttention(
            held[layer % len(held)],
            layer,
            width=config.hidden_size,
            heads=config.num_attention_heads,
            head_size=config.hidden_size // config.num_attention_heads,
            bias=False,
            seed=config.feature_seed,
        )
        self.dropout = nn.Dropout(config.layer_dropout)

    def forward(self, states: Tensor, real: Tensor | None) -> Tensor:
        """Return the layer's output [B, N, D]; arguments as of `Mixer.forward`."""
        return states + self.dropout(self.attention(self.layer_norm(states), real, rotation=None))


def _layers(config: SsmConfig) -> Iterator[nn.Module]:
    period = config.attention_period or config.num_hidden_layers + 1
    for layer in range(1, config.num_hidden_layers + 1):
        yield Layer(config) if layer % period else AttentionLayer(config, layer // period - 1)


class SsmModel(ReadsInOrder, SsmPreTrainedModel):
    """Map tokens to states that depend on all tokens of the text."""

    def __init__(self, config: SsmConfig) -> None:
        super().__init__(config)
        self.embeddings = Embeddings(config)
        self.layers = nn.ModuleList(_layers(config))
        self.final_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.post_init()

    def layer_states(self, states: Tensor, attention_mask: Tensor | None, *, every: bool) -> list[Tensor]:
        """See `ReadsInOrder.layer_states`; the last states are normalised.

        Padding is ignored at any position in a row: convolutions and scans end where a text ends.
        """
        rows = Rows(states, attention_mask)
        compact = rows.compact(states)
        real = None if attention_mask is None else rows.real.gather(1, rows.order)
        if real is not None and real.device.type == "cpu" and real.all():  # on a GPU, asking would wait for it
            real = None
        history = []
        for layer in self.layers:
            history.append(compact)
            compact = layer(compact, real)
        last = rows.spread(self.final_norm(compact))
        return [*map(rows.spread, history), last] if every else [last]


def weight_parts(backbone: PreTrainedModel) -> dict[str, list[nn.Module]]:
    """Return the modules of each part of the weights."""
    attention = [layer.attention for layer in backbone.layers if isinstance(layer, AttentionLayer)]
    parts = {"embeddings": [backbone.embeddings], "state_space": list(backbone.layers)}
    return parts | ({"attention": attention} if attention else {})


Model = SsmModel
