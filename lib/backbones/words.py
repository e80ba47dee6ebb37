"""Shared by encoders without positions: embeddings, and rows without padding.

Shapes: B batch, N tokens, D hidden size.
"""

import torch
from torch import Tensor, nn

from lib.backbones.configuration import BackboneConfig


class Embeddings(nn.Module):
    """Word embeddings, normalised. There are no positions, since a layer reads one token after the other."""

    def __init__(self, config: BackboneConfig) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(config.vocab_size, config.hidden_size, padding_idx=config.pad_token_id)
        self.layer_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.embedding_dropout)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the states [B, N, D] that enter the first layer, of numbers [B, N] or word embeddings [B, N, D]."""
        states = self.word_embeddings(tokens) if tokens.dim() == 2 else tokens
        return self.dropout(self.layer_norm(states))


class Rows:
    """Positions of the real tokens of a batch, and the mapping to rows that have them first.

    Args:
        states: [B, N, D].
        attention_mask: [B, N], 1 = real token; None = all real.
    """

    def __init__(self, states: Tensor, attention_mask: Tensor | None) -> None:
        if attention_mask is None:
            attention_mask = torch.ones(states.shape[:2], dtype=torch.bool, device=states.device)
        self.real = attention_mask.bool()
        # The places of the real tokens, in order, and then those of the padding.
        self.order = (~self.real).int().argsort(dim=1, stable=True)

    def compact(self, states: Tensor) -> Tensor:
        """Return the states [B, N, D] with the real ones of each row first; zero behind them."""
        return states.masked_fill(~self.real[:, :, None], 0).gather(1, self._places(states))

    def spread(self, compact: Tensor) -> Tensor:
        """Return compact states, at the places of their tokens [B, N, D]; zero at padding."""
        states = torch.empty_like(compact).scatter(1, self._places(compact), compact)
        return states.masked_fill(~self.real[:, :, None], 0)

    def _places(self, states: Tensor) -> Tensor:
        return self.order[:, :, None].expand(-1, -1, states.shape[2])
