"""Which words lie nearest to a word."""

from pathlib import Path
from typing import ClassVar, Literal

import pandas as pd
from pydantic import Field

from lib.core.settings import Few
from lib.results.scope import Scope
from lib.results.settings import TableSettings, Topic
from lib.results.table import Column, Table


class Settings(TableSettings):
    """One row per word vectors and word: the nearest other words."""

    about: ClassVar[Topic] = "texts"
    reads: ClassVar[Literal["word_vectors"]] = "word_vectors"

    kind: Literal["nearest_words"]
    word_vectors: list[str] | None = Field(None, description="Names of the word vectors, in order; null = all.")
    words: list[str] = Field(min_length=1, description="The words.")
    neighbours: Few = Field(5, description="How many words are shown for each.")


def make(settings: Settings, scope: Scope) -> Table:
    """Return the words nearest to each by cosine, with the cosine; of trained vectors, those of the first seed.

    `occurrences` are those in the texts that the vectors were trained on. A word without a vector has no neighbours.

    Args:
        settings: which words.
        scope: whose files are folders of word vectors.

    Raises:
        DataError: the vectors cannot be read.
    """
    from lib.word_vectors.storage import load_vectors  # gensim takes seconds to import

    first: dict[str, str | Path] = {}
    for (name, _), folder in zip(scope.word_vectors, scope.files, strict=True):
        first.setdefault(name, folder)
    rows = []
    for name, folder in first.items():
        keyed, lowercase = load_vectors(folder)
        for written in settings.words:
            word = written.lower() if lowercase else written
            known = word in keyed.key_to_index
            near = keyed.most_similar(word, topn=settings.neighbours) if known else []
            counted = known and "count" in keyed.expandos
            rows.append(
                {
                    "vectors": name,
                    "word": written,
                    "occurrences": keyed.get_vecattr(word, "count") if counted else None,
                    "nearest": ", ".join(f"{other} {cosine:.2f}" for other, cosine in near) or None,
                }
            )
    frame = pd.DataFrame(rows)
    columns = {"occurrences": Column("occurrences", 0)}
    if frame["occurrences"].isna().all():
        return Table(frame.drop(columns="occurrences"), {})
    return Table(frame, columns)
