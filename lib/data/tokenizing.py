"""From prepared Parquet parts to tokenised splits on disk. Reading them back is `lib.data.tokens`.

A split is a folder that `datasets.load_from_disk` opens. Beside the splits stand the statistics of their lengths,
`{split: {max_tokens, documents, mean, std, median, min, max, at_limit}}`, in tokens; `at_limit` is the share of
documents that fill `max_tokens`. A corpus has `train_short` and `train_long` besides `train`.
"""

import contextlib
from array import array
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from datasets import Dataset, disable_progress_bars
from torch.utils.data import TensorDataset

from lib.core.errors import DataError
from lib.core.files import atomic_path, write_json
from lib.core.settings.data import Slice, Tokenizer
from lib.data.padding import pad_ids
from lib.data.tokenizer import WordPieceTokenizer, require_room
from lib.data.tokens import load_tokens

_BATCH = 512
"""Documents held in memory at once."""


class StoredTexts:
    """The texts of prepared Parquet files, as often as they are asked for.

    Args:
        paths: files with a column `text`, in order.
    """

    def __init__(self, paths: Sequence[str | Path]) -> None:
        self._paths = paths

    def __iter__(self) -> Iterator[str]:
        return (row["text"] for row in _read(self._paths, ["text"]))


def train_tokenizer(shards: Sequence[str | Path], settings: Tokenizer, target: str | Path) -> None:
    """Train a vocabulary on prepared Parquet files and save the tokeniser's folder.

    Args:
        shards: files with a column `text`.
        settings: size of the vocabulary, frequency, case and accents.
        target: folder to appear.

    Raises:
        DataError: a file cannot be read, or none holds a word.
    """
    WordPieceTokenizer.train(
        target,
        StoredTexts(shards),
        settings.vocab_size,
        settings.min_frequency,
        settings.lowercase,
        settings.strip_accents,
    )


def tokenize_corpus(
    shards: Sequence[str | Path],
    tokenizer: WordPieceTokenizer,
    *,
    short: Slice,
    long: Slice,
    held_out: Slice,
    folder: str | Path,
    lengths: str | Path,
) -> None:
    """Tokenise a corpus without labels: the short and the long slice to `train`, the held-out one to `validation`.

    Args:
        shards: prepared Parquet files (`id`, `text`), in dataset order.
        tokenizer: tokeniser.
        short: the first articles.
        long: the articles after those.
        held_out: the articles after those.
        folder: where the folders of the two splits appear.
        lengths: JSON file of the statistics to appear.

    Raises:
        ConfigError: a slice's `max_tokens` leaves no room for [CLS] and [SEP].
        DataError: a shard cannot be read, or all together hold fewer articles than the slices ask for.
    """
    articles = _read(shards, ["id", "text"])

    def take(part: Slice) -> tuple[Iterator[dict[str, Any]], int]:
        return islice(articles, part.articles), part.max_tokens

    with contextlib.ExitStack() as stack:
        train, validation = (
            stack.enter_context(atomic_path(Path(folder) / split)) for split in ("train", "validation")
        )
        short_lengths, long_lengths = _write([take(short), take(long)], tokenizer, train, labelled=False)
        (held_out_lengths,) = _write([take(held_out)], tokenizer, validation, labelled=False)
        kept = len(short_lengths) + len(long_lengths) + len(held_out_lengths)
        if kept < (wanted := short.articles + long.articles + held_out.articles):
            raise DataError(
                f"{kept} articles of the corpus were kept, but short.articles {short.articles} + "
                f"long.articles {long.articles} + held_out.articles {held_out.articles} = {wanted} are asked for. "
                "Lower these settings, lower min_keywords, or give the source more files (documents, if generated)."
            )
    statistics = {
        "train": _describe(np.concatenate([short_lengths, long_lengths]), max(short.max_tokens, long.max_tokens)),
        "train_short": _describe(short_lengths, short.max_tokens),
        "train_long": _describe(long_lengths, long.max_tokens),
        "validation": _describe(held_out_lengths, held_out.max_tokens),
    }
    write_json(lengths, statistics)


def tokenize_dataset(
    sources: Mapping[str, str | Path],
    tokenizer: WordPieceTokenizer,
    *,
    max_tokens: int,
    folder: str | Path,
    lengths: str | Path,
) -> None:
    """Tokenise the splits of a labelled dataset.

    Args:
        sources: prepared Parquet file (`id`, `text`, `label`) of each split.
        tokenizer: tokeniser.
        max_tokens: tokens a document is cut to, [CLS] and [SEP] included.
        folder: where the folders of the splits appear.
        lengths: JSON file of the statistics to appear.

    Raises:
        ConfigError: `max_tokens` leaves no room for [CLS] and [SEP].
        DataError: a file cannot be read or is empty, or a document has no label.
    """
    statistics = {}
    with contextlib.ExitStack() as stack:
        for split, source in sources.items():
            target = stack.enter_context(atomic_path(Path(folder) / split))
            rows = _read([source], ["id", "text", "label"])
            (split_lengths,) = _write([(rows, max_tokens)], tokenizer, target, labelled=True)
            if not split_lengths.size:
                raise DataError(f"{source}: holds no document. Prepare the dataset again.")
            statistics[split] = _describe(split_lengths, max_tokens)
    write_json(lengths, statistics)


def export_tensors(tokens: str | Path, target: str | Path, max_tokens: int, pad_token_id: int) -> None:
    """Write a tokenised split as one padded `TensorDataset`, held in memory, in the layout of the study's .pt files.

    Its tensors are the ids (int64, [B, N]), the mask (bool, [B, N]) and, of a labelled split, the labels (int64, [B]).
    The mask is true at padding: the opposite of the `attention_mask` of transformers and of this project's batches.

    Args:
        tokens: folder of a tokenised split.
        target: .pt file to appear; `torch.load(target, weights_only=False)` reads it.
        max_tokens: length of every row; longer documents are cut, their last token ([SEP]) kept.
        pad_token_id: id of the padding.

    Raises:
        ConfigError: `max_tokens` leaves no room for [CLS] and [SEP].
        DataError: the folder is not a tokenised split.
    """
    require_room(max_tokens)
    split = load_tokens(tokens).with_format("numpy")
    rows = [row if len(row) <= max_tokens else [*row[: max_tokens - 1], row[-1]] for row in split["input_ids"]]
    ids, is_real = pad_ids(rows, max_tokens, pad_token_id)
    tensors = [ids, is_real == 0]
    if "label" in split.column_names:
        tensors.append(torch.as_tensor(np.asarray(split["label"]), dtype=torch.long))
    with atomic_path(target) as partial:
        torch.save(TensorDataset(*tensors), partial)


def _read(paths: Sequence[str | Path], columns: list[str]) -> Iterator[dict[str, Any]]:
    """Yield the rows of Parquet files, without holding a file in memory."""
    for path in paths:
        try:
            with pq.ParquetFile(path, pre_buffer=False) as file:
                if missing := [column for column in columns if column not in file.schema_arrow.names]:
                    raise DataError(f"{path}: has no column {', '.join(missing)}. Prepare the corpus again.")
                for batch in file.iter_batches(_BATCH, columns=columns):
                    yield from batch.to_pylist()
        except (OSError, pa.ArrowException) as error:
            raise DataError(f"{path}: cannot be read as Parquet ({error}). Prepare the corpus again.") from error


def _write(
    parts: Sequence[tuple[Iterator[dict[str, Any]], int]],
    tokenizer: WordPieceTokenizer,
    folder: Path,
    labelled: bool,
) -> list[np.ndarray]:
    """Write the rows of `parts` (rows, max_tokens) one after the other as a split; return the lengths of each."""
    fields = [("id", pa.string()), ("input_ids", pa.list_(pa.int32())), ("length", pa.int32())]
    schema = pa.schema([*fields, ("label", pa.int64())] if labelled else fields)
    stream = folder.parent / "tokens.arrow"
    lengths = []
    with pa.OSFile(str(stream), "wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
        for rows, max_tokens in parts:
            of_part = array("i")
            while batch := list(islice(rows, _BATCH)):
                ids = tokenizer.encode_ragged([row["text"] for row in batch], max_tokens)
                columns = {"id": [row["id"] for row in batch], "input_ids": ids, "length": [len(row) for row in ids]}
                if labelled:
                    columns["label"] = [_label(row) for row in batch]
                writer.write_batch(pa.RecordBatch.from_pydict(columns, schema))
                of_part.extend(columns["length"])
            lengths.append(np.array(of_part))
    disable_progress_bars()
    # A dataset opened from a file is mapped, not loaded, and puts nothing into the user's cache. Without a number of
    # files, an empty one would be saved as none, which does not load.
    Dataset.from_file(str(stream)).save_to_disk(str(folder), num_shards=1)
    stream.unlink()
    return lengths


def _label(row: dict[str, Any]) -> int:
    if row["label"] is None:
        raise DataError(f"document {row['id']}: has no label. Expected a class number; prepare the dataset again.")
    return row["label"]


def _describe(lengths: np.ndarray, max_tokens: int) -> dict[str, float | int | None]:
    if not lengths.size:
        return {"max_tokens": max_tokens, "documents": 0} | dict.fromkeys(
            ("mean", "std", "median", "min", "max", "at_limit")
        )
    return {
        "max_tokens": max_tokens,
        "documents": int(lengths.size),
        "mean": float(lengths.mean()),
        "std": float(lengths.std()),
        "median": float(np.median(lengths)),
        "min": int(lengths.min()),
        "max": int(lengths.max()),
        "at_limit": float((lengths == max_tokens).mean()),
    }
