"""A user's own texts, prepared as the advised study prepares them, by the same functions."""

import math
import random
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pyarrow.dataset import dataset
from tqdm import tqdm

from lib.advice import seen
from lib.core.errors import MOST_OF_VALUE, DataError, cut
from lib.core.files import mapping_text, read_mapping
from lib.core.randomness import derive_seed
from lib.core.settings import FEW, LARGE
from lib.preparing.drawing import SplitError
from lib.preparing.filtering import filter_corpus
from lib.preparing.folds import SPLITS
from lib.preparing.labelled import SUMMARY, prepare_dataset
from lib.preparing.settings.corpus import ArticleFilter
from lib.preparing.settings.preparation import MOST_LABELS, LabelSet, Preparation
from lib.preparing.settings.sources import Dialect
from lib.reading.cells import HALF, MISSING, cell_text, half_found
from lib.reading.formats import read_rows
from lib.reading.raw_files import Columns
from lib.reading.readers import labels_of

HELD_OUT = 0.1
"""Share of texts without labels that are held out."""

MOST_CLASSES = 100
"""Different values of a column of labels, at most; more are classes only where a person says so."""

PER_CLASS = 5
"""Documents per value of a column of labels, at least, on average."""

FEWEST_OF_CLASS = 4
"""Documents of a class that stays in the study, at least."""

SAMPLED = 2000
"""Training documents that are drawn to count tokens and to score rows, at most."""

FEWEST = 10
"""Texts without labels, at least; of fewer, none would be held out."""

LARGEST_SHARE = 0.34
"""Share of validation, and of test, at most, if a column of few values decides."""

OPTIONS = "Name columns with --column and --label, and a dialect with --dialect '{...}'."

_LEFT_OUT = {"unlabelled": "without one of these classes", "empty": "without text"}


Labels = str | tuple[str, ...] | None
"""Column of the labels, or columns that say of one class each whether a document has it; None = there are no labels."""


@dataclass(frozen=True)
class OwnTexts:
    """The texts of a user, as a study prepares them."""

    settings: Mapping[str, Any]
    """Settings of the dataset, or of the corpus, without its source and lengths."""
    splits: Mapping[str, int]
    """Number of documents by split, as the study will have them."""
    texts: list[str]
    """A random sample of the training documents."""
    classes: Mapping[str, int] = field(default_factory=dict)
    """Number of documents of each class; empty without labels."""
    notes: Sequence[str] = ()
    """Changes of the documents by these settings, a sentence each."""
    sample_labels: Sequence[Any] = ()
    """Class of each of `texts`, by its number, or the list of its classes; empty without labels."""
    set_sizes: Counter[str] = field(default_factory=Counter)
    """Number of documents by that of their labels, if they may have several."""
    sample_groups: Sequence[int | str] = ()
    """Value of each of `texts` in the column `by`, if there is one."""
    by: str | None = None
    """Column whose values are in one split each; None = documents are drawn by themselves."""

    @property
    def documents(self) -> int:
        """Number of documents in all splits."""
        return sum(self.splits.values())

    @property
    def labelled(self) -> bool:
        """Whether the texts have labels."""
        return bool(self.classes)


def own_texts(
    files: Sequence[Path], *, column: str, label: Labels, dialect: Dialect | None = None, by: str | None = None
) -> OwnTexts:
    """Return texts as the study prepares them, with settings that the preparation accepts.

    Labels are counted in the file. Copies of texts are dropped if a split has
    texts of another one. If some classes have too few documents to be split, the settings change so that the most
    training documents stay.

    Args:
        files: files in any format of `lib.reading.formats`.
        column: column of the text.
        label: column of the label, or columns of the classes; None = there is none.
        dialect: how text files are written; None = as by default.
        by: column whose values are in one split each, where there are labels; None = documents are drawn by themselves.

    Raises:
        DataError: the files cannot be read, or can be read in two ways; or no settings split the documents.
    """
    if by and label is None:
        raise DataError(f"--by {by}: texts without labels have no test split. Leave it out.")
    marks, dialect = label if isinstance(label, tuple) else None, dialect or Dialect()
    columns = Columns(None, column, label if isinstance(label, str) else None, marks=marks)
    try:
        values, given = own_labels(files, columns, dialect)
    except DataError as error:
        raise DataError(f"{error} {OPTIONS}") from error
    rows = (row for path in files if label for row in read_rows(path, columns, dialect))
    remarks = [*seen.remarks(files, values, ((row[1], _cell(row, columns)) for row in rows))]
    settings: dict[str, Any] = {"text": column}
    if written := dialect.model_dump(exclude_defaults=True):
        settings["dialect"] = written
    with tempfile.TemporaryDirectory() as folder:
        if label is None:
            own = _corpus(files, settings, Path(folder))
        else:
            settings |= {"labels": [*marks]} if marks else {"label": label, "labels": _names(values, columns.label)}
            settings |= {"label_set": given.model_dump(exclude_unset=True)} if given else {}
            if MISSING in values:
                settings["values"] = {MISSING: None}
            own = _dataset(files, Preparation.model_validate(settings), Path(folder), by)
    return replace(own, notes=[*remarks, *own.notes])


def own_labels(files: Sequence[Path], columns: Columns, dialect: Dialect) -> tuple[Counter[str], LabelSet | None]:
    """Return how often each label occurs ("" = none), and how several of a document are given; None = it has one.

    Raises:
        ConfigError: labels may be read in two ways.
        DataError: the files cannot be read, or have no labels, or too many.
    """
    cells = Counter[str]()
    rows = ((path, *each) for path in files for each in enumerate(read_rows(path, columns, dialect), start=1))
    for path, number, row in tqdm(rows, "reading", unit=" documents", disable=None):
        if columns.label is None and columns.marks is None:
            continue
        where, value = f"{path}, document {number}: '{columns.label}'", row[2]
        if isinstance(value, str) and HALF.search(value):
            raise DataError(f"{where} {half_found(value, dialect.encoding)}.")
        if (cell := _cell(row, columns)) is None or (isinstance(value, str) and len(value) > FEW):
            raise DataError(f"{where} has {cut(repr(value), MOST_OF_VALUE)}; expected the name or number of a class.")
        cells[cell] += 1
        if len(cells) > LARGE:  # of several labels per document, most may differ
            break
    given = LabelSet(given_as="columns") if columns.marks else seen.label_set(f"{files[0]}: '{columns.label}'", cells)
    found = Counter[str]()
    for cell, times in cells.items():
        labels = [cell] if given is None else labels_of(cell, given.separator) or []  # others are refused later
        found.update(dict.fromkeys((cell_text(each) or MISSING for each in labels), times))
    if len(found) > MOST_CLASSES and (found.total() < PER_CLASS * len(found) or len(found) > MOST_LABELS):
        raise DataError(
            f"{files[0]}: '{columns.label}' has {len(found):,} values in {found.total():,} documents, such as "
            f"{cut(repr(cell), MOST_OF_VALUE)}. Expected classes, {PER_CLASS} documents of each if they are more than "
            f"{MOST_CLASSES}. For labels that are numbers, see 'label_range' in docs/add_dataset.md."
        )
    return found, given


def _cell(row: Sequence[Any], columns: Columns) -> str | None:
    """Return the label of a row as a text, several in a list or in columns as a list in Python; None if it is none."""
    marks = zip(columns.marks or (), row[6:], strict=False)
    value = [name for name, mark in marks if cell_text(mark) in ("1", "true")] if columns.marks else row[2]
    return str(sorted(cell_text(each) or MISSING for each in value)) if isinstance(value, list) else cell_text(value)


def _names(values: Counter[str], label: str | None) -> list[str]:
    """Return the names of the classes: numbers by size, other names by the alphabet."""
    names = sorted(values.keys() - {MISSING})
    if len(names) < 2:
        raise DataError(f"'{label}' has the classes {names}; expected two at least. Name another column with --label.")
    try:
        return sorted(names, key=float)
    except ValueError:
        return names


def _dataset(files: Sequence[Path], settings: Preparation, folder: Path, by: str | None) -> OwnTexts:
    target = folder / "prepared"
    settings, notes = _prepared(files, settings.model_copy(update={"group": by} if by else {}), target)
    if by:  # of the classes that a random split has
        everything = dataset([str(target / f"{name}.parquet") for name in SPLITS])
        values, target = len(everything.to_table(columns=["group"])["group"].unique()), folder / "by"
        share = min(LARGEST_SHARE, math.ceil(1000 / max(1, values - 1)) / 1000)  # test may have two of them
        split = {"by": by} | ({"validation": share, "test": share} if share > settings.split.test else {})
        settings = settings.model_copy(update={"split": settings.split.model_copy(update=split)})
        prepare_dataset({"train": files}, target, settings)
    shared = read_mapping(target / SUMMARY)["shared_texts"]
    if any(shared.values()):
        copies, before, apart = shared["test in train"], sum(_sizes(target).values()), folder / "without-copies"
        note = f"{copies:,} of {_sizes(target)['test']:,} test documents have the text of a training document"
        try:
            settings, changes = _prepared(files, settings.model_copy(update={"duplicates": "drop"}), apart)
            fewer = before - sum(_sizes(apart).values())
            notes += [f"{note}, so `duplicates: drop` keeps one document of each text ({fewer:,} fewer).", *changes]
            target = apart
        except SplitError:
            notes.append(f"**{note}**, which a model may have memorised. Without copies, too few would be left.")
    summary = read_mapping(target / SUMMARY)
    (part,) = summary["parts"].values()
    if gone := [f"{part[name]:,} {why}" for name, why in _LEFT_OUT.items() if part[name]]:
        notes.append(f"Documents left out: {', '.join(gone)}.")
    _, sample = _sample([target / f"{SPLITS[0]}.parquet"])
    written = settings.model_dump(mode="json", exclude_unset=True, exclude={"group"})  # it is for the sample alone
    classes, set_sizes = Counter[str](), Counter[str]()
    for split in summary["splits"].values():
        classes.update(split["labels"])
        set_sizes.update(split.get("documents_by_number_of_labels", {}))
    of_sample = sample["label"], set_sizes, sample.get("group", ()), by
    return OwnTexts(written, _sizes(target), sample["text"], classes, notes, *of_sample)


def _prepared(files: Sequence[Path], settings: Preparation, target: Path) -> tuple[Preparation, list[str]]:
    """Prepare documents, and return the settings, with a sentence if they had to change for rare classes."""
    try:
        prepare_dataset({"train": files}, target, settings)
        return settings, []
    except SplitError as error:
        if not (changes := _for_rare_classes(settings, error.sizes)):
            raise
        own = Preparation.model_validate(settings.model_dump(exclude_unset=True) | changes)
        prepare_dataset({"train": files}, target, own)
        named = " and ".join(f"`{mapping_text({key: value}, one_line=True)[1:-1]}`" for key, value in changes.items())
        return own, [f"Some classes have too few documents to be split, so the study has {named}."]


def _for_rare_classes(settings: Preparation, sizes: Mapping[str, int]) -> dict[str, Any]:
    """Return the settings that leave the most training documents: without rare classes, or with larger splits.

    Validation and test have a document of every class if their shares are those of a document of the rarest one.
    """
    names, least = sorted(sizes, key=lambda name: sizes[name]), settings.split.test
    found = []
    for gone, name in enumerate(names[:-1]):
        if sizes[name] >= FEWEST_OF_CLASS:
            share = max(least, math.ceil(1000 / sizes[name]) / 1000)
            found.append(((1 - 2 * share) * sum(sizes[each] for each in names[gone:]), share, names[:gone]))
    if not found:
        return {}
    _, share, rare = max(found)
    changes: dict[str, Any] = {"split": {"validation": share, "test": share}} if share > least else {}
    if rare:
        labels = [name for name in settings.labels if name not in rare]
        changes |= {"labels": labels, "values": settings.values | dict.fromkeys(rare)}
    return changes


def _sizes(folder: Path) -> dict[str, int]:
    return {name: split["documents"] for name, split in read_mapping(folder / SUMMARY)["splits"].items()}


def _corpus(files: Sequence[Path], settings: dict[str, Any], folder: Path) -> OwnTexts:
    parts = [folder / f"{number}.parquet" for number in range(len(files))]
    for file, part in zip(files, parts, strict=True):
        filter_corpus(file, part, ArticleFilter.model_validate(settings))
    documents, sample = _sample(parts)
    if documents < FEWEST:
        raise DataError(f"{', '.join(map(str, files))}: {documents} texts; expected at least {FEWEST}. Add texts.")
    held_out = max(1, round(HELD_OUT * documents))
    return OwnTexts(settings, {"train": documents - held_out, "held_out": held_out}, sample["text"])


def _sample(files: Sequence[Path]) -> tuple[int, dict[str, list[Any]]]:
    """Return the number of prepared documents, and a random sample of their texts and labels, in order."""
    prepared = dataset([str(file) for file in files])
    total = prepared.count_rows()
    chosen = random.Random(derive_seed("advice")).sample(range(total), min(SAMPLED, total))
    columns = [name for name in ("text", "label", "group") if name in prepared.schema.names]
    return total, prepared.take(sorted(chosen), columns=columns).to_pydict()
