"""The baseline that finds spans: each word is judged by the characters around it."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline

from lib.backbones.fitted import fit_of_terms, give_terms, read_fit, write_fit
from lib.backbones.logistic import DECISION, LogisticBackbone
from lib.core.errors import DataError
from studies.decoders.backbones.span_finder import Pieces, SpanFinder
from studies.decoders.backbones.tfidf_spans.settings import Settings

WORD = re.compile(r"\S+")


class Backbone(LogisticBackbone, SpanFinder):
    """Short runs of characters in a window around a word, weighed by how rare they are, and one linear decision."""

    parameters: Settings

    def fit(self, texts: pd.Series, inside: Sequence[np.ndarray]) -> None:
        """See `SpanFinder.fit`: a word lies in a span if any of its characters does."""
        settings = self.parameters
        vectors = self._vectorizer()
        labels = [
            marks[word.start() : word.end()].any()
            for text, marks in zip(texts, inside, strict=True)
            for word in WORD.finditer(text)
        ]
        if len(set(labels)) < 2:
            raise DataError("all words of training lie in spans, or none does; expected both. Add documents.")
        try:
            features = vectors.fit_transform(self._windows(texts))
        except ValueError as error:
            raise DataError(
                f"no n-gram around {len(labels)} words is left to count ({error}). Expected n-grams around at least "
                f"min_df = {settings.min_df} of them. Lower min_df, or give more documents."
            ) from error
        regression = self.decision(features, labels, lambda held_out: vectors.transform(self._windows(held_out)))
        self.classifier = make_pipeline(vectors, regression)

    def pieces(self, texts: pd.Series) -> list[Pieces]:
        """See `SpanFinder.pieces`: one for each word."""
        vectors, regression = self.classifier
        return self.answers(regression, vectors.transform(self._windows(texts)), texts, 0)

    def answers(self, regression: Any, features: Any, texts: Any, classes: int) -> list[Pieces]:
        """See `lib.backbones.logistic.LogisticBackbone.answers`: the pieces of each text."""
        words = [[word.span() for word in WORD.finditer(text)] for text in texts]
        inside = iter(regression.predict_proba(features)[:, 1].tolist())
        return [
            Pieces([start for start, _ in of_text], [end for _, end in of_text], [next(inside) for _ in of_text])
            for of_text in words
        ]

    def save(self, folder: Path) -> None:
        """See `lib.backbones.contract.TextBackbone.save`."""
        fit = fit_of_terms(self.classifier[0])
        write_fit(fit._replace(numbers={**fit.numbers, **self.decision_numbers()}), folder)

    def load(self, folder: Path) -> None:
        """See `lib.backbones.contract.TextBackbone.load`."""
        fit, vectors = read_fit(folder, ["terms"], ["idf", *DECISION]), self._vectorizer()
        give_terms(vectors, fit, folder)
        self.classifier = make_pipeline(vectors, self.decision_of(fit, len(fit.words["terms"]), folder))

    def _vectorizer(self) -> TfidfVectorizer:
        settings = self.parameters
        return TfidfVectorizer(
            analyzer="char",
            ngram_range=(settings.ngram_min, settings.ngram_max),
            max_features=settings.max_features,
            min_df=settings.min_df,
            sublinear_tf=True,
            dtype=np.float32,  # halves the memory of the largest array here
        )

    def _windows(self, texts: Iterable[str]) -> list[str]:
        """Return the surroundings of each word of all texts, including the word."""
        reach = self.parameters.window
        return [
            text[max(word.start() - reach, 0) : word.end() + reach] for text in texts for word in WORD.finditer(text)
        ]
