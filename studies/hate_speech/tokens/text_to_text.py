"""Texts that a model is to write about documents, one per class, and batches of both.

Shapes: B batch, N tokens read, T tokens written, n documents, C classes.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase

from lib.core.errors import ConfigError
from lib.core.labels import IGNORED
from lib.tokens.batches import pad_examples, pad_ids


def end_of_text(tokenizer: PreTrainedTokenizerBase) -> int:
    """Return the id of the token that ends a generated text: the end-of-text token, or else the separator (`[SEP]`).

    Raises:
        ConfigError: the tokeniser has neither.
    """
    end = tokenizer.sep_token_id if tokenizer.eos_token_id is None else tokenizer.eos_token_id
    if end is None:
        raise ConfigError(
            "tokenizer: has neither an end-of-text token nor a separator, so no written text would end. Set "
            "'eos_token' in its tokenizer_config.json."
        )
    return end


class Targets:
    """The text of each class as token ids, which end with the end of a sequence.

    Args:
        tokenizer: of the run.
        texts: of the classes, in the order of their numbers [C].

    Raises:
        ConfigError: the tokeniser has no such token, or cannot write a text, or makes the same of two.

    Attributes:
        ids: of the text of each class [C][at most T].
        end: id of the end of a sequence.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> None:
        self.end = end = end_of_text(tokenizer)
        self._tokenizer = tokenizer
        plain = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
        for text, ids in zip(texts, plain, strict=True):
            if not ids or tokenizer.unk_token_id in ids:
                raise ConfigError(
                    f"task.targets: the tokeniser cannot write {text!r}, only {self._text(ids)!r}. Choose a text of "
                    "tokens that its vocabulary has."
                )
        self.ids = [[*ids, end] for ids in plain]
        self._classes = {self._text(ids): number for number, ids in enumerate(self.ids)}
        if len(self._classes) < len(texts):
            raise ConfigError(
                f"task.targets: the tokeniser makes the same of several: {', '.join(map(repr, texts))} become "
                f"{', '.join(repr(self._text(ids)) for ids in self.ids)}. Choose texts that differ in more than case "
                "or accents."
            )

    @property
    def longest(self) -> int:
        """T: tokens of the longest one, its end included."""
        return max(map(len, self.ids))

    def labels(self, classes: Sequence[int | None]) -> torch.Tensor:
        """Return the texts of `classes` [B], padded with -100 to the length of the longest of all [B, T].

        Of a document without a class, None, there are only -100.
        """
        texts = [[] if number is None else self.ids[number] for number in classes]
        return pad_ids(texts, self.longest, IGNORED)[0]

    def read(self, written: np.ndarray) -> tuple[list[str], np.ndarray]:
        """Return the generated texts [n], and the classes of these texts [n]; -1 = none.

        Args:
            written: token ids; what follows an end or is -100 does not count [n, T].
        """
        texts = [self._text(ids) for ids in written.tolist()]
        return texts, np.array([self._classes.get(text, -1) for text in texts])

    def _text(self, ids: Sequence[int]) -> str:
        """Return the text up to the first end; other special tokens are a part of it, since no target has any."""
        kept = list(ids)[: list(ids).index(self.end)] if self.end in ids else ids
        return self._tokenizer.decode([number for number in kept if number != IGNORED]).strip()


class TextToTextCollator:
    """Makes batches of documents with a text before them, and of their target texts.

    The ids of a batch are those of the text and the document as one text, if the tokeniser ends tokens at the white
    space between them. A document was cut before, so with the text it may be longer than `max_tokens`.

    Args:
        tokenizer: tokeniser of the documents.
        prefix: text before each document; empty = none.
        targets: target texts, by class.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, prefix: str, targets: Targets) -> None:
        encoded = tokenizer(prefix, return_special_tokens_mask=True)
        is_special = [*encoded["special_tokens_mask"], 0]
        self._opening = is_special.index(0) if prefix else 0  # special tokens that every document begins with
        self._prefix = np.array(tokenizer(prefix, add_special_tokens=False)["input_ids"], dtype=np.int64)
        self._pad_token_id = tokenizer.pad_token_id
        self._targets = targets

    def __call__(self, examples: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
        """Return input_ids [B, N], attention_mask [B, N] and labels [B, T]; T is the same in all batches.

        Raises:
            DataError: an example has no token.
        """
        batch = pad_examples(
            [{**example, "input_ids": self._prefixed(example)} for example in examples], self._pad_token_id
        )
        batch["labels"] = self._targets.labels([example["label"] for example in examples])
        return batch

    def _prefixed(self, example: Mapping[str, Any]) -> np.ndarray:
        ids = np.asarray(example["input_ids"])
        return np.insert(ids, self._opening, self._prefix) if len(ids) else ids
