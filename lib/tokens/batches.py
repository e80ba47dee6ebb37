"""Batches of tokenised documents: tensors with labels, in an order that is a pure function of (seed, epoch).

Shapes: B batch, N tokens, M tokens of second texts, C classes.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils.data import Sampler

from lib.core.errors import DataError
from lib.core.labels import IGNORED, LabelForm
from lib.core.randomness import derive_seed

LENGTHS = 64
"""Lengths of rounded batches are multiples of it."""

MASKS = ("attention_mask", "pair_mask")
"""What batches call the masks of their sequences, 1 = real token."""


def pad_ids(
    rows: Sequence[Sequence[int] | np.ndarray], length: int, pad_token_id: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return `rows`, padded on the right.

    Args:
        rows: token ids, none longer than `length`.
        length: N, tokens.
        pad_token_id: id of the padding.

    Returns:
        ids [B, N] and attention mask [B, N] (1 = real token), both int64.
    """
    ids = np.full((len(rows), length), pad_token_id, dtype=np.int64)
    mask = np.zeros((len(rows), length), dtype=np.int64)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = row
        mask[i, : len(row)] = 1
    return torch.from_numpy(ids), torch.from_numpy(mask)


def pad_examples(examples: Sequence[Mapping[str, Any]], pad_token_id: int) -> dict[str, torch.Tensor]:
    """Return the input tensors of a batch, as long as its longest example.

    Args:
        examples: each with `id` and `input_ids`, perhaps with `token_type_ids`, or `pair_ids`.
        pad_token_id: id of the padding.

    Returns:
        input_ids [B, N], attention_mask [B, N] and, if the examples have any, token_type_ids [B, N], 0 at padding, or
        pair_ids and pair_mask [B, M].

    Raises:
        DataError: a text has no token: attention over padding only means nothing.
    """
    if empty := [example["id"] for example in examples if not len(example["input_ids"])]:
        raise DataError(f"document(s) {empty} have no token. Remove them and tokenise again.")
    rows = [example["input_ids"] for example in examples]
    length = max(map(len, rows))
    ids, mask = pad_ids(rows, length, pad_token_id)
    batch = {"input_ids": ids, "attention_mask": mask}
    if "token_type_ids" in examples[0]:
        batch["token_type_ids"], _ = pad_ids([example["token_type_ids"] for example in examples], length, 0)
    if "pair_ids" in examples[0]:
        seconds = [{"id": example["id"], "input_ids": example["pair_ids"]} for example in examples]
        second = pad_examples(seconds, pad_token_id)
        batch |= {"pair_ids": second["input_ids"], "pair_mask": second["attention_mask"]}
    return batch


def known_beforehand(batch: Mapping[str, torch.Tensor], *, scored: bool) -> dict[str, torch.Tensor]:
    """Return a batch with facts about its tensors that a model would otherwise wait for a GPU to learn.

    Args:
        batch: of a collator, on the host.
        scored: whether labels are of tokens [B, N], and the model takes their places.

    Returns:
        The batch without the masks of which all tokens are real and, if asked for, with `scored`, the places [L] in the
        batch laid flat that have a label.
    """
    result = {name: each for name, each in batch.items() if not (name in MASKS and each.all())}
    if scored:
        result["scored"] = (batch["labels"].flatten() != IGNORED).nonzero().squeeze(1)
    return result


def rounded(batch: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return a batch with padding up to a multiple of `LENGTHS` tokens, so that few shapes occur.

    Places of labels, if they are known, are repeated up to a multiple of a 32nd of all tokens: by the place of a token
    without a label, so that they count as before. Without such a token, the batch stays as it is.

    Args:
        batch: of one text each, see `known_beforehand`, which comes before; labels are of tokens [B, N] if `scored` is
            there.
    """
    length = batch["input_ids"].shape[1]
    missing = -length % LENGTHS
    result, scored = dict(batch), "scored" in batch
    if missing:
        result.setdefault("attention_mask", torch.ones_like(batch["input_ids"]))
        padding = {"input_ids": 0, "attention_mask": 0, "token_type_ids": 0} | ({"labels": IGNORED} if scored else {})
        for name in padding.keys() & result.keys():
            result[name] = torch.nn.functional.pad(result[name], (0, missing), value=padding[name])
    if scored:
        unscored = (result["labels"].flatten() == IGNORED).nonzero()
        if not len(unscored):
            return dict(batch)
        rows = batch["scored"] // length
        places = rows * (length + missing) + batch["scored"] % length
        step = max(1, result["labels"].numel() // 32)
        result["scored"] = torch.cat([places, unscored[0].expand(-len(places) % step)])
    return result


class ClassificationCollator:
    """Makes batches of documents, pairs or labelled tokens, as long as their longest example.

    Args:
        pad_token_id: id of the padding.
        label_form: form of the labels.
        classes: number of classes C, of sets.
    """

    def __init__(self, pad_token_id: int, label_form: LabelForm = "class", *, classes: int = 0) -> None:
        self._pad_token_id = pad_token_id
        self._label_form, self._classes = label_form, classes

    def __call__(self, examples: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
        """Return input_ids [B, N], attention_mask [B, N] and labels.

        Labels are [B, N] if tokens bear them, else [B]; -100 = none, or NaN of numbers, which are in float. Those of
        sets are [B, C], in float, 1 = the document has the class. Pairs also have token_type_ids [B, N] or, if their
        texts are read separately, pair_ids and pair_mask [B, M].

        Raises:
            DataError: a text has no token.
        """
        batch = pad_examples(examples, self._pad_token_id)
        if "labels" in examples[0]:
            labels, _ = pad_ids([example["labels"] for example in examples], batch["input_ids"].shape[1], IGNORED)
            return batch | {"labels": labels}
        if self._label_form == "set":
            marks = torch.zeros(len(examples), self._classes)
            for row, example in zip(marks, examples, strict=True):
                row[torch.tensor(example["label"], dtype=torch.long)] = 1
            return batch | {"labels": marks}
        unlabelled, kind = (math.nan, torch.float32) if self._label_form == "number" else (IGNORED, torch.long)
        known = [unlabelled if example["label"] is None else example["label"] for example in examples]
        return batch | {"labels": torch.tensor(known, dtype=kind)}


class NextTokenCollator:
    """Makes batches that predict every token but the first, as long as their longest example.

    Args:
        pad_token_id: id of the padding.
    """

    def __init__(self, pad_token_id: int) -> None:
        self._pad_token_id = pad_token_id

    def __call__(self, examples: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
        """Return input_ids, attention_mask and labels, each [B, N].

        Raises:
            DataError: an example has no token.
        """
        batch = pad_examples(examples, self._pad_token_id)
        tokens = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, IGNORED)
        return batch | {"labels": at_previous(tokens)}


def at_previous(labels: torch.Tensor) -> torch.Tensor:
    """Return labels [B, N], each moved to the position before its token's; the first token has none to move to."""
    return torch.cat([labels[:, 1:], labels.new_full((len(labels), 1), IGNORED)], dim=1)


class LengthGroupedSampler(Sampler[tuple[int, int]]):
    """A new order each epoch that puts documents of similar length into a batch.

    The shuffled documents are cut into runs of `batches_per_group` batches; each run is sorted by length and cut
    into batches, and the batches of all runs are shuffled. The batch with the longest document goes first, so that
    memory that does not suffice shows at once; a batch that is not full goes last.

    Args:
        lengths: tokens of each document.
        batch_size: documents of an optimiser step (all micro-batches and devices together).
        seed: the run's seed.
        batches_per_group: batches among which documents are sorted; more saves padding, fewer keeps more chance.
    """

    def __init__(self, lengths: Sequence[int], batch_size: int, seed: int, batches_per_group: int = 50) -> None:
        self._lengths = np.asarray(lengths)
        self._batch_size = batch_size
        self._group_size = batch_size * batches_per_group
        self._seed = seed
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch whose order comes next."""
        self._epoch = epoch

    def __iter__(self) -> Iterator[tuple[int, int]]:
        epoch = self._epoch
        generator = np.random.default_rng(derive_seed("order", self._seed, epoch))
        shuffled = generator.permutation(len(self))
        whole = len(self) - len(self) % self._batch_size
        batches: list[np.ndarray] = []
        for start in range(0, whole, self._group_size):
            group = shuffled[start : min(start + self._group_size, whole)]
            group = group[np.argsort(-self._lengths[group], kind="stable")]
            batches.extend(group.reshape(-1, self._batch_size))
        batches = [batches[i] for i in generator.permutation(len(batches))]
        if batches:
            longest = max(range(len(batches)), key=lambda i: self._lengths[batches[i][0]])
            batches[0], batches[longest] = batches[longest], batches[0]
        return ((epoch, index) for index in np.concatenate([*batches, shuffled[whole:]]).tolist())

    def __len__(self) -> int:
        return len(self._lengths)


@dataclass(eq=False)
class Share(Sampler[list[tuple[int, int]]]):
    """One process's micro-batches of every batch; all processes have the same number of them.

    Documents of a batch are dealt out by length: neighbours go to different processes, whose documents are thus about
    equally long. Where a process has fewer micro-batches than another, empty ones follow.

    Args:
        sampler: order of all documents, its epoch set.
        lengths: tokens of each document.
        batch_size: documents of an optimiser step.
        budget: tokens that a process takes at once, padding included; a longer document is alone.
        index: of this process.
        count: number of processes.
        begun: batches of the epoch that are left out.
    """

    sampler: LengthGroupedSampler
    lengths: Sequence[int]
    batch_size: int
    budget: int
    index: int = 0
    count: int = 1
    begun: int = 0

    def batches(self) -> Iterator[list[list[tuple[int, int]]]]:
        """Yield the micro-batches of each batch."""
        keys = itertools.islice(self.sampler, self.begun * self.batch_size, None)
        while batch := list(itertools.islice(keys, self.batch_size)):
            batch.sort(key=lambda key: -self.lengths[key[1]])
            shares = [self._within_budget(batch[index :: self.count]) for index in range(self.count)]
            own = shares[self.index]
            yield own + [[] for _ in range(max(map(len, shares)) - len(own))]

    def __iter__(self) -> Iterator[list[tuple[int, int]]]:
        return itertools.chain.from_iterable(self.batches())

    def _within_budget(self, keys: Sequence[tuple[int, int]]) -> list[list[tuple[int, int]]]:
        lengths = [self.lengths[index] for _, index in keys]
        return [[keys[place] for place in places] for places in within_budget(lengths, self.budget)]


def within_budget(lengths: Sequence[int], budget: int) -> Iterator[range]:
    """Yield the places of consecutive documents that make a batch of at most `budget` tokens, padding included.

    A document with more tokens is a batch of its own.

    Args:
        lengths: tokens of each document; sorted, they need the least padding.
        budget: tokens.
    """
    start = longest = 0
    for place, length in enumerate(lengths):
        longest = max(longest, length)
        if place > start and (place + 1 - start) * longest > budget:
            yield range(start, place)
            start, longest = place, length
    if start < len(lengths):
        yield range(start, len(lengths))
