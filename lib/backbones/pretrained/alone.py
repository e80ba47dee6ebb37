"""Reading of documents one at a time, for architectures whose states depend on padding or other documents.

Shapes: B batch, N tokens, E width of a word embedding, D hidden size.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput


def read_alone(
    inner: PreTrainedModel, words: Tensor, attention_mask: Tensor | None, first_position: int, **kwargs: Any
) -> BaseModelOutput:
    """Return the states of documents that are read without padding, those of equal lengths together.

    So the states of a document follow from its tokens alone. They are those that the architecture gives for a batch of
    this document.

    Args:
        inner: base model of transformers.
        words: word embeddings [B, N, E].
        attention_mask: [B, N], 1 = real token, on either side of padding; None = all real.
        first_position: of a document's first token.
        kwargs: further arguments of `inner`, such as `output_hidden_states`, or `token_type_ids` [B, N].

    Returns:
        `last_hidden_state` [B, N, D], zeros at padding, and `hidden_states`, if they are asked for. No maps of
        attention.
    """
    real = torch.ones(words.shape[:2], dtype=torch.bool, device=words.device)
    if attention_mask is not None:
        real = attention_mask.bool()
    types = kwargs.pop("token_type_ids", None)
    # In bf16 on a CPU, BigBird fails at long texts, since it adds numbers of two types.
    in_own_precision = words.device.type == "cpu" and hasattr(inner, "set_attention_type")
    lengths, places, found = real.sum(dim=1), [], []
    for tokens in sorted({*lengths.tolist()} - {0}):
        place = real & (lengths == tokens)[:, None]
        documents = words[place].unflatten(0, (-1, tokens))
        settle(inner, tokens)
        positions = torch.arange(tokens, device=words.device) + first_position
        if types is not None:
            kwargs["token_type_ids"] = types[place].unflatten(0, (-1, tokens))
        with torch.autocast("cpu", enabled=False) if in_own_precision else nullcontext():
            outputs = inner(inputs_embeds=documents, position_ids=positions.expand(len(documents), -1), **kwargs)
        states = (outputs.last_hidden_state, *(outputs.hidden_states or ()))
        places.append(place)
        found.append([each[:, :tokens].flatten(0, 1) for each in states])  # BigBird fills its last block
    if not found:
        return BaseModelOutput(last_hidden_state=words.new_zeros(*real.shape, inner.config.hidden_size))
    last, *layers = (_laid_out(places, parts) for parts in zip(*found, strict=True))
    return BaseModelOutput(last_hidden_state=last, hidden_states=tuple(layers) or None)


def settle(inner: PreTrainedModel, tokens: int) -> None:
    """Set BigBird's kind of attention for a text of `tokens` tokens.

    It uses full attention on short texts, and without this call it would do so on all later ones.
    """
    if not hasattr(inner, "set_attention_type"):
        return
    config = inner.config
    sees_all = tokens <= (5 + 2 * config.num_random_blocks) * config.block_size
    with torch.device("meta"):  # attention modules are rebuilt around their projections, without random draws
        inner.set_attention_type("original_full" if sees_all else config.attention_type)


def _laid_out(places: Sequence[Tensor], parts: Sequence[Tensor]) -> Tensor:
    """Return states [B, N, D] with the rows [L, D] at the true places [B, N], and zeros elsewhere."""
    states = parts[0].new_zeros(*places[0].shape, parts[0].shape[-1])
    for place, part in zip(places, parts, strict=True):
        states[place] = part
    return states
