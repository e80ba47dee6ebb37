"""Settings of the analysis of reliance."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from lib.analysis.settings import AnalysisSettings
from lib.core.settings import Few, FewOrZero, PositiveInt, Size

Measure = Literal["gradient", "words", "sentences"]
Share = Annotated[float, Field(gt=0, lt=1)]


class Settings(AnalysisSettings):
    """Which words carry a prediction, and what is left of it without the strongest ones, or with them alone."""

    needs_labels: ClassVar[bool] = True
    needs_single_tokens: ClassVar[bool] = False
    needs_task: ClassVar[str | None] = "sequence_classification"
    beside: ClassVar[str | None] = "tfidf"

    kind: Literal["reliance"]
    documents: PositiveInt = Field(
        100, ge=2, description="How many documents of test are read, at most: a draw by the seed."
    )
    length: Size = Field(
        256,
        ge=3,
        description="Tokens that longer documents are cut to. With `words` among the measures, the time grows with its "
        "square.",
    )
    measures: list[Measure] = Field(
        ["gradient", "words", "sentences"],
        description="How the strength of a word is measured: `gradient` times input; the change when the word is "
        "occluded (`words`), or its sentence (`sentences`). The weights of the study's TF-IDF row, if it has one, and "
        "a random order are shown for comparison.",
    )
    occlude: Literal["mask", "remove"] = Field(
        "mask", description="Tokens of a word that is taken away become the mask token, or leave the document."
    )
    amounts: list[Size | Share] = Field(
        [0.01, 0.05, 0.1, 0.2, 0.5],
        min_length=1,
        description="How many of a document's strongest words are taken away, or kept alone: a number of words, or a "
        "share of them, below 1 (at least one word).",
    )
    draws: Few = Field(3, description="Random orders of a document's words; their results are averaged.")
    examples: FewOrZero = Field(4, description="Documents that the report shows with their words shaded.")
