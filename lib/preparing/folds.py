"""Columns that decide the split of a document: folds, dates, and values that keep documents together."""

import logging
from collections import Counter
from datetime import datetime
from typing import Any, Literal

from lib.core.errors import MOST_OF_VALUE, DataError, cut
from lib.preparing.settings.preparation import ByDate, Folds, Split
from lib.preparing.settings.sources import Dialect
from lib.reading.cells import MISSING, cell_text, whole_number
from lib.reading.readers import values_by_id

logger = logging.getLogger(__name__)


SPLITS: tuple[Literal["train", "validation", "test"], ...] = ("train", "validation", "test")


def column_splits(split: Split) -> "FoldSplits | DateSplits | Together | None":
    """Return how a column decides the splits; None = no column does."""
    if isinstance(split.folds, Folds):
        return FoldSplits(split.folds)
    if split.by_date is not None:
        return DateSplits(split.by_date)
    return None if split.by is None else Together(split.by)


class Together:
    """Values of a column that keep documents in one split; each has a number.

    Args:
        column: name of the column.
    """

    def __init__(self, column: str) -> None:
        self.column = column
        self.numbers: dict[str, int] = {}
        """Number of each value."""

    def split(self, identity: str, value: Any, where: str) -> int:
        """Return the number of a document's value; arguments and errors as in `FoldSplits.split`."""
        if not (name := cell_text(value)):
            shown = cut(repr(value), MOST_OF_VALUE)
            raise DataError(f"{where}: split.by needs a name or number in '{self.column}', but it has {shown}.")
        return self.numbers.setdefault(name, len(self.numbers))

    def check_spent(self) -> None:
        """See `FoldSplits.check_spent`: the draw says whether there are enough."""


class DateSplits:
    """The split of every document, by its date.

    Args:
        settings: column and first days.
    """

    def __init__(self, settings: ByDate) -> None:
        self.column, self._settings = settings.column, settings

    def split(self, identity: str, value: Any, where: str) -> int:
        """Return the split of a document, as its place in `SPLITS`; arguments and errors as in `FoldSplits.split`."""
        try:
            day = value if not isinstance(value, str) else datetime.fromisoformat(value.strip())
            day = day.date() if isinstance(day, datetime) else day
            before = self._settings.validation_from or self._settings.test_from
            return 2 if day >= self._settings.test_from else int(day >= before)
        except (TypeError, ValueError) as error:
            shown = cut(repr(value), MOST_OF_VALUE)
            raise DataError(f"{where}: '{self.column}' has {shown}; expected a date such as 2024-06-01.") from error

    def check_spent(self) -> None:
        """See `FoldSplits.check_spent`: a split without documents is refused like a given one."""


class FoldSplits:
    """The split of every document, by its fold.

    Args:
        settings: source of the folds, and their use.

    Raises:
        DataError: the file of the folds cannot be read, lacks a column or a fold, or names a document twice.
    """

    def __init__(self, settings: Folds) -> None:
        self._settings = settings
        self.column = None if settings.file is not None else settings.column
        names = {0: settings.train or [], 1: [settings.validation], 2: [settings.test]}
        self._splits = {cell_text(name) or MISSING: number for number in names for name in names[number]}
        self._of = None if settings.file is None else values_by_id([settings.file], settings.column, Dialect())
        self._met: Counter[str] = Counter()
        self._without_document = set(self._of or ())

    def split(self, identity: str, fold: Any, where: str) -> int:
        """Return the split of a document, as its place in `SPLITS`.

        Args:
            identity: the document's id.
            fold: its own value of the column, where there is no file.
            where: name of it, for messages.

        Raises:
            DataError: it has no fold.
        """
        if self._of is not None:
            fold = self._of.get(identity)
            self._without_document.discard(identity)
        name, column = cell_text(fold), self._settings.column
        if not name:
            source, shown = self._settings.file or "the source", cut(repr(fold), MOST_OF_VALUE)
            raise DataError(f"{where}: {source} has no fold of the document {identity!r} in '{column}', but {shown}.")
        self._met[name] += 1
        return self._splits.get(name, 0)

    def check_spent(self) -> None:
        """Refuse folds without a document, once all documents are read.

        Raises:
            DataError: the file names documents that there are not; a fold that validates or tests has none; or a
                fold has a name that is not known to train.
        """
        if extra := self._without_document:
            raise DataError(f"{self._settings.file}: {len(extra)} ids have no document, such as {min(extra)!r}.")
        if absent := sorted(self._splits.keys() - self._met):
            raise DataError(f"split.folds: no document is in fold {' or '.join(absent)}, of {_counted(self._met)}.")
        others = Counter({name: count for name, count in self._met.items() if name not in self._splits})
        if unknown := self._unknown(others):
            raise DataError(f"split.folds: no setting gives a split to {_counted(unknown)}. Set 'split.folds.train'.")
        folds = {split: Counter[str]() for split in SPLITS}
        for name, count in self._met.items():
            folds[SPLITS[self._splits.get(name, 0)]][name] = count
        logger.info("split.folds: %s", "; ".join(f"{split}: {_counted(folds[split])}" for split in SPLITS))

    def _unknown(self, others: Counter[str]) -> Counter[str]:
        """Return the folds, of those that no setting names, that may be misspelt."""
        if self._settings.train is not None:
            return others
        words = Counter({name: count for name, count in others.items() if whole_number(name) is None})
        known = {name.casefold() for name in self._splits}
        return words if len(words) > 1 or any(name.casefold() in known for name in words) else Counter()


def _counted(folds: Counter[str]) -> str:
    """Return the names of the folds, each with its number of documents."""
    return cut(", ".join(f"{name} ({folds[name]:,} documents)" for name in sorted(folds)), 5 * MOST_OF_VALUE)
