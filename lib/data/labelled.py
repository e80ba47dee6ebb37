"""The labelled datasets: raw files to training, validation and test documents.

Two passes, so that memory does not grow with the texts: the first reads, cleans and drops, writes what remains aside
and keeps a few numbers per document; the second hands the documents to their splits, in the order read (training
shuffles for itself).
"""

import contextlib
import hashlib
import itertools
import logging
import re
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from sklearn.model_selection import train_test_split
from sklearn.utils import resample

from lib.core.errors import ConfigError, DataError
from lib.core.files import atomic_path, write_json
from lib.data.folds import SPLITS, FoldSplits
from lib.data.labels import IGNORED, words
from lib.data.parts import PartWriter, part_schema
from lib.data.readers import read_records
from lib.data.settings.preparation import Preparation, Split
from lib.data.spans import marked

logger = logging.getLogger(__name__)

SUMMARY = "summary.json"

UNLABELLED = 2**16 - 1
"""Number for the class of a document without a label; above the number of classes of any dataset."""

_NO_NUMBER = "-0"
"""A spelling that is the number of another one, so that the reader takes no number for a class but those listed."""


def prepare_dataset(
    files: Mapping[str, Sequence[str | Path]],
    target: str | Path,
    settings: Preparation,
    ground_truth: Mapping[str, Sequence[str | Path]] | None = None,
) -> None:
    """Read, clean, drop, balance and split a dataset.

    Writes `train.parquet`, `validation.parquet`, `test.parquet` (`id`, `text`, `label` and, if asked for, `group` and
    `text_pair`) and `summary.json` (documents read, dropped and kept by part, split and class, or the words or
    characters where these are labelled; duplicate texts, or pairs of them, which are reported and never removed). The
    same arguments give the same files.

    Args:
        files: raw files by part.
        target: folder to appear, whole or not at all.
        settings: what to keep, and how to split it.
        ground_truth: ground-truth XML files by part.

    Raises:
        ConfigError: `split.join` names a part that there is not.
        DataError: a file cannot be read or holds something unexpected, a document has more or fewer labels than words,
            folds and documents do not match, or there are too few documents for the split.
    """
    split = settings.split
    halve = split.held_out in files and len(files) > 1
    parts = list(files) if halve or split.join is None else split.join
    if split.published and set(files) != set(SPLITS):
        raise ConfigError(
            f"split.published: expected the parts {list(SPLITS)}, but the source has {list(files)}. Name its parts so, "
            "or set it to false to split them by class."
        )
    if split.published:
        parts = list(SPLITS)
    if absent := [part for part in parts if part not in files]:
        raise ConfigError(
            f"split.join: names the parts {absent}, but the source has {list(files)}. Name only those, or set it to "
            "null to join all."
        )
    with atomic_path(target) as folder:
        folder.mkdir()
        candidates = folder / "candidates.parquet"
        index = _collect({part: files[part] for part in parts}, ground_truth, settings, candidates)
        held_out = np.array([part == split.held_out for part in parts])[index.parts] if halve else None
        given = {"published": index.parts, "folds": index.folds, None: None}[split.given]  # the numbers of the splits
        assignment = assign_splits(index.labels, settings.classes, split, settings.balance, held_out, given)
        distribute(candidates, assignment, folder)
        candidates.unlink()
        write_json(folder / SUMMARY, _summarise(index, assignment))


class Index:
    """Data for the second pass about every document that the first one kept.

    Args:
        names: names of the classes.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._parts = array("H")
        self._labels = array("H")
        self._texts = array("Q")
        self._folds = array("H")
        self._items_of_class = array("I")
        self.counts: dict[str, dict[str, Any]] = {}

    def add(
        self,
        part: int,
        label: float | list[Any] | None,
        text: str,
        split_of_fold: int = 0,
        label_per: str = "document",
        text_pair: str | None = None,
    ) -> None:
        """Note a document.

        Args:
            part: number of its part.
            label: number of its class, or those of its words, or spans, or a number that is no class; None = it has
                none.
            text: text; only a digest of it is kept.
            split_of_fold: number of the split of its fold.
            label_per: what bears a label.
            text_pair: its second text, which the digest covers as well; None = it is a single text.
        """
        self._parts.append(part)
        self._folds.append(split_of_fold)
        self._labels.append(UNLABELLED if label is None else label if isinstance(label, int) else 0)
        if label_per != "document":
            items = [] if not isinstance(label, list) else label if label_per == "word" else marked(label, len(text))
            counts = Counter(map(int, items))
            self._items_of_class.extend(counts[number] for number in range(len(self._names)))
        # The length tells where the second text begins, so that no two pairs are alike that differ in this alone.
        whole = text if text_pair is None else f"{len(text)} {text}{text_pair}"
        digest = hashlib.blake2b(whole.encode(), digest_size=8).digest()
        self._texts.append(int.from_bytes(digest, "little"))

    @property
    def parts(self) -> np.ndarray:
        """Number of the part, `[documents]`."""
        return np.frombuffer(self._parts, np.uint16)

    @property
    def labels(self) -> np.ndarray:
        """Number of the class, `[documents]`; 0 where words, spans or numbers are the labels, `UNLABELLED` = none."""
        return np.frombuffer(self._labels, np.uint16)

    @property
    def folds(self) -> np.ndarray:
        """Number of the split of the fold, `[documents]`; 0 without folds."""
        return np.frombuffer(self._folds, np.uint16)

    def class_counts(self, chosen: np.ndarray) -> dict[str, int]:
        """Return how many of the chosen documents, or of their words or characters where these have it, each class has.

        Documents without a label count to no class.

        Args:
            chosen: true for a chosen document, `[documents]`.
        """
        if not self._items_of_class:
            return _class_counts(self.labels[chosen], self._names)
        counts = np.frombuffer(self._items_of_class, np.uintc).reshape(-1, len(self._names))
        return dict(zip(self._names, counts[chosen].sum(axis=0).tolist(), strict=True))

    @property
    def texts(self) -> np.ndarray:
        """Digest of the text, `[documents]`."""
        return np.frombuffer(self._texts, np.uint64)


def _collect(
    files: Mapping[str, Sequence[str | Path]],
    ground_truth: Mapping[str, Sequence[str | Path]] | None,
    settings: Preparation,
    candidates: Path,
) -> Index:
    """Write the documents that are neither empty nor too short to `candidates`, and return their index."""
    index = Index(settings.labels or settings.classes)
    index.counts = {
        part: {"files": [Path(path).name for path in paths], "read": 0, "unlabelled": 0, "empty": 0, "short": 0}
        for part, paths in files.items()
    }
    numbers = {part: number for number, part in enumerate(files)}
    remove = re.compile(settings.remove) if settings.remove is not None else None
    folds = settings.split.folds
    splits = None if folds is None else FoldSplits(folds)
    spellings, meanings = _spellings(settings)
    records = read_records(
        files,
        text=settings.text,
        id=settings.id,
        label=settings.label,
        labels=spellings,
        label_per=settings.label_per,
        group=settings.group,
        fold=None if folds is None or folds.file is not None else folds.column,
        ground_truth=ground_truth,
        text_pair=settings.text_pair,
        label_range=settings.label_range,
        unlabelled=_unlabelled(settings.split),
    )
    schema = part_schema(
        label_per=settings.label_per,
        grouped=settings.group is not None,
        paired=settings.text_pair is not None,
        numbers=settings.label_range is not None,
    )
    with PartWriter(candidates, schema) as writer:
        for record in records:
            texts = [text for text in (record.text, record.text_pair) if text is not None]
            text, *second = texts if remove is None else [remove.sub("", text) for text in texts]
            counts = index.counts[record.part]
            counts["read"] += 1
            where = f"{record.part}, document {record.id!r}"
            split = 0 if splits is None else splits.split(record.id, record.fold, where)
            label = _meant(record.label, meanings) if settings.values and record.label is not None else record.label
            if label is None and record.part not in _unlabelled(settings.split):
                counts["unlabelled"] += 1
            elif any(not each or each.isspace() for each in (text, *second)):
                counts["empty"] += 1
            elif min(map(len, (text, *second))) < settings.min_chars:
                counts["short"] += 1
            else:
                per = settings.label_per
                if per == "word" and isinstance(label, list) and len(label) != (found := len(words(text))):
                    raise DataError(
                        f"{where}: has {len(label)} labels for {found} words. Expected an entry per word, as white "
                        "space separates them after 'remove' (null = no label). Repair the file, or set 'label_per' to "
                        "document."
                    )
                writer.write(record.id, text, label, *([] if record.group is None else [record.group]), *second)
                index.add(numbers[record.part], label, text, split, per, *second)
    if splits is not None:
        splits.check_spent()
    for part, counts in index.counts.items():
        if counts["empty"]:
            what = "text" if settings.text_pair is None else "one of their texts"
            logger.warning("%s: dropped %d documents without %s", part, counts["empty"], what)
        logger.info(
            "%s: read %d, dropped %d without a label and %d below min_chars",
            part,
            *(counts[name] for name in ("read", "unlabelled", "short")),
        )
    return index


def _unlabelled(split: Split) -> tuple[str, ...]:
    """Return the parts whose documents have no label."""
    return () if split.test_labels else ("test",)


def _spellings(settings: Preparation) -> tuple[list[str], list[int | None]]:
    """Return all spellings of labels, and the number of the class of each; None = no label."""
    names = settings.labels
    numbers: dict[str | None, int] = {name: number for number, name in enumerate(names)}
    others = {value: name for value, name in settings.values.items() if value not in numbers}
    if not others:
        return names, list(range(len(names)))
    meanings = [*range(len(names)), *map(numbers.get, others.values()), None]
    return [*names, *others, _NO_NUMBER], meanings


def _meant(label: Any, meanings: Sequence[int | None]) -> int | list[int] | None:
    """Return the class of a spelling, or those of words."""
    if not isinstance(label, list):
        return meanings[label]
    classes = [None if number == IGNORED else meanings[number] for number in label]
    return [IGNORED if number is None else number for number in classes]


def assign_splits(
    labels: np.ndarray,
    names: Sequence[str],
    split: Split,
    balance: float = 0,
    held_out: np.ndarray | None = None,
    given: np.ndarray | None = None,
) -> np.ndarray:
    """Return the split of every document: its place in `SPLITS`, or -1 for one that no split keeps.

    Every draw is by class. Joined parts are split by two calls of scikit-learn's `train_test_split`: training from the
    rest, then validation from test.

    Args:
        labels: numbers of the classes, `[documents]`; `UNLABELLED` in a test split without labels.
        names: names of the classes.
        split: shares, seed and sizes.
        balance: cut every class to this multiple of the size of the rarest, before splitting; 0 cuts none.
        held_out: documents that give validation and test, half each, `[documents]`; the others give training. None
            splits all documents by their shares.
        given: number of the split that every document comes in, `[documents]`; None makes the splits.

    Raises:
        DataError: a class, or a split, has too few documents.
    """
    if given is not None:
        train, validation, test = (np.flatnonzero(given == number) for number in range(len(SPLITS)))
    else:
        train, validation, test = _drawn_splits(labels, names, split, balance, held_out)

    assignment = np.full(len(labels), -1, np.int8)
    for number, (name, chosen) in enumerate(zip(SPLITS, (train, validation, test), strict=True)):
        wanted = split.documents.get(name, len(chosen))
        if wanted > len(chosen):
            raise DataError(
                f"split.documents.{name}: asks for {wanted:,} documents, but there are {len(chosen):,} "
                f"({_by_class(labels[chosen], names)}). Lower it, or lower min_chars."
            )
        if wanted < len(chosen):
            chosen = resample(chosen, replace=False, n_samples=wanted, stratify=labels[chosen], random_state=split.seed)
        if split.test_labels or name != "test":
            _require_every_class(labels[chosen], names, f"in {name}", needed=1)
        elif not len(chosen):
            raise DataError("split.test_labels: the part test has no document left. Expected one at least; name more.")
        assignment[chosen] = number
    return assignment


def _drawn_splits(
    labels: np.ndarray, names: Sequence[str], split: Split, balance: float, held_out: np.ndarray | None
) -> list[np.ndarray]:
    """Return the documents of training, validation and test, drawn by class."""
    everything = np.arange(len(labels))
    groups = [everything] if held_out is None else [everything[~held_out], everything[held_out]]
    for group in groups:
        _require_every_class(labels[group], names, "to split", needed=3 if held_out is None else 1)
    if balance:
        groups = [_balanced(group, labels, split.seed, balance) for group in groups]
    if held_out is None:
        rest_share = round(split.validation + split.test, 12)
        train, rest = _halves(groups[0], labels, names, rest_share, split.seed)
        test_share = split.test / (split.validation + split.test)
    else:
        train, rest = groups
        test_share = 0.5
    return [train, *_halves(rest, labels, names, test_share, split.seed)]


def _balanced(group: np.ndarray, labels: np.ndarray, seed: int, ratio: float) -> np.ndarray:
    members = [group[labels[group] == label] for label in np.unique(labels[group])]
    most = int(ratio * min(map(len, members)))
    drawn = [resample(m, replace=False, n_samples=min(most, len(m)), random_state=seed) for m in members]
    return np.sort(np.concatenate(drawn))


def _halves(
    group: np.ndarray, labels: np.ndarray, names: Sequence[str], second_share: float, seed: int
) -> list[np.ndarray]:
    try:
        return train_test_split(group, test_size=second_share, stratify=labels[group], random_state=seed)
    except ValueError as error:
        raise DataError(
            f"{len(group)} documents ({_by_class(labels[group], names)}) are too few to split by class ({error}). "
            "Add documents, lower min_chars, or raise the shares split.validation and split.test."
        ) from error


def _require_every_class(labels: np.ndarray, names: Sequence[str], where: str, needed: int) -> None:
    if np.bincount(labels, minlength=len(names)).min() < needed:
        raise DataError(
            f"too few documents {where}: {_by_class(labels, names)}; expected at least {needed} of every class. Add "
            "documents, lower min_chars, or take the class out of 'labels'."
        )


def _by_class(labels: np.ndarray, names: Sequence[str]) -> str:
    return ", ".join(f"{name}: {count:,}" for name, count in _class_counts(labels, names).items())


def _class_counts(labels: np.ndarray, names: Sequence[str]) -> dict[str, int]:
    labels = labels[labels != UNLABELLED]
    return dict(zip(names, np.bincount(labels, minlength=len(names)).tolist(), strict=True))


def distribute(candidates: Path, assignment: np.ndarray, folder: Path) -> None:
    """Write each candidate to its split, in the order read.

    Args:
        candidates: a prepared part.
        assignment: as `assign_splits` returns it, `[documents]`.
        folder: where a file for each split appears.
    """
    with contextlib.ExitStack() as stack:
        source = stack.enter_context(pq.ParquetFile(candidates, buffer_size=1 << 18, pre_buffer=False))
        schema = source.schema_arrow
        writers = [stack.enter_context(PartWriter(folder / f"{name}.parquet", schema)) for name in SPLITS]
        numbers = iter(assignment.tolist())
        for batch in source.iter_batches(batch_size=128):
            columns = [column.to_pylist() for column in batch.columns]
            # The rows first: zip reads its first argument first, and a number without a row would be lost.
            for *row, number in zip(*columns, numbers, strict=False):
                if number >= 0:
                    writers[number].write(*row)


def _summarise(index: Index, assignment: np.ndarray) -> dict[str, Any]:
    """Count the documents by part and by split."""
    for number, counts in enumerate(index.counts.values()):
        of_part = index.parts == number
        counts["candidates"] = index.class_counts(of_part)
        counts["kept"] = index.class_counts(of_part & (assignment >= 0))
    return {"parts": index.counts} | summarise_splits(index, assignment)


def summarise_splits(index: Index, assignment: np.ndarray) -> dict[str, Any]:
    """Return the documents of each split, their labels and the duplicate texts, counted.

    Args:
        index: of the documents.
        assignment: as `assign_splits` returns it, `[documents]`.
    """
    texts = {name: index.texts[assignment == number] for number, name in enumerate(SPLITS)}
    shared = {
        f"{second} in {first}": int(np.isin(texts[second], texts[first]).sum())
        for first, second in itertools.combinations(SPLITS, 2)
    }
    summary = {
        "splits": {
            name: {
                "documents": len(texts[name]),
                "labels": index.class_counts(assignment == number),
                "duplicate_texts": len(texts[name]) - len(np.unique(texts[name])),
            }
            for number, name in enumerate(SPLITS)
        },
        "shared_texts": shared,
    }
    for pair, count in shared.items():
        if count:
            logger.warning("texts of %s: %d documents; duplicates are reported, not removed", pair, count)
    return summary
