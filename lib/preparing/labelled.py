"""The labelled datasets: raw files to training, validation and test documents.

Two passes, so that memory does not grow with the texts: the first reads, cleans and drops, writes what remains aside
and keeps a few numbers per document; the second hands the documents to their splits, in the order read (training
shuffles for itself).
"""

import contextlib
import itertools
import logging
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import regex
from scipy import sparse

from lib.core.errors import MOST_OF_VALUE, ConfigError, DataError, cut
from lib.core.files import atomic_path, write_json
from lib.core.labels import LabelForm, words
from lib.preparing.drawing import UNLABELLED, SplitError, assign_splits, class_counts
from lib.preparing.folds import SPLITS, Together, column_splits
from lib.preparing.parts import PartWriter, part_schema
from lib.preparing.settings.preparation import Preparation
from lib.reading.cells import whole_number
from lib.reading.readers import read_records
from lib.reading.same_texts import text_digest
from lib.reading.spans import marked

logger = logging.getLogger(__name__)

SUMMARY = "summary.json"

MOST_SECONDS = 60
"""Time for removing the matches of a pattern from one text."""


def prepare_dataset(
    files: Mapping[str, Sequence[str | Path]],
    target: str | Path,
    settings: Preparation,
    ground_truth: Mapping[str, Sequence[str | Path]] | None = None,
) -> None:
    """Read, clean, drop, balance and split a dataset.

    Writes `train.parquet`, `validation.parquet`, `test.parquet` (`id`, `text`, `label` and, if asked for, `group` and
    `text_pair`) and `summary.json` (documents read, dropped and kept by part, split and class, or the words or
    characters where these are labelled; duplicate texts, or pairs of them; the columns of the texts). The same
    arguments give the same files.

    Args:
        files: raw files by part.
        target: folder to appear, whole or not at all.
        settings: what to keep, and how to split it.
        ground_truth: ground-truth XML files by part.

    Raises:
        ConfigError: `split.join` or `split.held_out` names a part that there is not, or no fold is to test.
        DataError: a file cannot be read or holds something unexpected, a document has more or fewer labels than words,
            or folds and documents do not match.
        SplitError: there are too few documents for the split.
    """
    split = settings.split
    halved = split.held_out if len(files) > 1 and split.given is None else None
    named: list[str] = list(SPLITS) if split.published else split.join or ([halved] if halved else [])
    if set(named) - set(files) or (split.published and len(files) > len(named)):
        expected = "these alone, since published is true" if split.published else "some of the source"
        raise ConfigError(f"split: names the parts {named}, but the source has {list(files)}. Expected {expected}.")
    if split.drawn_folds and split.fold is None:
        raise ConfigError(f"split.fold: missing. Expected a number up to {split.drawn_folds}, the fold that tests.")
    parts = list(files) if halved or not named else named
    if len(parts) > 1 and not named and split.given is None:
        logger.warning("the parts %s are joined and split again, unless split says otherwise", ", ".join(parts))
    with atomic_path(target) as folder:
        folder.mkdir()
        candidates = folder / "candidates.parquet"
        index = _collect({part: files[part] for part in parts}, ground_truth, settings, candidates)
        assignment = _assignment(index, settings, parts.index(halved) if halved else None)
        group = None if settings.group is None else pa.int64() if index.groups_are_numbers else pa.string()
        distribute(candidates, assignment, folder, _schema(settings, group))
        candidates.unlink()
        for number, counts in enumerate(index.counts.values()):
            of_part = index.of_each("part") == number
            counts["candidates"] = index.class_counts(of_part)
            counts["kept"] = index.class_counts(of_part & (assignment >= 0))
        columns = settings.model_dump(include={"text", "text_pair", "remove"})
        write_json(folder / SUMMARY, {"parts": index.counts} | summarise_splits(index, assignment) | columns)


class Index:
    """Data for the second pass about every document that the first one kept.

    Args:
        names: names of the classes.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._columns = {"part": array("H"), "fold": array("I"), "label": array("H"), "text": array("Q")}
        # The classes of each document's items, how many have them, and where those of a document end: see `items`.
        self._classes, self._items, self._ends = array("H"), array("I"), array("Q", [0])
        self._label_form: LabelForm = "class"
        self.counts: dict[str, dict[str, Any]] = {}
        self.values: list[str] = []
        self.groups_are_numbers = True

    def add(
        self,
        part: int,
        label: float | list[Any] | None,
        text: str,
        split_of_fold: int = 0,
        label_form: LabelForm = "class",
        text_pair: str | None = None,
    ) -> None:
        """Note a document.

        Args:
            part: number of its part.
            label: number of its class, or those of a set, or of its words, or spans, or a number that is no class; None
                = it has none.
            text: text; only a digest of it is kept.
            split_of_fold: number of the split of its fold.
            label_form: form of the label.
            text_pair: its second text, which the digest covers as well; None = it is a single text.
        """
        self._label_form = label_form
        number = UNLABELLED if label is None else label if isinstance(label, int) else 0
        if label_form not in ("class", "number"):
            items = [] if not isinstance(label, list) else marked(label, len(text)) if label_form == "span" else label
            counts = Counter(int(each) for each in items if each >= 0)
            self._classes.extend(counts)
            self._items.extend(counts.values())
            self._ends.append(len(self._items))
        digest = text_digest(text) if text_pair is None else text_digest(text, text_pair)
        values = (part, split_of_fold, number, int.from_bytes(digest, "little"))
        for column, value in zip(self._columns.values(), values, strict=True):
            column.append(value)

    def of_each(self, name: str) -> np.ndarray:
        """Return a number of each document `[documents]`.

        Args:
            name: `part`, number of the part; `fold`, number of the split of the fold, 0 without folds; `label`, number
                of the class, 0 where words, spans or numbers are the labels, `UNLABELLED` = none; `text`, digest.
        """
        return np.asarray(self._columns[name])

    def class_counts(self, chosen: np.ndarray) -> dict[str, int]:
        """Return how many of the chosen documents, or of their words or characters where these have it, each class has.

        Documents without a label count to no class.

        Args:
            chosen: true for a chosen document, `[documents]`.
        """
        if len(self._ends) == 1:
            return class_counts(self.of_each("label")[chosen], self._names)
        return dict(zip(self._names, self.items[chosen].sum(axis=0).A1.tolist(), strict=True))

    def set_sizes(self, chosen: np.ndarray) -> dict[str, dict[str, int]]:
        """Return how many of the chosen documents, if they have sets, have each number of classes."""
        if self._label_form != "set":
            return {}
        counts = np.bincount(self.items[chosen].getnnz(axis=1)).tolist()
        return {"documents_by_number_of_labels": {str(size): count for size, count in enumerate(counts) if count}}

    @property
    def items(self) -> sparse.csr_matrix:
        """How many items of each document have each class, such as its words; of a set 0 or 1 [documents, classes]."""
        parts = (np.asarray(part) for part in (self._items, self._classes, self._ends))
        return sparse.csr_matrix(tuple(parts), shape=(len(self._ends) - 1, len(self._names)))


_OF_FILES = (
    "text", "text_pair", "id", "label", "label_per", "label_set", "labels", "label_range", "values", "group", "dialect",
    "ground_truth_dialect",
)  # fmt: skip
"""Settings of a preparation that the reading of its files has, too."""


def _collect(
    files: Mapping[str, Sequence[str | Path]],
    ground_truth: Mapping[str, Sequence[str | Path]] | None,
    settings: Preparation,
    candidates: Path,
) -> Index:
    """Write the documents that are neither empty nor of the wrong length to `candidates`, and return their index."""
    index = Index(settings.labels or settings.classes)
    index.counts = {
        part: {"files": [Path(path).name for path in paths], "read": 0, "unlabelled": 0, "empty": 0, "short": 0}
        | ({} if settings.max_chars is None else {"long": 0})
        for part, paths in files.items()
    }
    numbers = {part: number for number, part in enumerate(files)}
    remove = regex.compile(settings.remove) if settings.remove is not None else None
    splits = column_splits(settings.split)
    unlabelled = () if settings.split.test_labels else ("test",)
    records = read_records(
        files,
        fold=None if splits is None else splits.column,
        ground_truth=ground_truth,
        unlabelled=unlabelled,
        **{name: getattr(settings, name) for name in _OF_FILES},
    )
    with PartWriter(candidates, _schema(settings, None if settings.group is None else pa.string())) as writer:
        for record in records:
            where = f"{record.part}, document {record.id!r}"
            texts = [text for text in (record.text, record.text_pair) if text is not None]
            try:
                texts = texts if remove is None else [remove.sub("", text, timeout=MOST_SECONDS) for text in texts]
            except TimeoutError as error:
                raise DataError(
                    f"{where}: {settings.remove!r} (remove) takes more than {MOST_SECONDS} seconds. Simplify it."
                ) from error
            counts, label, form = index.counts[record.part], record.label, settings.label_form
            counts["read"] += 1
            split = 0 if splits is None else splits.split(record.id, record.fold, where)
            if label is None and record.part not in unlabelled:
                counts["unlabelled"] += 1
            elif not all(map(str.strip, texts)):
                counts["empty"] += 1
            elif min(map(len, texts)) < settings.min_chars:
                counts["short"] += 1
            elif settings.max_chars is not None and max(map(len, texts)) > settings.max_chars:
                counts["long"] += 1
            else:
                text, *second = texts
                if form == "word" and isinstance(label, list) and len(label) != (found := len(words(text))):
                    raise DataError(f"{where}: has {len(label)} labels for {found} words. Expected one each.")
                writer.write(record.id, text, label, *([] if record.group is None else [record.group]), *second)
                index.add(numbers[record.part], label, text, split, form, *second)
                index.groups_are_numbers &= record.group is None or str(whole_number(record.group)) == record.group
    if splits is not None:
        splits.check_spent()
    if isinstance(splits, Together):
        index.values = list(splits.numbers)
    for part, counts in index.counts.items():
        said = ", ".join(f"{name} {count}" for name, count in counts.items() if name != "files")
        logger.log(logging.WARNING if counts["empty"] else logging.INFO, "%s: documents: %s", part, said)
    return index


def _schema(settings: Preparation, group: pa.DataType | None) -> pa.Schema:
    """Return the schema of documents whose groups have this type."""
    return part_schema(settings.label_form, group=group, paired=settings.text_pair is not None)


def _assignment(index: Index, settings: Preparation, held_out: int | None) -> np.ndarray:
    """Return the split of every document, see `assign_splits`."""
    split = settings.split
    parts, folds, labels, texts = map(index.of_each, ("part", "fold", "label", "text"))
    given = None if split.given is None else parts if split.published else folds  # the numbers of the splits
    there = np.ones(len(labels), bool) if settings.duplicates == "keep" else _first_of_each(texts, given)
    halved = None if held_out is None else (parts == held_out)[there]
    given = None if given is None else given[there]
    assignment = np.full(len(there), -1, np.int8)
    try:
        sets = index.items[there] if settings.label_form == "set" else None
        values = None if split.by is None else np.array(index.values, object)[folds[there]]
        drawn = settings.balance, halved, given, sets, values
        assignment[there] = assign_splits(labels[there], settings.classes, split, *drawn)
    except SplitError as error:
        error.sizes = class_counts(labels[there], settings.classes)
        raise
    return assignment


def _first_of_each(texts: np.ndarray, given: np.ndarray | None) -> np.ndarray:
    """Return whether each document is the one that stays of those with its text, bool [documents].

    Args:
        texts: digests of the texts [documents].
        given: numbers of the splits [documents], the highest comes first; None = in the order read.
    """
    order = np.arange(len(texts)) if given is None else np.argsort(-given.astype(int), kind="stable")
    stays = np.zeros(len(texts), bool)
    stays[order[np.unique(texts[order], return_index=True)[1]]] = True
    return stays


def distribute(candidates: Path, assignment: np.ndarray, folder: Path, schema: pa.Schema) -> None:
    """Write each candidate to its split, in the order read.

    Args:
        candidates: a prepared part.
        assignment: as `assign_splits` returns it, `[documents]`.
        folder: where a file for each split appears.
        schema: that of the splits; a column of numbers in it may be one of their texts in `candidates`.
    """
    with contextlib.ExitStack() as stack:
        source = stack.enter_context(pq.ParquetFile(candidates, buffer_size=1 << 18, pre_buffer=False))
        writers = [stack.enter_context(PartWriter(folder / f"{name}.parquet", schema)) for name in SPLITS]
        numbers = iter(assignment.tolist())
        for batch in source.iter_batches(batch_size=128):
            columns = [column.to_pylist() for column in batch.cast(schema).columns]
            # The rows first: zip reads its first argument first, and a number without a row would be lost.
            for *row, number in zip(*columns, numbers, strict=False):
                if number >= 0:
                    writers[number].write(*row)


def summarise_splits(index: Index, assignment: np.ndarray) -> dict[str, Any]:
    """Return the documents of each split, their labels and the duplicate texts, counted.

    Args:
        index: of the documents.
        assignment: as `assign_splits` returns it, `[documents]`.
    """
    texts = {name: index.of_each("text")[assignment == number] for number, name in enumerate(SPLITS)}
    shared = {
        f"{second} in {first}": int(np.isin(texts[second], texts[first]).sum())
        for first, second in itertools.combinations(SPLITS, 2)
    }
    summary = {
        "splits": {
            name: {
                "documents": len(texts[name]),
                "labels": index.class_counts(assignment == number),
                **index.set_sizes(assignment == number),
                "duplicate_texts": len(texts[name]) - len(np.unique(texts[name])),
            }
            for number, name in enumerate(SPLITS)
        },
        "shared_texts": shared,
    }
    if index.set_sizes(assignment == 0):
        _report_rare(index.class_counts(assignment == 0))
    for pair, count in shared.items():
        if count:
            logger.warning("texts of %s: %d documents; duplicates: drop keeps one of each text", pair, count)
    return summary


FEW = 10
"""Training documents of a class below which the log names it."""


def _report_rare(documents: Mapping[str, int]) -> None:
    """Say which classes have no training document, or only a few."""
    absent = [name for name, count in documents.items() if not count]
    rare = [name for name, count in documents.items() if 0 < count < FEW]
    for names, what in ((absent, "no training document"), (rare, f"fewer than {FEW} training documents")):
        if names:
            logger.warning("%d classes have %s: %s", len(names), what, cut(", ".join(names), MOST_OF_VALUE))
