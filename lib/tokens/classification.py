"""Batches of labelled documents.

Shapes: B batch, N tokens, M tokens of second texts, C classes.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch

from lib.core.labels import IGNORED
from lib.tokens.padding import pad_examples, pad_ids


class ClassificationCollator:
    """Makes batches of classification, as long as their longest example.

    Args:
        pad_token_id: id of the padding.
    """

    unlabelled: ClassVar[float] = IGNORED
    """Label of an example that has none."""
    label_type: ClassVar[torch.dtype] = torch.long

    def __init__(self, pad_token_id: int) -> None:
        self._pad_token_id = pad_token_id

    def __call__(self, examples: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
        """Return input_ids [B, N], attention_mask [B, N] and labels [B], -100 = none; of pairs also token_type_ids.

        Raises:
            DataError: an example has no token.
        """
        batch = pad_examples(examples, self._pad_token_id)
        labels = [self.unlabelled if example["label"] is None else example["label"] for example in examples]
        batch["labels"] = torch.tensor(labels, dtype=self.label_type)
        return batch


class PairCollator(ClassificationCollator):
    """Makes batches of pairs whose texts are read separately; arguments as of `ClassificationCollator`."""

    def __call__(self, examples: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
        """Return what `ClassificationCollator` does of first texts, and of second ones pair_ids, pair_mask [B, M].

        Raises:
            DataError: a text has no token.
        """
        seconds = [{"id": example["id"], "input_ids": example["pair_ids"]} for example in examples]
        second = pad_examples(seconds, self._pad_token_id)
        named = {"pair_ids": second["input_ids"], "pair_mask": second["attention_mask"]}
        return super().__call__(examples) | named


class RegressionCollator(ClassificationCollator):
    """Makes batches of documents whose labels are numbers, in float, NaN = none; else as `ClassificationCollator`."""

    unlabelled: ClassVar[float] = math.nan
    label_type: ClassVar[torch.dtype] = torch.float32


class TaughtCollator(ClassificationCollator):
    """Makes batches of classification with a teacher's scores; arguments as above."""

    def __call__(self, examples: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
        """Return what `ClassificationCollator` returns and, of training documents, teacher_logits [B, C].

        Raises:
            DataError: an example has no token.
        """
        batch = super().__call__(examples)
        if "teacher_logits" in examples[0]:
            batch["teacher_logits"] = torch.tensor(np.stack([example["teacher_logits"] for example in examples]))
        return batch


class TokenClassificationCollator(ClassificationCollator):
    """Makes batches of the classification of tokens; arguments as of `ClassificationCollator`."""

    def __call__(self, examples: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
        """Return input_ids, attention_mask and labels, each [B, N]; padding has no label (-100).

        Raises:
            DataError: an example has no token.
        """
        batch = pad_examples(examples, self._pad_token_id)
        batch["labels"], _ = pad_ids([example["labels"] for example in examples], batch["input_ids"].shape[1], IGNORED)
        return batch
