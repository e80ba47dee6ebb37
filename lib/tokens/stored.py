"""Tokenised corpora as stored: memory-mapped, ragged. Making them is `lib.tokens.tokenizing`."""

import hashlib
import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from datasets import Dataset, load_from_disk

from lib.core.errors import DataError
from lib.core.labels import UNKNOWN
from lib.preparing.parts import texts_of_part
from lib.preparing.settings.document_form import Texts
from lib.reading.same_texts import text_digest

EVALUATION = "evaluation"
"""Epoch of an example that was asked for outside training: its masks never change."""
TEXTS = "texts"
"""Key in the settings of a tokeniser that a run saves: what `texts_of` says of the documents of its training."""


def load_tokens(folder: str | Path) -> Dataset:
    """Return a tokenised split, memory-mapped.

    It has the columns `id`, `input_ids`, `length`, if labelled `label` or, for words and spans, `labels` (one per
    token, -100 = none), if documents belong to groups `group` and, of documents that a model taught, `teacher_logits`,
    one per class. Pairs of texts have `token_type_ids` (the segment of each token) or, if they are read separately,
    `pair_ids`, the second text. Where spans are labelled, a row is a window of a document; `starts` and `ends` say
    where its tokens are in the text, in characters, `spans` and `characters` are the true spans of the whole document
    and its length. In a test split without labels, `label` and `spans` are null, and `labels` are `UNKNOWN` or -100.

    Raises:
        DataError: the folder is not such a split.
    """
    try:
        tokens = load_from_disk(str(folder))
    except Exception as error:  # a damaged file may raise anything from OSError to pyarrow's errors
        raise DataError(f"{folder}: not a tokenised split ({error}). Delete it and tokenise again.") from error
    if missing := {"id", "input_ids", "length"} - set(tokens.column_names):
        raise DataError(f"{folder}: has no column {', '.join(sorted(missing))}. Delete it and tokenise again.")
    return tokens


def has_labels(tokens: Dataset) -> bool:
    """Whether the documents of a tokenised split have labels, or need none, so that it can be scored."""
    if "label" in tokens.column_names:
        labels = tokens.data.column("label")
        return labels.null_count < len(labels)
    if "labels" in tokens.column_names:
        highest = pc.max(pc.list_flatten(tokens.data.column("labels"))).as_py()
        return highest is None or highest != UNKNOWN
    return True


def texts_of(tokens: Dataset) -> Texts:
    """Return whether tokenised documents are single texts, or pairs in one sequence or in two."""
    if "pair_ids" in tokens.column_names:
        return "separately"
    return "together" if "token_type_ids" in tokens.column_names else "single"


def note_stride(stride: float) -> str:
    """Return the description of a split of windows, which `stride_of` reads."""
    return f"window_stride: {stride!r}"


def stride_of(tokens: Dataset) -> float | None:
    """Return how far behind the one before a window begins; None = the split has no windows."""
    stride = tokens.info.description.partition("window_stride: ")[2]
    return float(stride) if stride else None


def sorted_by_length(tokens: Dataset) -> Dataset:
    """Return a split with its longest documents first, which reduces padding, and shows a lack of memory at once."""
    return tokens.select(np.argsort(-np.asarray(tokens["length"]), kind="stable"), keep_in_memory=True)


def share_longer(tokens: Dataset, reach: int | None) -> float:
    """Return the share of documents with more tokens than `reach`; None = any number, so no document has more.

    If the texts of a pair are read separately, the longer one counts.
    """
    if reach is None:
        return 0.0
    texts = [tokens.data.column(name) for name in ("input_ids", "pair_ids") if name in tokens.column_names]
    return float((np.maximum.reduce([pc.list_value_length(text).to_numpy() for text in texts]) > reach).mean())


class TokenDataset(torch.utils.data.Dataset[dict[str, Any]]):
    """A tokenised split for a `DataLoader`.

    A key is (epoch, index), as the samplers of `lib.tokens.batches` yield, or a plain index, which stands for
    evaluation. An example holds `id`, `input_ids` (array [N]), `label`, `labels` (array [N]), `token_type_ids` (array
    [N]), `pair_ids` (array) or `teacher_logits` (array, one per class) if there are any, `epoch` and `index`.

    Args:
        tokens: a split that `load_tokens` returned.

    Attributes:
        tokens: the same.
    """

    def __init__(self, tokens: Dataset) -> None:
        self.tokens = tokens
        names = ("id", "input_ids", "label", "labels", "token_type_ids", "pair_ids", "teacher_logits")
        self._rows = tokens.select_columns([name for name in names if name in tokens.column_names]).with_format("arrow")

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, key: int | tuple[int, int]) -> dict[str, Any]:
        return self.__getitems__([key])[0]

    def __getitems__(self, keys: Sequence[int | tuple[int, int]]) -> list[dict[str, Any]]:
        """Return the examples of a batch at once, which `DataLoader` prefers; there may be none."""
        pairs = [key if isinstance(key, tuple) else (EVALUATION, key) for key in keys]
        table: pa.Table = self._rows[[index for _, index in pairs]]
        names = [*table.column_names, "epoch", "index"]
        columns = [_rows_of(column.combine_chunks()) for column in table.columns]
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, *zip(*pairs, strict=True), strict=True)]


def _rows_of(column: pa.Array) -> Sequence[Any]:
    """Return the values of a column; of lists, arrays that share memory, which is faster than `datasets` makes them."""
    if not pa.types.is_list(column.type):
        return column.to_pylist()
    values, ends = column.values.to_numpy(), column.offsets.to_pylist()
    return [values[start:end] for start, end in itertools.pairwise(ends)]


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
        return [text_digest(*texts) for texts in texts_of_part(place)]
    tokens, found = load_tokens(place), defaultdict[str, Any](lambda: hashlib.blake2b(digest_size=8))
    columns = [name for name in ("input_ids", "pair_ids") if name in tokens.column_names]
    for batch in tokens.select_columns(["id", *columns]).with_format("numpy").iter(512):
        for name, *texts in zip(batch["id"], *(batch[column] for column in columns), strict=True):
            found[str(name)].update(b"|".join(text.tobytes() for text in texts))
    return [each.digest() for each in found.values()]
