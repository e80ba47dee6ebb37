"""Prepared parts: Parquet files with the columns `id`, `text` and `label`, whatever the raw format was.

`label` is the number of the class; it is null throughout in a corpus, which has none.
"""

from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA = pa.schema([("id", pa.string()), ("text", pa.string()), ("label", pa.int64())])

_GROUP_CHARACTERS = 1 << 24
_GROUP_ROWS = 1 << 16


class PartWriter:
    """Writes documents to one prepared part, in row groups of about 16 million characters.

    It belongs inside an atomic write: a part that was not closed is no Parquet file.
    """

    def __init__(self, path: Path):
        self.documents = 0
        self._writer = pq.ParquetWriter(path, SCHEMA, compression="zstd")
        self._empty()

    def _empty(self) -> None:
        self._characters = 0
        self._columns: tuple[list[Any], ...] = ([], [], [])  # id, text, label

    def write(self, id: str, text: str, label: int | None) -> None:
        """Append one document."""
        for column, value in zip(self._columns, (id, text, label), strict=True):
            column.append(value)
        self.documents += 1
        self._characters += len(text)
        if self._characters >= _GROUP_CHARACTERS or len(self._columns[0]) >= _GROUP_ROWS:
            self._flush()

    def _flush(self) -> None:
        if self._columns[0]:
            self._writer.write_table(pa.table(list(self._columns), schema=SCHEMA))
        self._empty()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._flush()
        self._writer.close()
