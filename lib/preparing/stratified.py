"""Splits of documents with several classes each, every class in all of them by the splits' sizes.

n documents; C classes; S splits.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

TRIED = 32
"""Moves that are followed by a second one, at most, where none helps by itself."""


def stratified_splits(sets: Any, sizes: Sequence[int], seed: int) -> list[np.ndarray]:
    """Return the documents of each split, in order.

    The rarest class of those that are left is dealt out first, each document to the split that still needs most of the
    class. After that, documents move, one or two at a time, as long as a class has over one too many somewhere and the
    sum of the squared excesses falls.

    Args:
        sets: classes of the documents, true or false, sparse [n, C].
        sizes: documents of each split [S], n in all.
        seed: decides the order of the documents of a class.

    Source:
        Sechidis et al. 2011, "On the Stratification of Multi-label Data", algorithm 1; the moves are ours.
    """
    documents, shares = sets.shape[0], np.asarray(sizes) / max(1, sum(sizes))
    splits = _dealt_out(sets.tocsr(), sets.tocsc(), shares, np.random.default_rng(seed))
    own = sparse.hstack([sets, np.ones((documents, 1))], format="csr").astype(float)  # the last column: their number
    excess = own.T @ (np.eye(len(shares))[splits] - shares)  # [C + 1, S]
    places = np.arange(documents)

    def gains() -> np.ndarray:
        """Return by how much each move of a document lessens the sum of squares [n, S]."""
        of_splits = own @ excess
        found = 2 * (of_splits[places, splits][:, None] - of_splits - own.getnnz(axis=1)[:, None])
        found[places, splits] = -np.inf
        return found

    def move(document: int, target: int) -> None:
        classes = own.indices[own.indptr[document] : own.indptr[document + 1]]
        excess[classes, splits[document]] -= 1
        excess[classes, target] += 1
        splits[document] = target

    def helped() -> bool:
        first = gains()
        for place in np.argsort(-first, axis=None, kind="stable")[:TRIED]:
            document, target = divmod(int(place), len(shares))
            before, gain = int(splits[document]), first[document, target]
            move(document, target)
            if gain > ROUNDING:
                return True
            second = gains()
            second[document] = -np.inf
            other, to = divmod(int(second.argmax()), len(shares))
            if gain + second[other, to] > ROUNDING:
                move(other, to)
                return True
            move(document, before)
        return False

    while np.abs(excess).max(initial=0) > 1 and helped():
        pass
    while (excess[-1] > ROUNDING).any():  # the sizes are exact
        found = gains()
        found[excess[-1][splits] < ROUNDING] = found[:, excess[-1] > -ROUNDING] = -np.inf
        move(*divmod(int(found.argmax()), len(shares)))
    return [np.flatnonzero(splits == number) for number in range(len(shares))]


ROUNDING = 1e-6
"""Gains and excesses up to that are none."""


def _dealt_out(rows: Any, columns: Any, shares: np.ndarray, draws: np.random.Generator) -> np.ndarray:
    """Return the split of each document [n] by iterative stratification."""
    left = columns.getnnz(axis=0)
    needed, room = left[:, None] * shares, rows.shape[0] * shares
    splits = np.full(rows.shape[0], -1)
    while left.any():
        label = np.where(left > 0, left, left.max() + 1).argmin()
        members = columns.indices[columns.indptr[label] : columns.indptr[label + 1]]
        for document in draws.permutation(members[splits[members] < 0]):
            split = max(range(len(shares)), key=lambda each: (needed[label, each], room[each]))
            classes = rows.indices[rows.indptr[document] : rows.indptr[document + 1]]
            needed[classes, split] -= 1
            left[classes] -= 1
            room[split] -= 1
            splits[document] = split
    for document in draws.permutation(np.flatnonzero(splits < 0)):
        splits[document] = room.argmax()
        room[splits[document]] -= 1
    return splits
