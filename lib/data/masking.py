"""Masked language modelling: which tokens of a document are predicted, and what stands in their place.

Shapes: B batch, N tokens.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase

from lib.core.randomness import derive_seed
from lib.data.labels import IGNORED
from lib.data.next_token import at_previous
from lib.data.padding import pad_examples, pad_ids


@dataclass(frozen=True)
class TokenMasker:
    """Draws masks as a pure function of seed, epoch and example.

    Every ordinary (not special) token is chosen independently with `mask_probability`. Should none be, as happens
    in short documents, one is drawn, so that every document with an ordinary token has something to predict. A
    chosen token becomes [MASK], or a random ordinary token of the vocabulary, or stays, by the other shares.

    Attributes:
        mask_token_id: id of [MASK].
        is_special: [V], true for special tokens, [UNK] among them.
        replacements: ids from which random tokens are drawn: neither special nor BERT's `[unused...]`.
        seed: the run's seed.
        mask_probability: share of the ordinary tokens that are predicted.
        mask_token_probability: of those, the share replaced by [MASK].
        random_token_probability: of those, the share replaced by a random token.

    Source: Devlin et al., BERT (2019), section 3.1; there a document's choices are fixed, here each epoch's are new.
    """

    mask_token_id: int
    is_special: np.ndarray
    replacements: np.ndarray
    seed: int
    mask_probability: float = 0.15
    mask_token_probability: float = 0.8
    random_token_probability: float = 0.1

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase, *, seed: int, **shares: float) -> "TokenMasker":
        """Return the masker for the vocabulary of `tokenizer`; `shares` are the three probabilities."""
        vocabulary = tokenizer.get_vocab()
        is_special = np.zeros(max(vocabulary.values()) + 1, dtype=bool)
        is_special[tokenizer.all_special_ids] = True
        replacements = sorted(
            i for token, i in vocabulary.items() if not is_special[i] and not token.startswith("[unused")
        )
        return cls(tokenizer.mask_token_id, is_special, np.array(replacements), seed, **shares)

    def __call__(self, input_ids: np.ndarray, epoch: int | str, example: int) -> tuple[np.ndarray, np.ndarray]:
        """Return masked ids [N] and labels [N], `IGNORED` where nothing is predicted.

        Args:
            input_ids: [N], integers.
            epoch: epoch, or a word for draws outside training.
            example: index of the document in its split.
        """
        masked = np.asarray(input_ids, dtype=np.int64)
        candidates = np.flatnonzero(~self.is_special[masked])
        labels = np.full_like(masked, IGNORED)
        if not candidates.size:
            return masked, labels
        generator = np.random.default_rng(derive_seed("mlm", self.seed, epoch, example))
        chance, action, token = generator.random((3, candidates.size))
        chosen = chance < self.mask_probability
        if not chosen.any():
            chosen[chance.argmin()] = True
        action, token, position = action[chosen], token[chosen], candidates[chosen]
        labels[position] = masked[position]
        hidden = action < self.mask_token_probability
        replaced = ~hidden & (action < self.mask_token_probability + self.random_token_probability)
        masked = masked.copy()
        masked[position[hidden]] = self.mask_token_id
        masked[position[replaced]] = self.replacements[(token[replaced] * self.replacements.size).astype(np.int64)]
        return masked, labels


class MlmCollator:
    """Makes batches of masked language modelling, as long as their longest example.

    Args:
        masker: draws the masks by each example's `epoch` and `index`.
        pad_token_id: id of the padding.
        at_previous: whether a token is predicted at the position before its own.
    """

    def __init__(self, masker: TokenMasker, pad_token_id: int, *, at_previous: bool = False) -> None:
        self._masker = masker
        self._pad_token_id = pad_token_id
        self._at_previous = at_previous

    def __call__(self, examples: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
        """Return input_ids, attention_mask and labels, each [B, N].

        Raises:
            DataError: an example has no token.
        """
        batch = pad_examples(examples, self._pad_token_id)
        pairs = [self._masker(e["input_ids"], e["epoch"], e["index"]) for e in examples]
        masked, labels = zip(*pairs, strict=True)
        length = batch["input_ids"].shape[1]
        batch["input_ids"], _ = pad_ids(masked, length, self._pad_token_id)
        padded, _ = pad_ids(labels, length, IGNORED)
        batch["labels"] = at_previous(padded) if self._at_previous else padded
        return batch
