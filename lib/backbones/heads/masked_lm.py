"""Masked language modelling (pretraining and adaptation) on any backbone. It does not import classification.

Shapes: B batch, N tokens, D hidden size, V vocabulary.
"""

from typing import ClassVar

import torch
from torch import Tensor, nn
from transformers.activations import ACT2FN
from transformers.modeling_outputs import MaskedLMOutput

from lib.backbones.configuration import BackboneConfig
from lib.backbones.heads.model import Labels, TaskModel, cross_entropy, select


class VocabularyHead(nn.Module):
    """From states to vocabulary scores: dense layer, activation, layer norm, decoder with a bias of its own (as BERT).

    A configuration without `dense_head` leaves the decoder alone, without a bias (as decoders have it). One with word
    embeddings of another width than states names it (`word_width`), and one whose activation is not exact GELU names it
    as `ACT2FN` does (`head_activation`). Scores may have a divisor (`score_divisor`) and a bound (`score_cap`).
    """

    is_compiled = True
    """Compiled with the blocks of a model, as few other heads are worth it."""

    def __init__(self, config: BackboneConfig) -> None:
        super().__init__()
        self.is_dense = config.dense_head
        width = config.word_width if hasattr(config, "word_width") else config.hidden_size
        if self.is_dense:
            self.dense = nn.Linear(config.hidden_size, width)
            self.activation = ACT2FN[getattr(config, "head_activation", "gelu")]
            self.layer_norm = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.decoder = nn.Linear(width, config.vocab_size, bias=self.is_dense)
        self.divisor, self.cap = getattr(config, "score_divisor", 1.0), getattr(config, "score_cap", None)

    def forward(
        self, states: Tensor, labels: Tensor | None = None, num_items_in_batch: Tensor | int | None = None
    ) -> Tensor:
        """Return scores, or their loss. With both in one place, a compiler stores all scores only once.

        Args:
            states: [..., D].
            labels: token at each of the states [L]; None = none.
            num_items_in_batch: see `cross_entropy`.

        Returns:
            Without labels, scores [..., V]; with labels, the loss, a scalar.
        """
        if self.is_dense:
            states = self.layer_norm(self.activation(self.dense(states)))
        scores = self.decoder(states)
        if self.divisor != 1.0:
            scores = scores / self.divisor
        if self.cap is not None:
            scores = torch.tanh(scores / self.cap) * self.cap
        return scores if labels is None else cross_entropy(scores, labels, num_items_in_batch)


class MaskedLM(TaskModel):
    """Predict tokens from their context."""

    auto_model: ClassVar[str] = "AutoModelForMaskedLM"
    output = MaskedLMOutput
    labels_tokens = True
    may_be_captured = True

    def __init__(self, config: BackboneConfig) -> None:
        self._tied_weights_keys = {"head.decoder.weight": f"{self.base_model_prefix}.{config.words}.weight"}
        super().__init__(config)
        self.head = VocabularyHead(config)
        self.post_init()

    def get_output_embeddings(self) -> nn.Linear:
        """Return the decoder."""
        return self.head.decoder

    def set_output_embeddings(self, value: nn.Linear) -> None:
        """Replace the decoder."""
        self.head.decoder = value

    def predict(
        self, states: Tensor, attention_mask: Tensor | None, labels: Labels | None
    ) -> tuple[Tensor | None, Tensor | None]:
        """Return scores [B, N, V], or the loss alone if there are labels.

        With labels, scores exist at labelled positions only, and are not kept.
        """
        if labels is None:
            return self.head(states), None
        return None, self.head(*select(states, labels.values, labels.scored), labels.number)


Head = MaskedLM
