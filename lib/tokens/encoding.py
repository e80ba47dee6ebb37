"""Texts as tensors that a model takes: tokenised, cut and padded as the pipeline does it.

For use by hand, in a notebook for instance. Runs tokenise a corpus once and store it (`lib.tokens.tokenizing`).

Shapes: B documents, N tokens of the longest of them.
"""

from collections.abc import Iterable
from pathlib import Path

import torch

from lib.core.errors import DataError
from lib.tokens.batches import pad_examples
from lib.tokens.cutting import encode_cut
from lib.tokens.tokenizer import TextTokenizer, require_several


def encode(
    texts: Iterable[str], tokenizer: TextTokenizer | str | Path, max_tokens: int, labels: Iterable[int] | None = None
) -> dict[str, torch.Tensor]:
    """Return texts as the tensors that a model takes: `model(**encode(...))`.

    Args:
        texts: the texts themselves, not paths of files; a column of a data frame, for instance.
        tokenizer: of a run, or a folder that holds one, such as the model folder of a run. Texts are cut as it says
            (`cut`).
        max_tokens: tokens that a text is cut to, [CLS] and [SEP] included.
        labels: number of the class of each text; None = no labels.

    Returns:
        `input_ids` [B, N], padded on the right; `attention_mask` [B, N], 1 = real token; with labels also `labels`
        [B]. All are int64.

    Raises:
        ConfigError: `max_tokens` leaves no room for [CLS] and [SEP].
        DataError: the texts are a single string; one is none, or has no token; the labels are not as many as the
            texts, or no whole numbers; the folder holds no tokeniser.

    Source:
        Section 2.2.2 of the study, whose `encode` pads all texts to `max_length` and whose mask is true at padding.
    """
    if not isinstance(tokenizer, TextTokenizer):
        tokenizer = TextTokenizer.load(tokenizer)
    require_several(texts)
    texts = list(texts)
    if wrong := [number for number, text in enumerate(texts) if not isinstance(text, str)]:
        raise DataError(f"texts: number {wrong[0]} is {texts[wrong[0]]!r}. Expected a text; remove it or fill it in.")
    rows = encode_cut(tokenizer, texts, max_tokens)
    examples = [{"id": number, "input_ids": row} for number, row in enumerate(rows)]
    batch = pad_examples(examples, tokenizer.backend.pad_token_id)
    if labels is not None:
        batch["labels"] = torch.tensor(list(labels))
        if batch["labels"].dtype != torch.long or len(batch["labels"]) != len(rows):
            raise DataError(f"labels: {batch['labels']} for {len(rows)} texts. Expected one whole number per text.")
    return batch
