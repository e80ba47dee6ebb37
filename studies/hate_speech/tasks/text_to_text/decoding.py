"""Two ways to get a class from a generative model: the likelihood of each text, and the generated text.

transformers' `generate` writes the same tokens (a test compares them), but it needs a model with `GenerationMixin`, its
cache and a generation configuration, more code than the loop here, and does not compute the likelihood of a given text.

Shapes: B batch, N tokens read, T tokens written, C classes.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import PreTrainedModel

from lib.core.labels import IGNORED


@torch.no_grad()
def log_likelihoods(
    model: PreTrainedModel, input_ids: Tensor, attention_mask: Tensor | None, targets: Sequence[Sequence[int]]
) -> Tensor:
    """Return the log-likelihood of each target, including its end [B, C], in nats.

    The encoder reads a document once.

    Args:
        model: model that generates texts.
        input_ids: [B, N].
        attention_mask: [B, N], 1 = real token; None = all real.
        targets: token ids of the text of each class, its end included [C].
    """
    states: Tensor | None = None
    found = []
    for target in targets:
        labels = torch.tensor(target, device=input_ids.device).expand(len(input_ids), -1)
        outputs = model(input_ids, attention_mask, labels=labels, encoder_last_hidden_state=states)
        states = outputs.encoder_last_hidden_state
        found.append(outputs.logits.log_softmax(dim=-1).gather(2, labels[:, :, None]).sum(dim=(1, 2)))
    return torch.stack(found, dim=1)


@torch.no_grad()
def write(
    model: PreTrainedModel, input_ids: Tensor, attention_mask: Tensor | None, *, longest: int, end: int
) -> Tensor:
    """Return the tokens from greedy decoding [B, T]; -100 after the end.

    Args:
        model: model that generates texts.
        input_ids: [B, N].
        attention_mask: [B, N], 1 = real token; None = all real.
        longest: most tokens to write, T.
        end: id of the token after which nothing is written.
    """
    written = input_ids.new_full((len(input_ids), longest), IGNORED)
    last = input_ids.new_full((len(input_ids), 1), model.config.start_token_id)
    is_over = torch.zeros_like(last, dtype=torch.bool)
    states, cache = None, None
    for place in range(longest):
        outputs = model(
            input_ids,
            attention_mask,
            decoder_input_ids=last,
            encoder_last_hidden_state=states,
            past_key_values=cache,
            use_cache=True,
        )
        states, cache = outputs.encoder_last_hidden_state, outputs.past_key_values
        last = outputs.logits[:, -1:].argmax(dim=-1)
        written[:, place : place + 1] = last.masked_fill(is_over, IGNORED)
        is_over |= last == end
        if is_over.all():
            break
    return written
