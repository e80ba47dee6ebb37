"""Vectors of pairs of texts that show a linear classifier the common parts of both texts."""

from typing import Self

import pandas as pd
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.feature_extraction.text import TfidfVectorizer


class PairVectors(TransformerMixin, BaseEstimator):
    """Concatenates vectors a and b of the two texts with products and differences: a, b, a * b and |a - b|.

    Products are of n-grams that both texts have, and differences of those that one of them has more of, so what is
    learnt of these does not depend on which text comes first.

    Args:
        vectorizer: of single texts; it has one vocabulary for first and second ones.
    """

    def __init__(self, vectorizer: TfidfVectorizer) -> None:
        self.vectorizer = vectorizer

    def fit(self, pairs: pd.DataFrame, labels: pd.Series | None = None) -> Self:
        """Learn the vocabulary and its weights from the texts of both columns [n, 2]."""
        self.vectorizer.fit(pd.concat([pairs[name] for name in pairs]))
        return self

    def transform(self, pairs: pd.DataFrame) -> sparse.csr_matrix:
        """Return the vectors of pairs [n, 4 * V], V n-grams."""
        first, second = (self.vectorizer.transform(pairs[name]) for name in pairs)
        return sparse.hstack([first, second, first.multiply(second), abs(first - second)], format="csr")
