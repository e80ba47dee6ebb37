"""The baseline for every encoder: TF-IDF n-grams and logistic regression."""

import logging
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline

from lib.backbones import contract
from lib.backbones.fitted import fit_of_terms, give_terms, read_fit, write_fit
from lib.backbones.logistic import DECISION, LogisticBackbone
from lib.backbones.tfidf.settings import Settings
from lib.core.errors import DataError
from lib.evaluation.passages import DECIMALS, Passage

logger = logging.getLogger(__name__)

MOST_FEATURELESS = 0.01
"""Share of training documents without a feature above which a warning says so."""


class Backbone(LogisticBackbone, contract.TextClassifier):
    """Words and short runs of words, weighed by how rare they are, and one linear decision.

    Of a pair of texts (`PairVectors`), it also counts what both have, and what only one has.
    """

    parameters: Settings

    def fit(self, texts: pd.Series | pd.DataFrame, labels: pd.Series) -> None:
        """See `lib.backbones.contract.TextClassifier.fit`."""
        self.require_classes(labels)
        settings, texts = self.parameters, self._read(texts)
        single = vectorizer(settings)
        vectors = PairVectors(single) if isinstance(texts, pd.DataFrame) else single
        by_characters = "Set unit: characters if the texts have no spaces between words; otherwise lower min_df"
        remedy = by_characters if settings.unit == "words" else "Lower min_df"
        try:
            features = vectors.fit_transform(texts)
        except ValueError as error:
            problem = f"no n-gram of {len(texts)} documents is left with min_df = {settings.min_df} ({error})"
            raise DataError(f"{problem}. {remedy}, raise max_df, or give more documents.") from error
        self.featureless = featureless(features)
        if self.featureless > MOST_FEATURELESS:
            share = 100 * self.featureless
            logger.warning("%.1f %% of the training documents have no n-gram that is counted. %s", share, remedy)
        regression = self.decision(features, labels, lambda held_out: vectors.transform(self._read(held_out)))
        self.classifier = make_pipeline(vectors, regression)

    def class_probabilities(self, texts: pd.Series | pd.DataFrame, classes: int) -> np.ndarray:
        """See `lib.backbones.contract.TextClassifier.class_probabilities`."""
        vectors, regression = self.classifier
        features = vectors.transform(self._read(texts))
        self.featureless = featureless(features)
        return self.answers(regression, features, texts, classes)

    def save(self, folder: Path) -> None:
        """See `lib.backbones.contract.TextBackbone.save`."""
        vectors = self.classifier[0]
        paired = isinstance(vectors, PairVectors)
        fit = fit_of_terms(vectors.vectorizer if paired else vectors)
        pair = {"paired": np.array(paired)}
        write_fit(fit._replace(numbers={**fit.numbers, **self.decision_numbers(), **pair}), folder)

    def load(self, folder: Path) -> None:
        """See `lib.backbones.contract.TextBackbone.load`."""
        fit = read_fit(folder, ["terms"], ["idf", "paired", *DECISION])
        single, terms = vectorizer(self.parameters), len(fit.words["terms"])
        give_terms(single, fit, folder)
        paired = bool(fit.numbers["paired"])
        regression = self.decision_of(fit, 4 * terms if paired else terms, folder)
        self.classifier = make_pipeline(PairVectors(single) if paired else single, regression)

    @property
    def has_passages(self) -> bool:
        """Whether `passages` can be asked for: not of pairs, whose features belong to both texts."""
        return isinstance(self.classifier[0], TfidfVectorizer)

    def passages(self, text: str, label: int, count: int) -> list[Passage]:
        """Return the n-grams that speak most for a class, the strongest first, with all places where they are.

        Args:
            text: as it is written.
            label: a class of the training documents.
            count: number of n-grams, at most.

        Returns:
            Passages whose weight is above 0. The weight is the share of the n-gram, with all its places, in the score
            of the class less the mean score of the others; with two classes, in the log-odds of the class.
        """
        vectors, regression = self.classifier
        places: dict[int, list[tuple[int, int]]] = {}  # by feature; -1 = none
        start, end = part_bounds(text, self.parameters.part or (0, 1), self.parameters.unit)
        for ngram, first, last in ngrams(text[start:end], vectors):
            places.setdefault(vectors.vocabulary_.get(ngram, -1), []).append((start + first, start + last))
        (values,) = vectors.transform(self._read(pd.Series([text]))).toarray()
        weights = (values * class_weights(regression, label)).round(DECIMALS)
        strongest = sorted(places.keys() - {-1}, key=lambda feature: (-weights[feature], feature))[:count]
        return [Passage(places[each], float(weights[each])) for each in strongest if weights[each] > 0]

    def _read(self, texts: pd.Series | pd.DataFrame) -> pd.Series | pd.DataFrame:
        """Return the part of each text that is read."""
        if (part := self.parameters.part) is None:
            return texts
        return texts.map(lambda text: part_of(text, part, self.parameters.unit))


def part_of(text: str, part: tuple[float, float], unit: str = "words") -> str:
    """Return a part of a text; parts that adjoin share no word, and together they have all.

    Args:
        text: the text.
        part: where it begins and ends, as shares of the words or characters.
        unit: `words`, as white space separates them, or `characters`.
    """
    pieces: Sequence[str] = text.split() if unit == "words" else text
    start, end = (round(share * len(pieces)) for share in part)
    return (" " if unit == "words" else "").join(pieces[start:end])


def vectorizer(settings: Settings) -> TfidfVectorizer:
    """Return the vectoriser of single texts."""
    return TfidfVectorizer(
        analyzer="word" if settings.unit == "words" else "char",
        max_features=settings.max_features,
        ngram_range=(1, settings.ngram_max),
        min_df=settings.min_df,
        max_df=settings.max_df,
    )


def featureless(features: sparse.csr_matrix) -> float:
    """Return the share of the documents that have no feature."""
    return float((features.getnnz(axis=1) == 0).mean())


class PairVectors(TransformerMixin, BaseEstimator):
    """Shows a linear classifier the common parts of two texts with vectors a and b: a, b, a * b and |a - b|.

    Products are of n-grams that both texts have, and differences of those that one of them has more of, so what is
    learnt of these does not depend on which text comes first.

    Args:
        vectorizer: vectorizer of single texts; it has one vocabulary for first and second ones.
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


def class_weights(regression: Any, label: int) -> np.ndarray:
    """Return the weight of each feature for a class against the mean of the others; of two, for its log-odds [F]."""
    # The weights of two classes are those of the log-odds of the second.
    weights = regression.coef_ if len(regression.coef_) > 1 else regression.coef_ * [[-0.5], [0.5]]
    own = list(regression.classes_).index(label)
    return weights[own] - np.delete(weights, own, axis=0).mean(axis=0)


def part_bounds(text: str, part: tuple[float, float], unit: str) -> tuple[int, int]:
    """Return where the part of a text that `part_of` returns begins and ends, in characters."""
    pieces = [match.span() for match in re.finditer(r"\S+" if unit == "words" else r"(?s).", text)]
    start, end = (round(share * len(pieces)) for share in part)
    return (pieces[start][0], pieces[end - 1][1]) if start < end else (0, 0)


def ngrams(text: str, vectors: TfidfVectorizer) -> Iterator[tuple[str, int, int]]:
    """Yield the n-grams that a vectoriser reads, in its order, each with its begin and end in the text as written."""
    lowered = vectors.build_preprocessor()(text)
    # Some letters have two characters in lower case.
    origins = [place for place, letter in enumerate(text) for _ in letter.lower()]
    pattern, glue = (vectors.token_pattern, " ") if vectors.analyzer == "word" else (r"(?s)\s\s+|.", "")
    units = [(re.sub(r"\s\s+", " ", match[0]), *match.span()) for match in re.finditer(pattern, lowered)]
    for length in range(vectors.ngram_range[0], vectors.ngram_range[1] + 1):
        for run in zip(*(units[shift:] for shift in range(length)), strict=False):
            yield glue.join(name for name, _, _ in run), origins[run[0][1]], origins[run[-1][2] - 1] + 1
