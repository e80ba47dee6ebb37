"""Shared by encoders without positions: embeddings, and rows without padding.

Shapes: B batch, N tokens, D hidden size.
"""

import torch
from torch import Tensor, nn
from transformers.modeling_outputs import BaseModelOutput

from lib.backbones.configuration import BackboneConfig
from lib.backbones.reading import ReadsTokens


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


class ReadsInOrder(ReadsTokens):
    """A model without positions and without attention maps; it defines `layer_states`."""

    config: BackboneConfig
    embeddings: Embeddings

    def read(
        self,
        tokens: Tensor,
        attention_mask: Tensor | None,
        output_hidden_states: bool | None = None,
        output_attentions: bool | None = None,
    ) -> BaseModelOutput:
        """Return the states of the last layer [B, N, D], zero at padding; see `ReadsTokens.read`.

        Args:
            tokens: their numbers [B, N], or word embeddings [B, N, D].
            attention_mask: [B, N], 1 = real token; None = all real.
            output_hidden_states: return the states after the embeddings and after each layer, too.
            output_attentions: not available.

        Raises:
            ValueError: attention weights asked for.
        """
        if output_attentions:
            raise ValueError(f"output_attentions = True, but {type(self).__name__} has no attention. Leave it out.")
        every = self.config.output_hidden_states if output_hidden_states is None else output_hidden_states
        states = self.layer_states(self.embeddings(tokens), attention_mask, every=every)
        return BaseModelOutput(last_hidden_state=states[-1], hidden_states=tuple(states) if every else None)

    def layer_states(self, states: Tensor, attention_mask: Tensor | None, *, every: bool) -> list[Tensor]:
        """Return the states of the last layer [B, N, D]; if `every`, behind those of the embeddings and earlier ones.

        Args:
            states: of the embeddings [B, N, D].
            attention_mask: [B, N], 1 = real token; None = all real.
            every: whether the states of all layers are returned.
        """
        raise NotImplementedError
