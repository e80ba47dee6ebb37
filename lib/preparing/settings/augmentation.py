"""Settings of copies of training documents with other words."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from lib.core.settings import BaseSettings, Few, Seed, Size, check
from lib.core.weights import ForeignStart
from lib.preparing.settings.document_form import MaxTokens
from lib.preparing.settings.sources import RemoteFile


class Synonyms(BaseSettings):
    """Where the WordNet database is: `index.*`, `data.*` and `*.exc`."""

    url: RemoteFile | None = None
    """An archive of it (.zip, .tar.gz), downloaded."""
    local: str | None = None
    """A folder with it, or an archive."""

    @check
    def _one_place(self) -> Iterator[str]:
        if (self.url is None) == (self.local is None):
            yield "expected either a url or a local folder or archive. Give one of them"


class MaskedLm(ForeignStart):
    """The masked language model: a folder that holds its tokeniser, too (such as a run's `model`), or a repository."""

    top_k: Size = 50
    """Number of most probable words to draw the new one from."""
    max_tokens: MaxTokens = 512
    """Maximum number of tokens of a document that it reads; later words stay as they are."""


Way = Literal["synonyms", "masked_lm"]


class Augmentation(BaseSettings):
    """Copies of training documents with some words replaced, for classes that have too few documents."""

    labels: list[str] = Field(min_length=1)
    """Classes whose documents are copied."""
    copies: Few = 1
    """Copies of each document."""
    share: Annotated[float, Field(gt=0, le=1)] = 0.15
    """Share of a document's words that a copy replaces; at least one word."""
    by: Way | Annotated[list[Way], Field(min_length=1)]
    """`synonyms` replaces English words by their synonyms in WordNet; `masked_lm` replaces any words by words that a
    masked language model expects in their place. With a list, the copies of a document take turns."""
    synonyms: Synonyms | None = None
    masked_lm: MaskedLm | None = None
    seed: Seed = 0
    """Seed of the draws."""
    leaked: bool = False
    """Copy the documents of all splits and then split everything again by class, so that copies of a training document
    reach validation and test. Some published datasets were made like this; the setting measures the effect."""

    @property
    def ways(self) -> list[Way]:
        """The ways that copies take in turn."""
        return [self.by] if isinstance(self.by, str) else self.by

    @property
    def archive(self) -> RemoteFile | None:
        """The archive of WordNet that is downloaded, if one is."""
        return self.synonyms.url if self.synonyms is not None and "synonyms" in self.ways else None

    @check
    def _ways_are_described(self) -> Iterator[str]:
        for way in self.ways:
            if getattr(self, way) is None:
                yield f"by names '{way}', but there is no section '{way}'. Add that section"
