"""The self-attention of a layer: projections around an exchangeable mechanism.

Projections and rotary positions are here; the mechanism only maps queries, keys and values.
Shapes: B batch, H heads, N tokens, d width of a head, D hidden size.
"""

import torch
from torch import Tensor, nn

from lib.attention.contract import build, for_every_head
from lib.attention.settings import MechanismSettings
from lib.backbones.positions import alibi_slopes, rotate


class SelfAttention(nn.Module):
    """Project to queries, keys and values, let the mechanism mix them, project back.

    A mechanism that shares queries and keys gets one projection for both; one that reads the states alone has
    projections of its own, there and back. Keys and values may have fewer heads than queries (Ainslie et al. 2023,
    "GQA"), and may be projected from a narrow latent that both share (DeepSeek-AI 2024, "DeepSeek-V2", section 2.1.2;
    here rotary positions turn the whole key, since nothing is cached).

    Args:
        parameters: settings of the mechanism.
        layer: layer of the model, a key of the mechanism's draws.
        width: of the states, D.
        heads: of queries, H.
        head_size: width of a head, d.
        key_heads: heads of keys and values, a divisor of `heads`; None = `heads`.
        kv_rank: width of the latent of keys and values; None = there is none.
        bias: whether the projections have biases.
        seed: key of the mechanism's draws.
        dropout: of the attention weights.
        alibi: whether scores are lowered by distance.
    """

    def __init__(
        self,
        parameters: MechanismSettings,
        layer: int,
        *,
        width: int,
        heads: int,
        head_size: int,
        key_heads: int | None = None,
        kv_rank: int | None = None,
        bias: bool,
        seed: int,
        dropout: float = 0.0,
        alibi: bool = False,
    ) -> None:
        super().__init__()
        self.head_size = head_size
        source, width_of_keys = kv_rank or width, (key_heads or heads) * head_size
        self.is_projected = parameters.reads() != "states"
        if self.is_projected:
            self.query = nn.Linear(width, heads * head_size, bias=bias)
            self.latent = nn.Linear(width, kv_rank, bias=False) if kv_rank else None
            self.key = None if parameters.shares_query_and_key else nn.Linear(source, width_of_keys, bias=bias)
            self.value = nn.Linear(source, width_of_keys, bias=bias)
        shape = {"num_heads": heads, "head_size": head_size, "width": width}
        slopes = alibi_slopes(heads) if alibi else None
        self.mechanism = build(parameters, layer=layer, seed=seed, dropout=dropout, slopes=slopes, **shape)
        self.output = nn.Linear(heads * head_size, width, bias=bias) if self.is_projected else nn.Identity()

    def forward(self, states: Tensor, attention_mask: Tensor | None, rotation: Tensor | None) -> Tensor:
        """Return the attention's output.

        Args:
            states: [B, N, D], finite at padding too.
            attention_mask: [B, N], 1 = real token; None = all real.
            rotation: see `project`.

        Returns:
            Output [B, N, D], finite at padding.
        """
        return self.join(self.mix(self.project(states, rotation), states, attention_mask))

    def project(self, states: Tensor, rotation: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values [B, H, N, d]; queries and keys are one tensor if the mechanism shares them.

        Args:
            states: [B, N, D].
            rotation: cosines and sines of rotary positions [N, d / 2, 2]; None = no rotary positions.
        """
        if not self.is_projected:
            return (states[:, None],) * 3
        place = states.device.type
        if torch.is_autocast_enabled(place):
            states = states.to(torch.get_autocast_dtype(place))  # converts once, not in each projection
        latent = self._latent(states)
        query, key = self._queries_and_keys(states, latent, rotation)
        return query, key, for_every_head(query, self._heads(self.value(latent)))

    def mix(self, rows: tuple[Tensor, Tensor, Tensor], states: Tensor, attention_mask: Tensor | None) -> Tensor:
        """Return the mechanism's output [B, H, N, d] for what `project` made of states [B, N, D]."""
        seen = {} if self.mechanism.settings.reads() == "heads" else {"states": states}
        return self.mechanism(*rows, attention_mask, padding_is_finite=True, **seen)

    def join(self, mixed: Tensor) -> Tensor:
        """Return the output [B, N, D] from the mechanism's output [B, H, N, d]."""
        return self.output(mixed.transpose(1, 2).flatten(2))

    def weights(self, states: Tensor, attention_mask: Tensor | None, rotation: Tensor | None) -> Tensor:
        """Return the attention weights [B, H, N, N], see `Attention.weights`; the arguments are those of `forward`."""
        query, key = self._queries_and_keys(states, self._latent(states), rotation)
        return self.mechanism.weights(query, key, attention_mask)

    def _latent(self, states: Tensor) -> Tensor:
        """Return the input of the projections of keys and values."""
        return states if self.latent is None else self.latent(states)

    def _queries_and_keys(self, states: Tensor, latent: Tensor, rotation: Tensor | None) -> tuple[Tensor, Tensor]:
        rows = [self._heads(self.query(states))]
        if self.key is not None:
            rows.append(self._heads(self.key(latent)))
        if rotation is not None:
            rows = rotate(rows, rotation)
        query, key = rows[0], rows[-1]
        return query, key if key is query else for_every_head(query, key)

    def _heads(self, projected: Tensor) -> Tensor:
        return projected.unflatten(2, (-1, self.head_size)).transpose(1, 2)


def draw_features(module: nn.Module) -> None:
    """Draw the features or first weights of a mechanism, as a model without weights needs them.

    from_pretrained creates tensors without content. Those from a checkpoint are marked, and stay.
    """
    if hasattr(module, "reset_features") and not all(
        getattr(tensor, "_is_hf_initialized", False) for tensor in (*module.buffers(), *module.parameters())
    ):
        module.reset_features()  # type: ignore[operator]  # a method, which the line above asks for
