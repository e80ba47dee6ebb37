"""The decision on vectors of texts that published encoders give, without a training of encoders."""

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from lib.backbones import contract
from lib.backbones.fitted import Fit, fit_of_terms, give_terms, read_fit, write_fit
from lib.backbones.frozen.settings import Settings
from lib.backbones.logistic import DECISION, LogisticBackbone
from lib.backbones.settings import BACKBONES, BackboneSettings
from lib.backbones.text_vectors import Vectors, read_encoder
from lib.core.errors import ConfigError
from lib.core.files import link_tree
from lib.core.weights import VECTORS

ENCODERS = "encoders"
"""Folder of the encoders inside that of a fit."""


class Backbone(LogisticBackbone, contract.TextClassifier):
    """Vectors of texts by encoders that do not train, perhaps next to TF-IDF, and a linear decision."""

    parameters: Settings
    terms: Any = None
    """Vectoriser of TF-IDF; None = there is none."""

    def fit(self, texts: pd.Series, labels: pd.Series) -> None:
        """See `lib.backbones.contract.TextClassifier.fit`."""
        self.require_classes(labels)
        if (settings := self.parameters.terms()) is not None:
            self.terms = _vectorizer(settings).fit(texts)
        self.classifier = [self.decision(self._features(texts), labels, self._features)]

    def class_probabilities(self, texts: pd.Series, classes: int) -> np.ndarray:
        """See `lib.backbones.contract.TextClassifier.class_probabilities`."""
        return self.answers(self.classifier[0], self._features(texts), texts, classes)

    @cached_property
    def vectors(self) -> dict[str, Vectors]:
        """Vectors of each encoder, by its name."""
        found: dict[str, list[Path]] = {}
        for folder in map(Path, self.parameters.vectors_folders or ()):
            found.setdefault(read_encoder(folder)[0], []).append(folder)
        if missing := [name for name in self.parameters.encoders if name not in found]:
            raise ConfigError(
                f"backbone.vectors_folders: none is of {missing[0]}. Expected one of each encoder, which the rule "
                "`encode_dataset` makes."
            )
        return {name: Vectors(found[name]) for name in self.parameters.encoders}

    def save(self, folder: Path) -> None:
        """See `lib.backbones.contract.TextBackbone.save`; the encoders are in folders inside."""
        fit = Fit({}, {}) if self.terms is None else fit_of_terms(self.terms)
        write_fit(fit._replace(numbers={**fit.numbers, **self.decision_numbers()}), folder)
        for name, vectors in self.vectors.items():
            link_tree(vectors.folders[0], folder / ENCODERS / name, VECTORS)

    def load(self, folder: Path) -> None:
        """See `lib.backbones.contract.TextBackbone.load`."""
        self.vectors = {name: Vectors([folder / ENCODERS / name]) for name in self.parameters.encoders}
        terms, idf = ([], []) if self.parameters.tfidf is None else (["terms"], ["idf"])
        fit = read_fit(folder, terms, [*idf, *DECISION])
        if (settings := self.parameters.terms()) is not None:
            self.terms = _vectorizer(settings)
            give_terms(self.terms, fit, folder)
        width = sum(vectors.encoder.width for vectors in self.vectors.values())
        self.classifier = [self.decision_of(fit, width + len(fit.words.get("terms", ())), folder)]

    def _features(self, texts: pd.Series) -> Any:
        """Return the features of texts [n, F], dense without TF-IDF."""
        vectors = np.hstack([each.of(texts.tolist()) for each in self.vectors.values()])
        self.featureless = float((vectors == 0).all(axis=1).mean())
        return vectors if self.terms is None else sparse.hstack([self.terms.transform(texts), vectors], format="csr")


def _vectorizer(settings: BackboneSettings) -> Any:
    return BACKBONES.load("tfidf", "backbone").vectorizer(settings)
