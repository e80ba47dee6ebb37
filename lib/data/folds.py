"""Folds that decide which split a document belongs to."""

from pathlib import Path
from typing import Any, Literal

import pandas as pd

from lib.core.errors import MOST_OF_VALUE, DataError, cut
from lib.data.formats import named
from lib.data.settings.preparation import Folds

SPLITS: tuple[Literal["train", "validation", "test"], ...] = ("train", "validation", "test")


class FoldSplits:
    """The split of every document, by its fold.

    Args:
        settings: source of the folds, and their use.

    Raises:
        DataError: the file of the folds cannot be read, lacks a column or a fold, or names a document twice.
    """

    def __init__(self, settings: Folds) -> None:
        self._settings = settings
        self._splits = {str(settings.validation): 1, str(settings.test): 2}
        self._of = None if settings.file is None else _read(Path(settings.file), settings.column)
        self._met: set[str] = set()
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
        if fold is None or fold == "":
            source = self._settings.file or "the source"
            raise DataError(
                f"{where}: {source} has no fold of the document {identity!r} in '{self._settings.column}'. Expected "
                "one for each document; check that both belong together, and that 'id' names the column of the ids."
            )
        name = named(int(fold) if isinstance(fold, float) and fold.is_integer() else fold)
        if name is None:
            raise DataError(
                f"{where}: the fold in '{self._settings.column}' is {cut(repr(fold), MOST_OF_VALUE)}; expected a "
                "number or a name. Repair the file, or let split.folds.column name another column."
            )
        self._met.add(name)
        return self._splits.get(name, 0)

    def check_spent(self) -> None:
        """Refuse folds without a document, once all documents are read.

        Raises:
            DataError: the file names documents that there are not, or a fold that validates or tests has none.
        """
        if extra := self._without_document:
            raise DataError(
                f"{self._settings.file}: {len(extra)} ids have no document, such as {min(extra)!r}. Expected those of "
                "the source; check that both belong together, and that 'id' names the column of the ids."
            )
        if absent := sorted(self._splits.keys() - self._met):
            raise DataError(
                f"split.folds: no document is in fold {' or '.join(absent)}; there are the folds "
                f"{', '.join(sorted(self._met))}. Name two of them."
            )


def _read(path: Path, column: str) -> dict[str, str]:
    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
    except (OSError, ValueError) as error:  # what pandas cannot parse is a ValueError
        raise DataError(f"{path}: cannot be read ({error}). Expected a CSV file of folds.") from error
    if missing := [name for name in ("id", column) if name not in table]:
        raise DataError(
            f"{path}: has no column {', '.join(map(repr, missing))}; it has {', '.join(map(repr, table))}. Expected "
            "'id' and the column that split.folds.column names."
        )
    if (twice := table["id"].duplicated()).any():
        raise DataError(f"{path}: has the id {table['id'][twice].iloc[0]!r} twice. Expected one fold per document.")
    return dict(zip(table["id"], table[column], strict=True))
