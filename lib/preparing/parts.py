"""Prepared parts: Parquet files with the columns `id`, `text` and `label`, whatever the raw format was.

`label` is the number of the class, or a sorted list of such numbers where documents have several, or a list of them
with one entry per word (-100 = none), or a list of spans, pairs [start, end) of characters, or a number that is no
class; it is null throughout in a corpus, and in a test split without labels. Documents that belong to groups have them
in a further column `group`, and pairs of texts the second one in `text_pair`.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from lib.core.errors import DataError
from lib.core.labels import LabelForm

SCHEMA = pa.schema([("id", pa.string()), ("text", pa.string()), ("label", pa.int64())])
"""Columns of documents without groups, with at most one label each."""


LABELS: dict[LabelForm, pa.DataType] = {
    "class": pa.int64(),
    "number": pa.float64(),
    "set": pa.list_(pa.int32()),
    "word": pa.list_(pa.int64()),
    "span": pa.list_(pa.list_(pa.int64())),
}
"""Type of the labels by their form."""


def part_schema(label_form: LabelForm, *, group: pa.DataType | None = None, paired: bool = False) -> pa.Schema:
    """Return the schema of a part.

    Args:
        label_form: form of the labels.
        group: type of the groups, whole numbers or names; None = documents have none.
        paired: whether documents are pairs of texts.
    """
    schema = SCHEMA.set(2, pa.field("label", LABELS[label_form]))
    schema = schema if group is None else schema.append(pa.field("group", group))
    return schema.append(pa.field("text_pair", pa.string())) if paired else schema


def label_form_of(schema: pa.Schema) -> LabelForm:
    """Return the form of the labels in a prepared part."""
    return next(form for form, kind in LABELS.items() if kind == schema.field("label").type)


_GROUP_CHARACTERS = 1 << 24
_GROUP_ROWS = 1 << 16


class PartWriter:
    """Writes documents to one prepared part, in row groups of about 16 million characters.

    It belongs inside an atomic write: a part that was not closed is no Parquet file.

    Args:
        path: file to appear.
        schema: its columns.
    """

    def __init__(self, path: Path, schema: pa.Schema = SCHEMA):
        self.documents = 0
        self._schema = schema
        self._writer = pq.ParquetWriter(path, schema, compression="zstd")
        self._empty()

    def _empty(self) -> None:
        self._characters = 0
        self._columns: list[list[Any]] = [[] for _ in self._schema]

    def write(self, id: str, text: str, label: float | list[Any] | None, *further: int | str) -> None:
        """Append one document; group and second text follow if the part has them."""
        for column, value in zip(self._columns, (id, text, label, *further), strict=True):
            column.append(value)
        self.documents += 1
        self._characters += len(text) + sum(len(value) for value in further if isinstance(value, str))
        if self._characters >= _GROUP_CHARACTERS or len(self._columns[0]) >= _GROUP_ROWS:
            self._flush()

    def _flush(self) -> None:
        if self._columns[0]:
            self._writer.write_table(pa.table(self._columns, schema=self._schema))
        self._empty()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._flush()
        self._writer.close()


_BATCH = 512
"""Documents held in memory at once."""


def read_part(path: str | Path, columns: list[str] | None = None) -> Iterator[dict[str, Any]]:
    """Yield the documents of a prepared part, without holding it in memory.

    Args:
        path: the part.
        columns: those to read; None = all.

    Raises:
        DataError: it cannot be read.
    """
    with opened_part(path) as file:
        for batch in file.iter_batches(_BATCH, columns=columns):
            yield from batch.to_pylist()


def texts_of_part(path: str | Path) -> Iterator[tuple[str, ...]]:
    """Yield the text of each document of a prepared part, or both texts of each pair.

    Raises:
        DataError: it cannot be read.
    """
    columns = [name for name in ("text", "text_pair") if name in schema_of_part(path).names]
    return (tuple(row.values()) for row in read_part(path, columns))


def schema_of_part(path: str | Path) -> pa.Schema:
    """Return the schema of a prepared part.

    Raises:
        DataError: it cannot be read.
    """
    with opened_part(path) as file:
        return file.schema_arrow


@contextlib.contextmanager
def opened_part(path: str | Path) -> Iterator[pq.ParquetFile]:
    """Open a prepared part.

    Raises:
        DataError: it cannot be read.
    """
    try:
        with pq.ParquetFile(path, pre_buffer=False) as file:
            yield file
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{path}: cannot be read as Parquet ({error}). Prepare the dataset again.") from error
