"""The forward pass that all models without a head have.

Shapes: B batch, N tokens, E width of a word embedding, D hidden size.
"""

from collections.abc import Callable
from typing import Any

from torch import Tensor
from transformers.modeling_outputs import BaseModelOutput
from transformers.utils.generic import can_return_tuple


class ReadsTokens:
    """Mixin in front of the base of a backbone's models, for the model without a head, which defines `read`."""

    read: Callable[..., BaseModelOutput]
    """Returns `last_hidden_state` [B, N, D], and hidden states and attentions on demand, from the numbers of tokens
    [B, N] or word embeddings [B, N, E], an attention mask, and further arguments of the backbone."""

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        **kwargs: Any,
    ) -> BaseModelOutput:
        """Return the states of the last layer. Padding never changes those of real tokens.

        Args:
            input_ids: [B, N].
            attention_mask: [B, N], 1 = real token; None = all real.
            inputs_embeds: word embeddings to use instead of `input_ids` [B, N, E].
            kwargs: further arguments of `read`, such as `output_hidden_states`.

        Raises:
            ValueError: not exactly one of `input_ids` and `inputs_embeds`.
        """
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("expected exactly one of input_ids and inputs_embeds.")
        return self.read(input_ids if inputs_embeds is None else inputs_embeds, attention_mask, **kwargs)
