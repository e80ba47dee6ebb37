"""From prepared Parquet parts to tokenised splits on disk. Reading them back is `lib.tokens.stored`.

A split is a folder that `datasets.load_from_disk` opens. Next to the splits are the statistics of their lengths,
`{split: {max_tokens, documents, mean, std, median, min, max, at_limit, unknown, empty, dropped}}`, in tokens;
`at_limit` is the share of documents that fill `max_tokens`, and the last three are shares of lost text
(`lib.tokens.coverage`). If spans are labelled, windows replace documents, in splits and
statistics alike. The length of a pair of texts that is read separately is that of both. A corpus has `train_short` and
`train_long` besides `train`.
"""

import contextlib
import itertools
import logging
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from datasets import Dataset, disable_progress_bars

from lib.core.errors import DataError
from lib.core.files import atomic_path, write_json
from lib.core.labels import IGNORED, UNKNOWN, words
from lib.preparing.parts import label_form_of, opened_part, read_part, texts_of_part
from lib.preparing.settings.corpus import Slice
from lib.preparing.settings.tokenizer import Tokenizer
from lib.reading.spans import marked, token_labels
from lib.tokens import vocabularies
from lib.tokens.coverage import Coverage, shares
from lib.tokens.cutting import encode_cut, encode_cut_pairs, encode_cut_words, note_cut
from lib.tokens.stored import note_stride
from lib.tokens.tokenizer import TextTokenizer

logger = logging.getLogger(__name__)

_BATCH = 512
"""Documents held in memory at once."""


class StoredTexts:
    """The texts of prepared Parquet files, both of a pair, as often as they are asked for.

    Args:
        paths: files with a column `text`, and perhaps `text_pair`, in order.
    """

    def __init__(self, paths: Sequence[str | Path]) -> None:
        self._paths = paths

    def __iter__(self) -> Iterator[str]:
        for path in self._paths:
            for texts in texts_of_part(path):
                yield from texts


def make_tokenizer(settings: Tokenizer, sources: Sequence[str], target: str | Path) -> None:
    """Make the folder of a tokeniser as its settings say.

    Args:
        settings: of the tokeniser.
        sources: a vocab.txt, the folder of a published tokeniser, or prepared files of texts; none for bytes.
        target: folder to appear.

    Raises:
        ConfigError: the vocabulary has a token to be added, or gaps in its ids that leave no id for it.
        DataError: a source cannot be read, or none holds a word.
    """
    with atomic_path(target) as partial_folder:
        if settings.algorithm == "published":
            vocabularies.from_published(sources[0], partial_folder, settings.mask_token)
        elif settings.source in ("hub", "local"):
            options = settings.lowercase, settings.strip_accents, settings.enclose
            vocabularies.from_vocabulary(sources[0], partial_folder, *options)
        else:
            train_tokenizer(StoredTexts(sources), settings, partial_folder)
        if settings.sentinels:
            vocabularies.add_sentinels(partial_folder, settings.sentinels)
        note_cut(partial_folder, settings.cut)


def train_tokenizer(texts: Iterable[str], settings: Tokenizer, target: str | Path) -> None:
    """Train a vocabulary and save the tokeniser's folder; bytes need no training.

    Args:
        texts: the texts themselves; not read for bytes.
        settings: definition of a token, size of the vocabulary, frequency, case and accents, enclosing tokens.
        target: folder to appear.

    Raises:
        DataError: a file of the texts cannot be read, or none holds a word.
    """
    sizes = (settings.vocab_size, settings.occurrences)
    if settings.algorithm == "words":
        vocabularies.train_words(target, texts, *sizes, settings.enclose)
    elif settings.algorithm == "bpe":
        vocabularies.train_byte_pairs(target, texts, *sizes, settings.enclose)
    elif settings.algorithm == "bytes":
        vocabularies.save_bytes(target, settings.enclose)
    else:
        options = settings.lowercase, settings.strip_accents, settings.enclose
        vocabularies.train_wordpiece(target, texts, *sizes, *options)


def tokenize_corpus(
    shards: Sequence[str | Path],
    tokenizer: TextTokenizer,
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
    articles = itertools.chain.from_iterable(read_part(shard, ["id", "text"]) for shard in shards)
    with contextlib.ExitStack() as stack:
        written = {}
        for split, slices in (("train", (short, long)), ("validation", (held_out,))):
            target = stack.enter_context(atomic_path(Path(folder) / split))
            parts = [(itertools.islice(articles, part.articles), part.max_tokens) for part in slices]
            written[split] = _write(parts, tokenizer, target)
        (of_short, of_long), (of_held_out,) = (each.lengths for each in written.values())
        kept = len(of_short) + len(of_long) + len(of_held_out)
        if kept < (wanted := short.articles + long.articles + held_out.articles):
            raise DataError(
                f"{kept} articles of the corpus were kept, of {len(shards)} files, but short.articles {short.articles} "
                f"+ long.articles {long.articles} + held_out.articles {held_out.articles} = {wanted} are asked for. "
                "Name more `files` of the source (documents, if generated), or lower these settings."
            )
        for split, each in written.items():
            each.coverage.check(f"the articles of {split}, {shards[0]}")
    longest = max(short.max_tokens, long.max_tokens)
    training, validation = written.values()
    statistics = {
        "train": _describe(np.concatenate([of_short, of_long]), longest, training),
        "train_short": _describe(of_short, short.max_tokens, training),
        "train_long": _describe(of_long, long.max_tokens, training),
        "validation": _describe(of_held_out, held_out.max_tokens, validation),
    }
    write_json(lengths, statistics)


def tokenize_dataset(
    sources: Mapping[str, str | Path],
    tokenizer: TextTokenizer,
    *,
    max_tokens: int,
    folder: str | Path,
    lengths: str | Path,
    window_stride: float = 0.5,
    separately: bool = False,
) -> None:
    """Tokenise the splits of a labelled dataset; test may have no labels.

    Labels of words go to the first token of each word; the other tokens, and words that are cut off, have none. Where
    spans are labelled, every token has a label (`lib.reading.spans.token_labels`), and nothing is cut off: a document
    becomes one or more windows, whose rows share its `id` and hold what puts them together again. Where test has no
    labels, those of its tokens are `lib.core.labels.UNKNOWN`.

    Args:
        sources: prepared Parquet file (`id`, `text`, `label`, perhaps `group` and `text_pair`) of each split.
        tokenizer: tokeniser.
        max_tokens: tokens a document is cut to, or of a window, [CLS] and [SEP] included.
        folder: where the folders of the splits appear.
        lengths: JSON file of the statistics to appear.
        window_stride: how far behind the one before a window begins, see `TextTokenizer.encode_windows`.
        separately: the texts of a pair become two sequences, each cut to `max_tokens`, the second one as `pair_ids`;
            otherwise one, with `token_type_ids` (`lib.tokens.cutting.encode_cut_pairs`).

    Raises:
        ConfigError: `max_tokens` leaves no room for [CLS] and [SEP], or windows leave tokens out, or the tokeniser
            knows no places in texts, which spans need, or puts nothing between the texts of a pair.
        DataError: a file cannot be read or is empty, a document has no label or no token, or no token has a label, or
            none lies in a span.
    """
    statistics = {}
    with contextlib.ExitStack() as stack:
        for split, source in sources.items():
            target = stack.enter_context(atomic_path(Path(folder) / split))
            with opened_part(source) as file:
                prepared = file.schema_arrow
                without_labels = split == "test" and file.read(["label"])["label"].null_count == file.metadata.num_rows
            label_form = label_form_of(prepared)
            rows = (_completed(row, label_form, without_labels) for row in read_part(source))
            written = _write([(rows, max_tokens)], tokenizer, target, prepared, window_stride, separately)
            (split_lengths,) = written.lengths
            if not split_lengths.size:
                raise DataError(f"{source}: holds no document. Prepare the dataset again.")
            if label_form in ("word", "span") and not written.labelled and not without_labels:
                raise DataError(
                    f"{source}: none of its {written.labels:,} labels (of words) or spans belongs to a token. Check "
                    f"them, or raise max_tokens = {max_tokens}."
                )
            if lost := written.labels - written.labelled:
                logger.warning("%s: %d of %d labels have no token: cut off, or dropped", source, lost, written.labels)
            written.coverage.check(source)
            limit = 2 * max_tokens if separately else max_tokens
            statistics[split] = _describe(split_lengths, limit, written)
    write_json(lengths, statistics)


class _Written(NamedTuple):
    """Origin of a split."""

    lengths: list[np.ndarray]
    """Tokens of each document or window, by part."""
    labels: int
    """Labels of words, or spans."""
    labelled: int
    """Labels that reach a token, or spans with at least one token."""
    coverage: Coverage


def _write(
    parts: Sequence[tuple[Iterator[dict[str, Any]], int]],
    tokenizer: TextTokenizer,
    folder: Path,
    prepared: pa.Schema | None = None,
    window_stride: float = 0.5,
    separately: bool = False,
) -> _Written:
    """Write the rows of `parts` (rows, max_tokens) one after the other as a split.

    Args:
        parts: in order.
        tokenizer: tokeniser.
        folder: to appear.
        prepared: schema of the rows of a labelled dataset; None = they have no labels.
        window_stride: of windows, where spans are labelled.
        separately: whether the texts of a pair become two sequences.
    """
    label_form = "class" if prepared is None else label_form_of(prepared)
    schema = _schema_of_tokens(prepared, separately)
    stream = folder.parent / "tokens.arrow"
    lengths, coverage = [], Coverage(tokenizer)
    labels = labelled = 0
    with pa.OSFile(str(stream), "wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
        for rows, max_tokens in parts:
            of_part = array("i")
            while batch := list(itertools.islice(rows, _BATCH)):
                if label_form == "span":
                    columns, with_token = _windows(batch, tokenizer, max_tokens, window_stride, schema.names)
                    labels += sum(len(row["label"] or ()) for row in batch)
                    labelled += with_token
                else:
                    columns = _tokenised(batch, tokenizer, max_tokens, schema.names)
                if label_form == "word":
                    labels += sum(label != IGNORED for row in batch for label in row["label"])
                    labelled += sum(label != IGNORED for row in columns["labels"] for label in row)
                _require_tokens(columns)
                texts = [row[name] for name in ("text", "text_pair") if name in batch[0] for row in batch]
                coverage.add(texts, [*columns["input_ids"], *columns.get("pair_ids", ())])
                writer.write_batch(pa.RecordBatch.from_pydict(columns, schema))
                of_part.extend(columns["length"])
            lengths.append(np.array(of_part))
    disable_progress_bars()
    # A dataset opened from a file is mapped, not loaded, and puts nothing into the user's cache. Without a number of
    # files, an empty one would be saved as none, which does not load.
    stored = Dataset.from_file(str(stream))
    if label_form == "span":
        stored.info.description = note_stride(window_stride)
    stored.save_to_disk(str(folder), num_shards=1)
    stream.unlink()
    return _Written(lengths, labels, labelled, coverage)


def tokens_of(
    rows: Sequence[dict[str, Any]],
    prepared: pa.Schema,
    tokenizer: TextTokenizer,
    max_tokens: int,
    window_stride: float = 0.5,
    *,
    separately: bool = False,
) -> Dataset:
    """Return documents without labels, tokenised as those of a test split, in memory.

    Args:
        rows: documents by the columns of `prepared`; their labels do not count.
        prepared: schema of prepared documents.
        tokenizer: tokeniser.
        max_tokens: as of `tokenize_dataset`, like the next two.
        window_stride: of windows.
        separately: whether the texts of a pair become two sequences.
    """
    label_form, schema = label_form_of(prepared), _schema_of_tokens(prepared, separately)
    completed = [_completed(row, label_form, without_labels=True) for row in rows]
    if label_form == "span":
        columns, _ = _windows(completed, tokenizer, max_tokens, window_stride, schema.names)
    else:
        columns = _tokenised(completed, tokenizer, max_tokens, schema.names)
    _require_tokens(columns)
    return Dataset(pa.Table.from_pydict(columns, schema))


def _schema_of_tokens(prepared: pa.Schema | None, separately: bool) -> pa.Schema:
    """Return the columns of a split; arguments as of `_write`."""
    label_form = "class" if prepared is None else label_form_of(prepared)
    fields = [("id", pa.string()), ("input_ids", pa.list_(pa.int32())), ("length", pa.int32())]
    if prepared is not None:
        of_tokens = label_form in ("word", "span")
        fields.append(("labels", pa.list_(pa.int64())) if of_tokens else ("label", prepared.field("label").type))
        fields += [("group", prepared.field("group").type)] if "group" in prepared.names else []
        if "text_pair" in prepared.names:
            fields.append(("pair_ids" if separately else "token_type_ids", pa.list_(pa.int32())))
    if label_form == "span":
        fields += [(name, pa.list_(pa.int32())) for name in ("starts", "ends")]
        fields += [("spans", pa.list_(pa.list_(pa.int64()))), ("characters", pa.int32())]
    return pa.schema(fields)


def _tokenised(
    rows: Sequence[Mapping[str, Any]], tokenizer: TextTokenizer, max_tokens: int, names: Sequence[str]
) -> dict[str, list[Any]]:
    """Return the columns `names` of a split for some documents."""
    texts = [row["text"] for row in rows]
    columns = {name: [row[name] for row in rows] for name in ("id", "group") if name in names}
    if "token_type_ids" in names:
        pairs = [(row["text"], row["text_pair"]) for row in rows]
        columns["input_ids"], columns["token_type_ids"] = encode_cut_pairs(tokenizer, pairs, max_tokens)
    elif "labels" in names:
        columns["input_ids"], begun = encode_cut_words(tokenizer, texts, max_tokens)
        columns["labels"] = [
            [IGNORED if word is None else labels[word] for word in words]
            for labels, words in zip([row["label"] for row in rows], begun, strict=True)
        ]
    else:
        encode = partial(encode_cut, tokenizer) if "label" in names else tokenizer.encode_ragged
        columns["input_ids"] = encode(texts, max_tokens)
    if "label" in names:
        columns["label"] = [row["label"] for row in rows]
    if "pair_ids" in names:
        columns["pair_ids"] = encode_cut(tokenizer, [row["text_pair"] for row in rows], max_tokens)
    both = zip(columns["input_ids"], columns.get("pair_ids", itertools.repeat(())), strict=False)
    columns["length"] = [len(first) + len(second) for first, second in both]
    return columns


def _windows(
    rows: Sequence[Mapping[str, Any]], tokenizer: TextTokenizer, max_tokens: int, stride: float, names: Sequence[str]
) -> tuple[dict[str, list[Any]], int]:
    """Return the columns `names` of a split for the windows of some documents, and how many spans hold a token."""
    columns: dict[str, list[Any]] = {name: [] for name in names}
    with_token = 0
    encoded = tokenizer.encode_windows([row["text"] for row in rows], max_tokens, stride)
    for row, windows in zip(rows, encoded, strict=True):
        spans, characters = row["label"], len(row["text"])
        inside, read = marked(spans or (), characters), np.zeros(characters, bool)
        for ids, starts, ends in windows:
            found = {"input_ids": ids, "length": len(ids), "starts": starts, "ends": ends, "spans": spans}
            labels = token_labels(starts, ends, inside)
            if spans is None:
                labels = [label if label == IGNORED else UNKNOWN for label in labels]
            found |= {"labels": labels, "characters": characters}
            for name in names:
                columns[name].append(found[name] if name in found else row[name])
            read |= marked(zip(starts, ends, strict=True), characters)
        with_token += sum(bool(read[start:end].any()) for start, end in spans or ())
    return columns, with_token


def _require_tokens(columns: Mapping[str, Sequence[Any]]) -> None:
    for texts in (columns["input_ids"], columns.get("pair_ids", ())):
        if empty := [document for document, ids in zip(columns["id"], texts, strict=False) if not len(ids)]:
            raise DataError(f"document {empty[0]}: has no token. Remove it, or set the tokeniser's 'enclose' to true.")


def _completed(row: dict[str, Any], label_form: str, without_labels: bool) -> dict[str, Any]:
    """Return a document with its label; if words of a split without labels have some, with unknown ones."""
    if without_labels:
        return row | {"label": [UNKNOWN] * len(words(row["text"]))} if label_form == "word" else row
    if row["label"] is None:
        raise DataError(f"document {row['id']}: has no label. Expected a class number; prepare the dataset again.")
    return row


def _describe(lengths: np.ndarray, max_tokens: int, written: _Written) -> dict[str, float | int | None]:
    found: dict[str, float | int | None] = {"max_tokens": max_tokens, "documents": lengths.size}
    for name in ("mean", "std", "median", "min", "max"):
        found[name] = getattr(np, name)(lengths).item() if lengths.size else None
    found["at_limit"] = float((lengths == max_tokens).mean()) if lengths.size else None
    return found | shares(written.coverage.counts)
