"""Settings of word vectors. Imports neither gensim nor other slow modules."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from lib.core.settings import BaseSettings, EntryName, Few, NonNegativeFloat, PositiveInt, check

Width = Annotated[int, Field(gt=0, le=10_000)]
"""Numbers of a vector. The bound is far above any use."""


class WordVectors(BaseSettings):
    """A vector per word, independent of its context: trained on texts of the study, or read from a file."""

    source: Literal["trained", "local"]
    """Source of the vectors. Trained ones differ from seed to seed; a run uses those of its seed."""
    dimension: Width = 100
    """Numbers of each vector; of `local`, those that the file has."""
    lowercase: bool = True
    """Whether words are lower-cased before they are trained or looked up; of `local`, as its file."""
    max_words: PositiveInt | None = None
    """Number of most frequent words that are kept, of `local` the first of the file; null = all."""
    path: str | None = None
    """`local`: the file, which may be compressed (.gz, .bz2)."""
    format: Literal["word2vec_text", "word2vec_binary", "glove"] | None = None
    """`local`: `word2vec_text` has a first line with the numbers of words and dimensions, `glove` is the same without
    that line."""
    model: Literal["word2vec", "fasttext"] = "word2vec"
    """`trained`: `word2vec` has a vector per word; that of `fasttext` is made of the word's character n-grams as well,
    so that unseen words also have one."""
    algorithm: Literal["skip_gram", "cbow"] = "skip_gram"
    """`trained`: a word predicts its neighbours (`skip_gram`), or they predict it (`cbow`)."""
    corpus: EntryName | Annotated[list[EntryName], Field(min_length=1)] | None = None
    """`trained`: the corpus, or the dataset with the training texts, that they are trained on, or a list of them; null
    = the only corpus."""
    window: Annotated[int, Field(gt=0, le=10_000)] = 5
    """`trained`: largest distance of a neighbour in words; each word draws its own from 1 up to it."""
    min_count: PositiveInt = 5
    """`trained`: minimum number of occurrences of a word."""
    epochs: PositiveInt = 5
    """`trained`: passes over the texts."""
    negative: Annotated[int, Field(gt=0, le=1_000)] = 5
    """`trained`: random words that each neighbour is contrasted with."""
    subsample: NonNegativeFloat = 1e-3
    """`trained`: share of all words above which occurrences of a word are left out; 0 = never."""
    min_n: Few = 3
    """`fasttext`: shortest n-gram, in characters."""
    max_n: Annotated[int, Field(gt=0, le=100)] = 6
    """`fasttext`: longest n-gram, in characters."""
    buckets: Annotated[int, Field(gt=0, le=10**8)] = 100_000
    """`fasttext`: vectors of n-grams; n-grams of the same hash share one."""

    @property
    def corpora(self) -> list[str]:
        """The corpora and datasets that they are trained on; none = the only corpus."""
        return [self.corpus] if isinstance(self.corpus, str) else self.corpus or []

    @check
    def _source_is_complete(self) -> Iterator[str]:
        given = self.model_dump(exclude_unset=True, exclude_none=True)
        missing = [name for name in ("path", "format", "dimension") if name not in given]
        if self.source == "local":
            yield from (f"source is 'local', but '{name}' is missing. Describe the file" for name in missing)
        if self.min_n > self.max_n:
            yield f"min_n = {self.min_n} is above max_n = {self.max_n}. Raise max_n, or lower min_n"
