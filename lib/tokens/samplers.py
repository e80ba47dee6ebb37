"""The order of training documents, a pure function of (seed, epoch), and their micro-batches.

A sampler yields the key (epoch, index) of each document, which `lib.tokens.stored.TokenDataset` understands, so that
the epoch reaches the masks even through workers that prepare batches ahead of time. Batches are consecutive runs of
`batch_size` keys; how they are cut into micro-batches, and dealt out to processes, does not change which documents
share an optimiser step.
"""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
from torch.utils.data import Sampler

from lib.core.randomness import derive_seed


class KeyedSampler(Sampler[tuple[int, int]]):
    """A new shuffle each epoch.

    Args:
        size: documents.
        seed: the run's seed.
    """

    def __init__(self, size: int, seed: int) -> None:
        self._size = size
        self._seed = seed
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch whose order comes next."""
        self._epoch = epoch

    def order(self, generator: np.random.Generator) -> np.ndarray:
        """Return the documents' indices [size] in the order that `generator` draws."""
        return generator.permutation(self._size)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        generator = np.random.default_rng(derive_seed("order", self._seed, self._epoch))
        epoch = self._epoch
        return ((epoch, index) for index in self.order(generator).tolist())

    def __len__(self) -> int:
        return self._size


class LengthGroupedSampler(KeyedSampler):
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
        super().__init__(len(lengths), seed)
        self._lengths = np.asarray(lengths)
        self._batch_size = batch_size
        self._group_size = batch_size * batches_per_group

    def order(self, generator: np.random.Generator) -> np.ndarray:
        """Return the documents' indices [size] in the order that `generator` draws."""
        shuffled = super().order(generator)
        whole = self._size - self._size % self._batch_size
        batches: list[np.ndarray] = []
        for start in range(0, whole, self._group_size):
            group = shuffled[start : min(start + self._group_size, whole)]
            group = group[np.argsort(-self._lengths[group], kind="stable")]
            batches.extend(group.reshape(-1, self._batch_size))
        batches = [batches[i] for i in generator.permutation(len(batches))]
        if batches:
            longest = max(range(len(batches)), key=lambda i: self._lengths[batches[i][0]])
            batches[0], batches[longest] = batches[longest], batches[0]
        return np.concatenate([*batches, shuffled[whole:]])


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

    def __init__(
        self,
        sampler: KeyedSampler,
        lengths: Sequence[int],
        batch_size: int,
        budget: int,
        *,
        index: int = 0,
        count: int = 1,
        begun: int = 0,
    ) -> None:
        self._sampler = sampler
        self._lengths = lengths
        self._batch_size = batch_size
        self._budget = budget
        self._index, self._count, self._begun = index, count, begun

    def batches(self) -> Iterator[list[list[tuple[int, int]]]]:
        """Yield the micro-batches of each batch."""
        keys = itertools.islice(self._sampler, self._begun * self._batch_size, None)
        while batch := list(itertools.islice(keys, self._batch_size)):
            batch.sort(key=lambda key: -self._lengths[key[1]])
            shares = [self._within_budget(batch[index :: self._count]) for index in range(self._count)]
            own = shares[self._index]
            yield own + [[] for _ in range(max(map(len, shares)) - len(own))]

    def __iter__(self) -> Iterator[list[tuple[int, int]]]:
        return itertools.chain.from_iterable(self.batches())

    def _within_budget(self, keys: Sequence[tuple[int, int]]) -> list[list[tuple[int, int]]]:
        lengths = [self._lengths[index] for _, index in keys]
        return [[keys[place] for place in places] for places in within_budget(lengths, self._budget)]


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
