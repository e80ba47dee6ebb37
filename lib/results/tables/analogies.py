"""Whether word vectors know that a man is to a king as a woman to a queen."""

from typing import ClassVar, Literal

import pandas as pd
from pydantic import Field

from lib.results.scope import Scope
from lib.results.settings import TableSettings, Topic
from lib.results.table import Column, Table


class Settings(TableSettings):
    """One row per word vectors and relation: how many questions of analogy they know the words of, and answer."""

    about: ClassVar[Topic] = "texts"
    reads: ClassVar[Literal["word_vectors"]] = "word_vectors"

    kind: Literal["analogies"]
    word_vectors: list[str] | None = Field(None, description="Names of the word vectors, in order; null = all.")


def make(settings: Settings, scope: Scope) -> Table:
    """Return questions, those of which all words have a vector, and the share of these that is answered correctly.

    Shares are means over the seeds of the vectors, with the standard deviation if there are several. The last
    row of each vectors is about all questions together.

    Args:
        settings: nothing else to set.
        scope: whose files are folders of word vectors.

    Raises:
        DataError: the vectors cannot be read.
    """
    from lib.word_vectors.analogies import Answers, answer  # gensim takes seconds to import
    from lib.word_vectors.storage import load_vectors

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
    note = None
    if several:
        columns = {"seeds": Column("seeds", 0)} | columns
        note = "Mean ± standard deviation over trainings of the vectors with other seeds."
    return Table(means if several else means.drop(columns=["seeds", "accuracy_sd"]), columns, note)
