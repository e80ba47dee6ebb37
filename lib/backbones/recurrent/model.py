"""The recurrent encoder without a head, and the base of its models.

Shapes: B batch, N tokens, D hidden size.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from transformers import PreTrainedModel, initialization

from lib.backbones.recurrent.configuration import RecurrentConfig
from lib.backbones.words import Embeddings, ReadsInOrder, Rows

CELLS: dict[str, Callable[..., nn.RNNBase]] = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}


class RecurrentPreTrainedModel(PreTrainedModel):
    """Base of the recurrent models: configuration, initial weights, saving and loading."""

    config_class = RecurrentConfig
    base_model_prefix = "recurrent"
    _input_embed_layer = "word_embeddings"

    def _init_weights(self, module: nn.Module) -> None:
        if not isinstance(module, nn.RNNBase):
            super()._init_weights(module)
            return
        # As torch draws them, for all cells alike; transformers has a rule of its own for one of the three. A standard
        # deviation for all sizes, as embeddings have, would let the states of a narrow layer fade within a few tokens.
        bound = module.hidden_size**-0.5
        for weight in module.parameters():
            initialization.uniform_(weight, -bound, bound)


class RecurrentModel(ReadsInOrder, RecurrentPreTrainedModel):
    """Map tokens to states that depend on earlier tokens and, if it is bidirectional, on later ones."""

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__(config)
        self.embeddings = Embeddings(config)
        cell, width, both = CELLS[config.cell], config.hidden_size, config.bidirectional
        # One module per layer, and not one for all, so that the lowest can be frozen.
        self.layers = nn.ModuleList(
            cell(width, width // (1 + both), batch_first=True, bidirectional=both)
            for _ in range(config.num_hidden_layers)
        )
        self.dropout = nn.Dropout(config.layer_dropout)
        self.post_init()

    def layer_states(self, states: Tensor, attention_mask: Tensor | None, *, every: bool) -> list[Tensor]:
        """See `ReadsInOrder.layer_states`.

        Padding is ignored at any position in a row: the layers read only real tokens, one after the other.
        """
        history, rows = [states], Rows(states, attention_mask)
        # A row without real tokens is packed with one, since torch takes no empty ones.
        lengths = rows.real.sum(dim=1).clamp(min=1).cpu()
        packed = pack_padded_sequence(rows.compact(states), lengths, batch_first=True, enforce_sorted=False)

        def unpacked() -> Tensor:
            compact, _ = pad_packed_sequence(packed, batch_first=True, total_length=states.shape[1])
            return rows.spread(compact)

        # In mixed precision, too, the layers compute in float32: on a GPU, torch would take fp16 even where bf16 is
        # asked for, and nothing scales its small gradients then.
        with torch.autocast(states.device.type, enabled=False):
            for number, layer in enumerate(self.layers):
                packed, _ = layer(packed if number == 0 else packed._replace(data=self.dropout(packed.data)))
                if every:
                    history.append(unpacked())
        return history if every else [unpacked()]


def weight_parts(backbone: PreTrainedModel) -> dict[str, list[nn.Module]]:
    """Return the modules of each part of the weights."""
    return {"embeddings": [backbone.embeddings], "recurrence": list(backbone.layers)}


Model = RecurrentModel
