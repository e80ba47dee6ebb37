"""The embeddings: from token ids to the input of the first block.

Shapes: B batch, N tokens, D hidden size.
"""

import torch
from torch import Tensor, nn

from lib.backbones.encoder.configuration import EncoderConfig
from lib.backbones.positions import SINUSOIDAL_BASE, Phases, sinusoids


class Embeddings(nn.Module):
    """Sum the embeddings of words, token types (if any) and positions (if learned or sinusoidal), then normalise."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(config.vocab_size, config.hidden_size, padding_idx=config.pad_token_id)
        self.token_type_embeddings = (
            nn.Embedding(config.type_vocab_size, config.hidden_size) if config.type_vocab_size else None
        )
        learned = config.position_embedding_type == "learned"
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, config.hidden_size) if learned else None
        sinusoidal = config.position_embedding_type == "sinusoidal"
        self.phases = Phases(config.hidden_size, SINUSOIDAL_BASE) if sinusoidal else None
        self.layer_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.embedding_dropout)

    def forward(
        self, input_ids: Tensor | None, token_type_ids: Tensor | None = None, inputs_embeds: Tensor | None = None
    ) -> Tensor:
        """Return the input of the first block.

        Args:
            input_ids: [B, N]; None if `inputs_embeds` is given.
            token_type_ids: [B, N]; None = all of type 0.
            inputs_embeds: word embeddings to use instead of those of `input_ids` [B, N, D].

        Returns:
            States [B, N, D]. Position 0 is the first token of a row, so padding must follow the text.

        Raises:
            ValueError: the sequence is longer than the learned positions, or the model has no token types.
        """
        states = self.word_embeddings(input_ids) if inputs_embeds is None else inputs_embeds
        length, device = states.shape[1], states.device
        if self.token_type_embeddings is not None:
            if token_type_ids is None:
                token_type_ids = torch.zeros(states.shape[:2], dtype=torch.long, device=device)
            states = states + self.token_type_embeddings(token_type_ids)
        elif token_type_ids is not None:
            raise ValueError(
                "token_type_ids were passed, but the model has none (type_vocab_size = 0). Leave them out: set "
                "model_input_names of the tokenizer to ['input_ids', 'attention_mask'], or train with type_vocab_size."
            )
        if self.position_embeddings is not None:
            reach = self.position_embeddings.num_embeddings
            if length > reach:
                raise ValueError(
                    f"the sequence has {length} tokens, but learned positions reach {reach} (max_position_embeddings). "
                    "Cut the text, train with a greater max_position_embeddings, or use rope, alibi or "
                    "sinusoidal positions."
                )
            states = states + self.position_embeddings.weight[:length]
        elif self.phases is not None:
            states = states + sinusoids(*self.phases(length, device), states.shape[2]).to(states.dtype)
        return self.dropout(self.layer_norm(states))
