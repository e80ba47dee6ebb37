"""Documents whose evidence has a known place: the text of each prepared document, placed inside other articles.

Datasets that differ in `place` alone have the same texts and the same articles in each document, in another order of
sentences. So the difference between two places is that of the place.
"""

import logging
import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path

from lib.core.errors import DataError
from lib.core.files import atomic_path, write_json
from lib.core.labels import words
from lib.core.randomness import derive_seed
from lib.preparing.folds import SPLITS
from lib.preparing.labelled import SUMMARY
from lib.preparing.parts import PartWriter, read_part, schema_of_part
from lib.preparing.settings.placement import Place, Placement
from lib.reading.same_texts import text_digest
from lib.reading.words import ends_sentence

logger = logging.getLogger(__name__)

Sentences = list[list[str]]
"""Sentences, each as its words."""


def place_dataset(
    prepared: Mapping[str, str | Path],
    articles: Sequence[str | Path],
    target: str | Path,
    settings: Placement,
    used: int,
) -> None:
    """Place the text of every prepared document inside articles of a corpus, and cut the result to one length.

    Writes `train.parquet`, `validation.parquet` and `test.parquet` with the columns and labels of the prepared ones,
    and `summary.json`: documents, articles, and words of the placed texts by split. Words are separated by single
    spaces, so that white space shows no place. Each article surrounds one document, so splits share none; the articles
    are dealt in a random order of all documents, so splits have articles of the same kind. Both depend on seed and
    documents, and not on the place.

    Args:
        prepared: Parquet file of each split.
        articles: filtered Parquet files of the corpus, in dataset order.
        target: folder to appear, whole or not at all.
        settings: place and length.
        used: number of articles at the beginning that other parts of the study read.

    Raises:
        DataError: a file cannot be read, a text is longer than a document, or there are too few articles.
    """
    schemas = {split: schema_of_part(prepared[split]) for split in SPLITS}
    documents = [row | {"split": split} for split in SPLITS for row in read_part(prepared[split])]
    order = list(range(len(documents)))
    random.Random(derive_seed("placement", settings.seed)).shuffle(order)
    counts = {split: {"documents": 0, "articles": 0, "words": 0} for split in SPLITS}
    supply = _articles(articles, used, settings)
    for done, number in enumerate(order):
        row = documents[number]
        split, evidence = row["split"], sentences(row["text"])
        own = sum(map(len, evidence))
        if own > settings.words:
            raise DataError(
                f"{prepared[split]}: document {row['id']!r} has {own} words, but placement.words is {settings.words}. "
                "Expected room for each text; raise placement.words, or drop long texts by the dataset's max_chars."
            )
        surroundings, taken = _take(supply, settings.words - own)
        if own + sum(map(len, surroundings)) < settings.words:
            raise DataError(
                f"placement.corpus: {settings.corpus} has too few articles after its first {used}, which its slices "
                f"read: they surround {done} of {len(order)} documents of {settings.words} words. Lower "
                "split.documents or placement.words, or name more files of the corpus."
            )
        draw = random.Random(derive_seed("placement", settings.seed, "gaps", row["id"]))
        row["text"] = " ".join(word for each in placed(evidence, surroundings, settings.place, draw) for word in each)
        for name, more in (("documents", 1), ("articles", taken), ("words", own)):
            counts[split][name] += more
    with atomic_path(target) as folder:
        folder.mkdir()
        for split in SPLITS:
            with PartWriter(folder / f"{split}.parquet", schemas[split]) as writer:
                for row in documents:
                    if row["split"] == split:
                        writer.write(*(row[name] for name in schemas[split].names))
        write_json(folder / SUMMARY, {"splits": counts})
    logger.info("placed %d texts: %s", len(documents), settings.place)


def placed(evidence: Sentences, surroundings: Sentences, place: Place, draw: random.Random) -> Sentences:
    """Return the sentences of a document: evidence and surroundings, each in their own order.

    Args:
        evidence: sentences that are placed.
        surroundings: the other sentences.
        place: `start`, `middle` (between the two sentences nearest to the middle of the surroundings, by words), `end`,
            or `scattered` (each sentence of the evidence in a gap of its own draw; several may share one).
        draw: generator of the gaps.
    """
    if place == "scattered":
        gaps = sorted(draw.choices(range(len(surroundings) + 1), k=len(evidence)))
    else:
        gaps = [_gap(surroundings, place)] * len(evidence)
    found = []
    for number in range(len(surroundings) + 1):
        found += [sentence for sentence, gap in zip(evidence, gaps, strict=True) if gap == number]
        found += surroundings[number : number + 1]
    return found


def _gap(surroundings: Sentences, place: Place) -> int:
    """Return how many sentences of the surroundings come before the evidence."""
    if place == "middle":
        ends = [0, *accumulate(map(len, surroundings))]
        return min(range(len(ends)), key=lambda number: abs(2 * ends[number] - ends[-1]))
    return 0 if place == "start" else len(surroundings)


def _take(supply: Iterator[str], room: int) -> tuple[Sentences, int]:
    """Return sentences of the next articles, cut to `room` words, and the number of articles; less if they run out."""
    found: Sentences = []
    taken = 0
    while room > 0 and (article := next(supply, None)) is not None:
        taken += 1
        for sentence in sentences(article):
            if room > 0:
                found.append(sentence[:room])
                room -= len(found[-1])
    return found, taken


def _articles(files: Sequence[str | Path], used: int, settings: Placement) -> Iterator[str]:
    """Yield the articles after those that others read; of the same articles, only the first."""
    seen: set[bytes] = set()
    for number, row in enumerate(row for file in files for row in read_part(file)):
        digest = text_digest(row["text"])
        if number >= used and digest not in seen:
            yield row["text"]
        seen.add(digest)


def sentences(text: str) -> list[list[str]]:
    """Return the sentences of a text, each as its words; together they are `lib.core.labels.words` of the text."""
    found: list[list[str]] = []
    ended = True
    for word in words(text):
        if ended:
            found.append([])
        found[-1].append(word)
        ended = ends_sentence(word)
    return found
