"""Description of the texts of a dataset: length, language, and repetitions.

Near copies are found by MinHash (A. Broder, "On the resemblance and containment of documents", 1997) and locality-
sensitive hashing in bands (J. Leskovec, A. Rajaraman and J. Ullman, "Mining of Massive Datasets", chapter 3), and then
compared exactly: so every near copy found is one, and the probability of finding one is known.
"""

import json
import logging
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from datasketch import MinHash, MinHashLSH
from py3langid.langid import MODEL_FILE, LanguageIdentifier

from lib.core.errors import DataError
from lib.core.files import atomic_path
from lib.preparing.folds import SPLITS
from lib.preparing.settings.dataset import NearCopies, TextDescription
from lib.reading.same_texts import text_digest
from lib.reading.words import IDENTIFIED_BY, UNSURE, words_of

logger = logging.getLogger(__name__)

TRAINING, *HELD_OUT = SPLITS
SCHEMA = pa.schema(
    [
        ("split", pa.dictionary(pa.int8(), pa.string())),
        ("id", pa.string()),
        ("label", pa.dictionary(pa.int16(), pa.string())),
        ("words", pa.int32()),
        ("language", pa.dictionary(pa.int16(), pa.string())),
        ("repeated", pa.bool_()),
        ("near_copy", pa.bool_()),
        ("featureless", pa.bool_()),
    ]
)
RECALL = 0.95
"""Share of the pairs at the threshold that banding finds, at least."""
SEED = 1
_LETTERS = re.compile(r"\b\w\w+\b")


def describe_dataset(files: Mapping[str, str | Path], target: str | Path, settings: TextDescription) -> None:
    """Write the description of a dataset, one row per document (`SCHEMA`).

    A pair of texts is described as one text. `label` is the name of the class, `words` counts the words (`words_of`),
    `language` is an ISO 639 code, `repeated` says that an earlier document of the split has the same text, and
    `near_copy` that training has a near copy of it; that is null in training, and `label` where documents bear none or
    no class. `featureless` says that TF-IDF of words finds nothing to count: no word that two training documents have.
    The metadata `near_copies` define a near copy, and give the recall of the search.

    Args:
        files: prepared documents of the splits train, validation and test.
        target: Parquet file to appear.
        settings: names of the classes, and the definition of near copies.

    Raises:
        DataError: a file cannot be read.
    """
    held_out = [text for split in HELD_OUT for _, text, _ in _documents(files[split])]
    training = (text for _, text, _ in _documents(files[TRAINING]))
    copied = near_copies(held_out, training, settings.near_copies)
    known = json.dumps(settings.near_copies.model_dump() | {"recall": recall(settings.near_copies)})
    documents_with = Counter(word for _, text, _ in _documents(files[TRAINING]) for word in _features(text))
    features = {word for word, documents in documents_with.items() if documents > 1}
    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True, min_confidence=UNSURE)
    with (
        atomic_path(target) as partial,
        pq.ParquetWriter(partial, SCHEMA.with_metadata({"near_copies": known}), compression="zstd") as writer,
    ):
        for split in SPLITS:
            columns = [name for name in SCHEMA.names if name not in ("split", "near_copy")]
            frame = pd.DataFrame(_rows(files[split], settings.labels, identifier, features), columns=columns)
            frame["split"], frame["near_copy"] = split, None
            logger.info("%s: %d of %d are featureless for TF-IDF", split, frame["featureless"].sum(), len(frame))
            if split in HELD_OUT:
                frame["near_copy"], copied = copied[: len(frame)], copied[len(frame) :]
                logger.info("%s: %d of %d have a near copy in training", split, frame["near_copy"].sum(), len(frame))
            writer.write_table(pa.Table.from_pandas(frame, SCHEMA, preserve_index=False))


def near_copies(texts: Sequence[str], training: Iterable[str], settings: NearCopies) -> np.ndarray:
    """Return for each of `texts` whether one of `training` is a near copy of it, bool [texts].

    All that are called so are; of those whose nearest one is just at the threshold, the share `recall` is found, of
    nearer ones more. Memory grows with `texts`, not with `training`.
    """
    found = np.zeros(len(texts), bool)
    index = MinHashLSH(num_perm=settings.permutations, params=_bands(settings))
    for number, (_, sketch) in enumerate(_sketched(texts, settings)):
        index.insert(number, sketch, check_duplication=False)
    for pieces, sketch in _sketched(training, settings):
        for number in index.query(sketch):
            if jaccard(pieces, shingles(texts[number], settings)) >= settings.threshold:
                found[number] = True
                index.remove(number)
    return found


def shingles(text: str, settings: NearCopies) -> set[str]:
    """Return the runs of words or characters of a text in lower case; the whole of it, if it is shorter than a run."""
    words = words_of(text.lower())
    units, glue = (words, " ") if settings.unit == "words" else (" ".join(words), "")
    starts = range(max(1, len(units) - settings.size + 1))
    return {glue.join(units[start : start + settings.size]) for start in starts}


def _features(text: str) -> set[str]:
    """Return the words of two letters or more, as TF-IDF separates them."""
    return set(_LETTERS.findall(text.lower()))


def jaccard(first: set[str], second: set[str]) -> float:
    """Return which share of all that two sets have they share; neither is empty."""
    shared = len(first & second)
    return shared / (len(first) + len(second) - shared)


def recall(settings: NearCopies) -> float:
    """Return how likely a pair whose similarity is just the threshold is found."""
    return _recall(settings, *_bands(settings))


def _recall(settings: NearCopies, bands: int, rows: int) -> float:
    return 1 - (1 - settings.threshold**rows) ** bands


def _bands(settings: NearCopies) -> tuple[int, int]:
    """Return number and rows of the bands: with more rows, fewer different pairs are compared."""
    divisions = [(settings.permutations // rows, rows) for rows in range(1, settings.permutations // 2 + 1)]
    enough = [each for each in divisions if _recall(settings, *each) >= RECALL]
    return enough[-1] if enough else divisions[0]


def _sketched(texts: Iterable[str], settings: NearCopies) -> Iterator[tuple[set[str], MinHash]]:
    """Yield the shingles of each text and their MinHash."""
    empty = MinHash(settings.permutations, seed=SEED, hashfunc=lambda piece: zlib.crc32(piece.encode()))
    for text in texts:
        pieces, sketch = shingles(text, settings), empty.copy()
        sketch.update_batch(pieces)
        yield pieces, sketch


def _rows(
    file: str | Path, labels: Sequence[str] | None, identifier: LanguageIdentifier, features: set[str]
) -> Iterator[tuple[str, str | None, int, str, bool, bool]]:
    seen = set()
    for name, text, label in _documents(file):
        digest = text_digest(text)
        language, _ = identifier.classify(text[:IDENTIFIED_BY])
        named = labels[label] if labels and label is not None else None
        yield name, named, len(words_of(text)), language, digest in seen, features.isdisjoint(_features(text))
        seen.add(digest)


def _documents(file: str | Path) -> Iterator[tuple[str, str, Any]]:
    """Yield identity, text and label of each document; the texts of a pair are one, in two lines."""
    try:
        with pq.ParquetFile(file) as source:
            texts = [name for name in ("text", "text_pair") if name in source.schema_arrow.names]
            for batch in source.iter_batches(1024, columns=["id", "label", *texts]):
                for row in batch.to_pylist():
                    yield row["id"], "\n".join(row[name] for name in texts), row["label"]
    except (OSError, ValueError, KeyError) as error:  # pyarrow's own errors derive from the first two
        raise DataError(
            f"{file}: cannot be read ({error}). Expected prepared documents with the columns id, text and label. "
            "Prepare the dataset again."
        ) from error
