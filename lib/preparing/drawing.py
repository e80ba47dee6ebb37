"""The drawing of splits: which documents train, validate and test."""

import logging
import math
from collections.abc import Mapping, Sequence

import numpy as np
from scipy import sparse
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold, StratifiedKFold, train_test_split
from sklearn.utils import resample

from lib.core.errors import MOST_OF_VALUE, DataError, cut
from lib.preparing.folds import SPLITS
from lib.preparing.settings.preparation import Split
from lib.preparing.stratified import stratified_splits

logger = logging.getLogger(__name__)

UNLABELLED = 2**16 - 1
"""Number for the class of a document without a label; above the number of classes of any dataset."""


class SplitError(DataError):
    """Documents do not suffice for a split."""

    sizes: Mapping[str, int] = {}
    """Documents of each class that could be split."""


def assign_splits(
    labels: np.ndarray,
    names: Sequence[str],
    split: Split,
    balance: float = 0,
    held_out: np.ndarray | None = None,
    given: np.ndarray | None = None,
    sets: sparse.csr_matrix | None = None,
    together: np.ndarray | None = None,
) -> np.ndarray:
    """Return the split of every document: its place in `SPLITS`, or -1 for one that no split keeps.

    Every draw is by class, of sets by `stratified_splits`. Joined parts are split by two calls of scikit-learn's
    `train_test_split`: training from the rest, then validation from test. Of drawn folds, one tests; over all of them,
    each document is tested once.

    Args:
        labels: numbers of the classes, `[documents]`; `UNLABELLED` in a test split without labels.
        names: names of the classes.
        split: shares, seed and sizes.
        balance: cut every class to this multiple of the size of the rarest, before splitting; 0 cuts none.
        held_out: documents that give validation and test, half each, `[documents]`; the others give training. None
            splits all documents by their shares.
        given: number of the split that every document comes in, `[documents]`; None makes the splits.
        sets: classes of the documents, if they are sets, `[documents, C]`; then `labels` say nothing.
        together: values that documents of one split share, `[documents]`; None = each is drawn by itself.

    Raises:
        DataError: a class (but of sets), or a split, has too few documents, or a class has one of `together` alone.
    """
    if given is not None:
        train, validation, test = (np.flatnonzero(given == number) for number in range(len(SPLITS)))
        if split.by_date and split.by_date.validation_from is None:
            train, validation = _halves(train, labels, names, split.validation, split.seed, sets)
    elif together is not None:
        _require_two_values(labels, names, together)
        train, validation, test = _drawn_together(labels, split, together, stratified=sets is None)
    elif split.fold is not None:
        train, validation, test = _drawn_fold(labels, names, split, split.fold, sets)
    else:
        train, validation, test = _drawn_splits(labels, names, split, balance, held_out, sets)

    assignment = np.full(len(labels), -1, np.int8)
    for number, (name, chosen) in enumerate(zip(SPLITS, (train, validation, test), strict=True)):
        wanted = split.documents.get(name, len(chosen))
        if wanted > len(chosen):
            raise SplitError(f"split.documents.{name}: {wanted:,}, but there are {_by_class(labels[chosen], names)}")
        if wanted < len(chosen) and sets is not None:
            chosen = chosen[stratified_splits(sets[chosen], [wanted, len(chosen) - wanted], split.seed)[0]]
        elif wanted < len(chosen):
            chosen = resample(chosen, replace=False, n_samples=wanted, stratify=labels[chosen], random_state=split.seed)
        if sets is not None:
            if not sets[chosen].nnz and (split.test_labels or name != "test"):
                raise SplitError(f"{name}: none of its {len(chosen):,} documents has a label. Check 'label_set'.")
        elif name == "train" or (given is None and together is None):
            by = f"by split.{split.kept} " if split.kept else ""
            _require_every_class(labels[chosen], names, f"{by}in {name}", needed=1)
        elif not len(chosen):
            raise DataError(f"split.{split.given or 'by'}: {name} has no document left. Expected at least one.")
        elif (absent := np.setdiff1d(range(len(names)), labels[chosen])).size and (split.test_labels or name != "test"):
            logger.warning("%s: has no document of the classes %s", name, ", ".join(names[n] for n in absent))
        assignment[chosen] = number
    return assignment


def _drawn_together(
    labels: np.ndarray, split: Split, together: np.ndarray, *, stratified: bool
) -> Sequence[np.ndarray]:
    """Return the documents of training, validation and test, where those with one value are in one split.

    Test is a fold of all, and validation one of the others.
    """
    kind, rest, found = StratifiedGroupKFold if stratified else GroupKFold, np.arange(len(labels)), list[np.ndarray]()
    for share, number in ((split.test_share, split.fold or 1), (split.validation / (1 - split.test_share), 1)):
        values, folds = len(np.unique(together[rest])), max(2, round(1 / share))
        try:
            if values < (2 if found else split.drawn_folds or 2):
                raise ValueError("each needs one at least")
            draw = kind(min(folds, values), shuffle=True, random_state=split.seed)
            others, fold = list(draw.split(rest, labels[rest], together[rest]))[number - 1]
        except ValueError as error:
            few = f"{values:,} values are too few for a share of {share:.2g} in {'validation' if found else 'test'}"
            raise SplitError(f"split.by: {few} ({error}).") from error
        found.append(rest[fold])
        rest = rest[others]
    return rest, found[1], found[0]


def _drawn_fold(
    labels: np.ndarray, names: Sequence[str], split: Split, number: int, sets: sparse.csr_matrix | None
) -> list[np.ndarray]:
    """Return the documents of training, validation and test, which is the fold of this number, from 1."""
    documents = np.arange(len(labels))
    _require_every_class(labels, names, f"for {split.drawn_folds} folds", needed=split.drawn_folds)
    if sets is None:
        draw = StratifiedKFold(split.drawn_folds, shuffle=True, random_state=split.seed)
        folds = [fold for _, fold in draw.split(documents, labels)]
    else:
        folds = stratified_splits(sets, [*map(len, np.array_split(documents, split.drawn_folds))], split.seed)
    test = folds[number - 1]
    share = split.validation / (1 - split.test_share)
    return [*_halves(np.delete(documents, test), labels, names, share, split.seed, sets), test]


def _drawn_splits(
    labels: np.ndarray,
    names: Sequence[str],
    split: Split,
    balance: float,
    held_out: np.ndarray | None,
    sets: sparse.csr_matrix | None,
) -> list[np.ndarray]:
    """Return the documents of training, validation and test, drawn by class."""
    everything = np.arange(len(labels))
    groups = [everything] if held_out is None else [everything[~held_out], everything[held_out]]
    for group in groups:
        _require_every_class(labels[group], names, "to split", needed=3 if held_out is None else 1)
    if balance:
        groups = [_balanced(group, labels, split.seed, balance) for group in groups]
    if held_out is None:
        train, rest = _halves(groups[0], labels, names, round(split.validation + split.test, 12), split.seed, sets)
        test_share = split.test / (split.validation + split.test)
    else:
        train, rest = groups
        test_share = 0.5
    return [train, *_halves(rest, labels, names, test_share, split.seed, sets)]


def _balanced(group: np.ndarray, labels: np.ndarray, seed: int, ratio: float) -> np.ndarray:
    members = [group[labels[group] == label] for label in np.unique(labels[group])]
    most = int(round(ratio * min(map(len, members)), 9))
    drawn = [resample(m, replace=False, n_samples=min(most, len(m)), random_state=seed) for m in members]
    return np.sort(np.concatenate(drawn))


def _halves(
    group: np.ndarray,
    labels: np.ndarray,
    names: Sequence[str],
    second_share: float,
    seed: int,
    sets: sparse.csr_matrix | None,
) -> list[np.ndarray]:
    try:
        size = math.ceil(round(second_share * len(group), 9))  # scikit-learn takes 15 of 100 for a share of 0.07 + 0.07
        if sets is not None:
            return [group[each] for each in stratified_splits(sets[group], [len(group) - size, size], seed)]
        return train_test_split(group, test_size=size, stratify=labels[group], random_state=seed)
    except ValueError as error:
        found = _by_class(labels[group], names)
        raise SplitError(f"{found} are too few to split by class, at a share of {second_share:g}.") from error


def _require_every_class(labels: np.ndarray, names: Sequence[str], where: str, needed: int) -> None:
    if np.bincount(labels, minlength=len(names)).min() < needed:
        found = _by_class(labels, names)
        raise SplitError(f"too few documents {where}: {found}; expected at least {needed} of every class.")


def _require_two_values(labels: np.ndarray, names: Sequence[str], together: np.ndarray) -> None:
    for number, name in enumerate(names):
        values = np.unique(together[labels == number])
        if len(values) == 1 < len(np.unique(together)):
            value, size = cut(repr(values[0]), MOST_OF_VALUE), (labels == number).sum()
            has = f"all {size:,} documents of the class '{name}' have {value}, so it cannot be both learnt and tested"
            raise SplitError(f"split.by: {has}. Leave the class out (values), or name another column.")


def _by_class(labels: np.ndarray, names: Sequence[str]) -> str:
    return ", ".join(f"{name}: {count:,}" for name, count in class_counts(labels, names).items())


def class_counts(labels: np.ndarray, names: Sequence[str]) -> dict[str, int]:
    """Return how many documents of each class there are; those without a label count to none.

    Args:
        labels: numbers of the classes, or `UNLABELLED`, `[documents]`.
        names: names of the classes.
    """
    labels = labels[labels != UNLABELLED]
    return dict(zip(names, np.bincount(labels, minlength=len(names)).tolist(), strict=True))
