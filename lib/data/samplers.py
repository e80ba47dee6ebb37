"""The order of training documents: a pure function of (seed, epoch).

A sampler yields the key (epoch, index) of each document, which `lib.data.tokens.TokenDataset` understands, so that
the epoch reaches the masks even through workers that prepare batches ahead of time. Batches are consecutive runs of
`batch_size` keys; how they are cut into micro-batches, and dealt out to processes, does not change which documents
share an optimiser step.
"""

import itertools
import math
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


class Share(Sampler[tuple[int, int] | None]):
    """One process's part of every batch, so that all have the same number of micro-batches.

    Neighbours in the order go to different processes, whose documents are thus about equally long. Where there are no
    documents left, None stands for one.

    Args:
        sampler: order of all documents.
        batch_size: documents of an optimiser step.
        micro_batch: documents that a process takes at once, at most.
        index: of this process.
        count: number of processes.
    """

    def __init__(self, sampler: KeyedSampler, batch_size: int, micro_batch: int, index: int, count: int) -> None:
        self._sampler = sampler
        self._batch_size = batch_size
        self._micro_batch = micro_batch
        self._index, self._count = index, count

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch whose order comes next."""
        self._sampler.set_epoch(epoch)

    def __iter__(self) -> Iterator[tuple[int, int] | None]:
        keys = iter(self._sampler)
        while batch := list(itertools.islice(keys, self._batch_size)):
            missing = self._places(len(batch)) * self._count - len(batch)
            yield from [*batch, *[None] * missing][self._index :: self._count]

    def __len__(self) -> int:
        whole, rest = divmod(len(self._sampler), self._batch_size)
        return whole * self._places(self._batch_size) + self._places(rest)

    def _places(self, documents: int) -> int:
        """Return the places for documents, in whole micro-batches, that every process has in a batch."""
        return math.ceil(documents / (self._micro_batch * self._count)) * self._micro_batch


def micro_batch_size(batch_size: int, longest: int, micro_batch_tokens: int) -> int:
    """Return the largest divisor of `batch_size` whose documents fit into `micro_batch_tokens`, at least 1."""
    fitting = max(1, micro_batch_tokens // longest)
    return next(size for size in range(min(fitting, batch_size), 0, -1) if batch_size % size == 0)
