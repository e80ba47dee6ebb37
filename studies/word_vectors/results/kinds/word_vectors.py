"""What word vectors know: answers to questions of analogy, and the words nearest to a word."""

from pathlib import Path
from typing import ClassVar, Literal

import pandas as pd
from pydantic import Field

from lib.core.settings import Few
from lib.results.scope import Scope
from lib.results.settings import TableSettings, Topic
from lib.results.table import Column, Table


class AnalogiesTable(TableSettings):
    """One row per word vectors and relation: how many questions of analogy they know the words of, and answer."""

    about: ClassVar[Topic] = "texts"
    reads: ClassVar[Literal["word_vectors"]] = "word_vectors"

    kind: Literal["analogies"]
    word_vectors: list[str] | None = None
    """Names of the word vectors, in order; null = all."""

    def make(self, scope: Scope) -> Table:
        """Return the questions, those whose words all have a vector, and the share of these answered correctly.

        Shares are means over the seeds of the vectors, with the standard deviation if there are several. The last
        row of each vectors is about all questions together.

        Args:
            scope: whose files are folders of word vectors.

        Raises:
            DataError: the vectors cannot be read.
        """
        from studies.word_vectors.analogies import Answers, answer  # gensim takes seconds to import
        from studies.word_vectors.storage import load_vectors

        rows = []
        for (name, _), folder in zip(scope.word_vectors, scope.files, strict=True):
            answers = answer(load_vectors(folder))
            total = Answers("all", *(sum(counts) for counts in zip(*(each[1:] for each in answers), strict=True)))
            rows += [{"vectors": name} | each._asdict() for each in [*answers, total]]
        frame = pd.DataFrame(rows).assign(
            accuracy=lambda all: (100 * all["correct"] / all["known"]).where(all["known"] > 0)
        )
        parts = frame.groupby(["vectors", "relation"], sort=False)
        means = parts.agg(
            seeds=("known", "size"),
            questions=("questions", "first"),
            known=("known", "first"),  # the words are those of the texts, whatever the seed
            accuracy=("accuracy", "mean"),
            accuracy_sd=("accuracy", "std"),
        ).reset_index()
        several = (means["seeds"] > 1).any()
        columns = {"questions": Column("questions", 0), "known": Column("all words known", 0)}
        columns["accuracy"] = Column("of these correct [%]", 1)
        if several:
            columns = {"seeds": Column("seeds", 0)} | columns
        shown = means if several else means.drop(columns=["seeds", "accuracy_sd"])
        return Table(shown, columns, deviations_over="trainings of the vectors with other seeds")


class NearestWordsTable(TableSettings):
    """One row per word vectors and word: the nearest other words."""

    about: ClassVar[Topic] = "texts"
    reads: ClassVar[Literal["word_vectors"]] = "word_vectors"

    kind: Literal["nearest_words"]
    word_vectors: list[str] | None = None
    """Names of the word vectors, in order; null = all."""
    words: list[str] = Field(min_length=1)
    """The words."""
    neighbours: Few = 5
    """How many words are shown for each."""

    def make(self, scope: Scope) -> Table:
        """Return the words nearest to each by cosine, with the cosine; of trained vectors, those of the first seed.

        `occurrences` are those in the texts that the vectors were trained on. A word without a vector has no
        neighbours.

        Args:
            scope: whose files are folders of word vectors.

        Raises:
            DataError: the vectors cannot be read.
        """
        from studies.word_vectors.storage import load_vectors  # gensim takes seconds to import

        first: dict[str, str | Path] = {}
        for (name, _), folder in zip(scope.word_vectors, scope.files, strict=True):
            first.setdefault(name, folder)
        rows = []
        for name, folder in first.items():
            keyed, lowercase = load_vectors(folder)
            for written in self.words:
                word = written.lower() if lowercase else written
                known = word in keyed.key_to_index
                near = keyed.most_similar(word, topn=self.neighbours) if known else []
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
