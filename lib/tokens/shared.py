"""Which share of the documents of validation and test training has as well."""

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from lib.reading.same_texts import text_digest
from lib.tokens.stored import load_tokens


def shared_documents(data: Mapping[Any, str | Path]) -> dict[str, float]:
    """Return which share of the documents of each other split has the text of a training document.

    Args:
        data: file of prepared documents by split, or folder of tokenised ones, whose tokens are compared as far as
            they are read. Without `train`, nothing is shared.
    """
    digests = {split: _digests(Path(place)) for split, place in data.items()} if "train" in data else {}
    training = set(digests.pop("train", ()))
    return {split: sum(each in training for each in found) / len(found) for split, found in digests.items() if found}


def _digests(place: Path) -> list[bytes]:
    """Return a digest of each document, of all its windows and both texts of a pair."""
    if place.is_file():
        with pq.ParquetFile(place) as source:
            columns = [name for name in ("text", "text_pair") if name in source.schema_arrow.names]
            batches = source.iter_batches(512, columns=columns)
            return [text_digest(*row.values()) for batch in batches for row in batch.to_pylist()]
    found: defaultdict[str, Any] = defaultdict(lambda: hashlib.blake2b(digest_size=8))
    for name, content in _tokens(place):
        found[name].update(content)
    return [each.digest() for each in found.values()]


def _tokens(folder: Path) -> Iterator[tuple[str, bytes]]:
    tokens = load_tokens(folder)
    columns = [name for name in ("input_ids", "pair_ids") if name in tokens.column_names]
    for batch in tokens.select_columns(["id", *columns]).with_format("numpy").iter(512):
        for name, *texts in zip(batch["id"], *(batch[column] for column in columns), strict=True):
            yield str(name), b"|".join(text.tobytes() for text in texts)
