"""Settings of the classical baseline that finds spans."""

from collections.abc import Iterator
from typing import Literal

from lib.backbones.logistic import LogisticSettings
from lib.backbones.settings import Ability
from lib.core.settings import Few, PositiveInt, SizeOrZero, check


class Settings(LogisticSettings):
    """TF-IDF of the characters around each word, and logistic regression: fitted in one go, without a training loop."""

    kind: Literal["tfidf_spans"]
    window: SizeOrZero = 20
    """Characters before and after a word that serve as its features."""
    ngram_min: Few = 2
    """Shortest n-gram, in characters."""
    ngram_max: Few = 4
    """Longest n-gram, in characters."""
    max_features: PositiveInt = 20_000
    """Number of most frequent n-grams that are kept."""
    min_df: PositiveInt = 5
    """Words around which an n-gram must occur."""
    max_iter: PositiveInt = 200
    """Maximum number of iterations of the optimiser (lbfgs)."""

    @property
    def abilities(self) -> frozenset[Ability]:
        """See `BackboneSettings.abilities`."""
        return frozenset({"character_probabilities"})

    @check
    def _lengths_are_in_order(self) -> Iterator[str]:
        if self.ngram_min > self.ngram_max:
            yield f"ngram_min = {self.ngram_min} is above ngram_max = {self.ngram_max}. Lower it"
