"""Texts, or a column of a data frame, as tensors that a model takes: tokenised, cut and padded as the pipeline does it.

For use by hand, in a notebook for instance. Runs tokenise a corpus once and store it (`lib.tokens.tokenizing`).

Shapes: B documents, N tokens of the longest of them.
"""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import torch

from lib.core.errors import DataError
from lib.tokens.batches import pad_examples
from lib.tokens.cutting import encode_cut
from lib.tokens.tokenizer import TextTokenizer


def encode(
    texts: Sequence[str],
    tokenizer: TextTokenizer | str | Path,
    max_tokens: int,
    labels: Sequence[int] | None = None,
) -> dict[str, torch.Tensor]:
    """Return texts as the tensors that a model takes: `model(**encode(...))`.

    Args:
        texts: the texts themselves, not paths of files.
        tokenizer: of a run, or a folder that holds one, such as the model folder of a run. Texts are cut as it says
            (`cut`).
        max_tokens: tokens that a text is cut to, [CLS] and [SEP] included.
        labels: number of the class of each text; None = no labels.

    Returns:
        `input_ids` [B, N], padded on the right; `attention_mask` [B, N], 1 = real token; with labels also `labels`
        [B]. All are int64.

    Raises:
        ConfigError: `max_tokens` leaves no room for [CLS] and [SEP].
        DataError: there is no text, or a single string; a text is none, or has no token; the labels are not as many
            as the texts, or no whole numbers; the folder holds no tokeniser.

    Source:
        Section 2.2.2 of the study, whose `encode` pads all texts to `max_length` and whose mask is true at padding.
    """
    if isinstance(tokenizer, (str, Path)):
        tokenizer = TextTokenizer.load(tokenizer)
    if wrong := [number for number, text in enumerate(texts) if not isinstance(text, str)]:
        raise DataError(f"texts: number {wrong[0]} is {texts[wrong[0]]!r}. Expected a text; remove it or fill it in.")
    rows = encode_cut(tokenizer, texts, max_tokens)
    if not rows:
        raise DataError("texts: there is none. Expected at least one.")
    examples = [{"id": number, "input_ids": row} for number, row in enumerate(rows)]
    batch = pad_examples(examples, tokenizer.backend.pad_token_id)
    if labels is not None:
        classes = pd.Series(list(labels))
        if len(classes) != len(rows) or not pd.api.types.is_integer_dtype(classes) or classes.isna().any():
            raise DataError(
                f"labels: {len(classes)} of type {classes.dtype} for {len(rows)} texts. Expected one whole number per "
                "text; give the classes numbers first."
            )
        batch["labels"] = torch.tensor(classes.to_numpy(), dtype=torch.long)
    return batch


def encode_pandas(
    frame: pd.DataFrame,
    tokenizer: TextTokenizer | str | Path,
    max_tokens: int,
    text: str = "text",
    label: str | None = None,
) -> dict[str, torch.Tensor]:
    """Return the texts of a data frame as the tensors that a model takes, in the order of its rows.

    Args:
        frame: one document per row.
        tokenizer: as of `encode`.
        max_tokens: as of `encode`.
        text: column of the texts.
        label: column of the numbers of the classes; None = no labels.

    Returns:
        What `encode` returns.

    Raises:
        ConfigError: as by `encode`.
        DataError: a column is missing, or as by `encode`.
    """
    columns = [text] if label is None else [text, label]
    if missing := [name for name in columns if name not in frame.columns]:
        known = ", ".join(map(str, frame.columns))
        raise DataError(f"data frame: has no column {', '.join(missing)}. Its columns are {known}. Name one of them.")
    return encode(frame[text].tolist(), tokenizer, max_tokens, None if label is None else frame[label].tolist())
