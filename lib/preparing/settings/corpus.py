"""Settings of a corpus: which articles are kept, and how many for what."""

import re
from collections.abc import Iterator

from pydantic import Field, field_validator

from lib.core.settings import BaseSettings, NonNegativeInt, check
from lib.preparing.settings.document_form import MaxTokens
from lib.preparing.settings.sources import Documents, Reading


class Slice(BaseSettings):
    """Consecutive articles of a corpus."""

    articles: NonNegativeInt
    """Articles, in dataset order, after those of the slice before."""
    max_tokens: MaxTokens
    """Tokens an article is cut to, [CLS] and [SEP] included."""


class ArticleFilter(Reading):
    """What decides which articles of a corpus are kept: all that their filtering reads."""

    keywords: list[str] = Field(default_factory=list)
    """Lower-case words."""
    min_keywords: NonNegativeInt = 0
    """Different keywords that must occur as whole words; 0 keeps all. To be given with keywords."""

    @field_validator("keywords")
    @classmethod
    def _keywords_are_words(cls, keywords: list[str]) -> list[str]:
        if bad := [word for word in keywords if not re.fullmatch("[a-z]+", word)]:
            raise ValueError(f"keywords {bad} can never occur; expected lower-case words of the letters a to z.")
        return sorted(set(keywords))

    @check
    def _keywords_choose(self) -> Iterator[str]:
        if self.keywords and "min_keywords" not in self.model_fields_set:
            yield "keywords are named, but not min_keywords, how many of them must occur. Give it; 0 keeps all"


class Corpus(ArticleFilter, Documents):
    """Text without labels: articles, chosen by keywords if there are any."""

    short: Slice
    """The first articles kept."""
    long: Slice
    """The next articles."""
    held_out: Slice
    """The next articles, for a held-out loss."""

    @property
    def max_tokens(self) -> int:
        """Tokens of the longest training article, at most."""
        return max((part.max_tokens for part in (self.short, self.long) if part.articles), default=0)

    @check
    def _something_to_train_on(self) -> Iterator[str]:
        if not self.short.articles + self.long.articles:
            yield "short and long have 0 articles together. Give at least one of them some"

    @property
    def filter(self) -> ArticleFilter:
        """The settings that the filtering of a raw file reads."""
        return ArticleFilter.model_validate(self.model_dump(include=set(ArticleFilter.model_fields)))
