"""Settings of the analysis of embeddings."""

from typing import ClassVar, Literal

from pydantic import Field

from lib.analysis.settings import AnalysisSettings
from lib.core.settings import PositiveInt


class Settings(AnalysisSettings):
    """A word's contextual states compared with its static embedding, by the classes of the documents."""

    needs_labels: ClassVar[bool] = True

    kind: Literal["embeddings"]
    documents: PositiveInt = Field(200, description="How many documents of test with the word are read, at most.")
    word: str = Field(description="The word, one token of the vocabulary, in documents of several classes.")
