"""Settings of the classical baseline."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from lib.backbones.logistic import LogisticSettings
from lib.backbones.settings import Ability
from lib.core.settings import Few, Fraction, PositiveInt, check, unset


class Settings(LogisticSettings):
    """TF-IDF n-grams and logistic regression: fitted in one go, without a training loop."""

    kind: Literal["tfidf"]
    # Left out where it is the default, so that the settings of earlier runs stay as they were.
    unit: Literal["words", "characters"] = Field("words", exclude_if=lambda value: value == "words")
    """Unit of the n-grams: `words` of two letters or more, as separated by white space and punctuation; or
    `characters`, for scripts without spaces between words, such as Chinese or Thai (with `ngram_max: 3`)."""
    part: Annotated[tuple[Fraction, Fraction], Field(strict=False)] | None = Field(None, exclude_if=unset)
    """Part of each text that is read, as shares of its words (of its characters, if these are counted): `[0, 0.25]` is
    the first quarter, which a cut leaves of texts four times as long; null = all."""
    max_features: PositiveInt = 20_000
    """Number of most frequent n-grams that are kept."""
    ngram_max: Few = 2
    """Longest n-gram, in units; all shorter ones are counted too."""
    min_df: PositiveInt = 2
    """Documents that an n-gram must occur in."""
    max_df: Annotated[float, Field(gt=0, le=1)] = 0.9
    """Share of the documents above which an n-gram is dropped."""

    @check
    def _part_has_a_length(self) -> Iterator[str]:
        if self.part is not None and not self.part[0] < self.part[1]:
            yield f"part = {list(self.part)} is empty. Expected where it begins and then where it ends, from 0 to 1"

    @property
    def abilities(self) -> frozenset[Ability]:
        """See `BackboneSettings.abilities`."""
        return frozenset({"class_probabilities"})
