"""The baseline on word vectors: the mean vector of a text, and logistic regression."""

import logging
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lib.backbones import contract
from lib.backbones.fitted import NUMBERS, Fit, read_fit, require_shape, write_fit
from lib.backbones.logistic import DECISION, LogisticBackbone
from lib.core.errors import ConfigError, DataError
from lib.core.files import link_tree
from studies.word_vectors.backbones.word_vectors.settings import Settings
from studies.word_vectors.storage import load_vectors
from studies.word_vectors.word_vectors import split_words

VECTORS = "vectors"
"""Folder of the word vectors inside that of a fit."""

logger = logging.getLogger(__name__)


class Backbone(LogisticBackbone, contract.TextClassifier):
    """Classifies the mean of the word vectors of a text by logistic regression."""

    parameters: Settings

    def fit(self, texts: pd.Series, labels: pd.Series) -> None:
        """See `lib.backbones.contract.TextClassifier.fit`."""
        settings = self.parameters
        if settings.vectors_folder is None:
            raise ConfigError(
                "backbone.vectors_folder: missing. Expected the folder of word vectors, which the rule "
                "`train_word_vectors` makes."
            )
        self.require_classes(labels)
        self._read_vectors(settings.vectors_folder)
        self.rarity: dict[str, float] = {}
        self.most_rare = 1.0
        counts = Counter(word for text in texts for word in self.split(text))
        known = sum(count for word, count in counts.items() if word in self.vectors)
        if not known:
            raise DataError(
                f"no word of {len(texts)} documents has a vector in {settings.vectors_folder}. Expected some; choose "
                "other vectors, in the language of the documents."
            )
        logger.info("%.1f %% of the words of training have a vector", 100 * known / counts.total())
        if settings.weighting == "tfidf":
            rarity = TfidfVectorizer(analyzer=self.split).fit(texts)
            self.rarity = dict(zip(rarity.get_feature_names_out(), rarity.idf_, strict=True))
            self.most_rare = np.log(1 + len(texts)) + 1  # as scikit-learn has it, of a word in no document
        scaler, means = StandardScaler(), self._means(texts)
        self.featureless = featureless(means)
        features = scaler.fit_transform(means)
        regression = self.decision(features, labels, lambda held_out: scaler.transform(self._means(held_out)))
        self.classifier = make_pipeline(scaler, regression)

    def class_probabilities(self, texts: pd.Series, classes: int) -> np.ndarray:
        """See `lib.backbones.contract.TextClassifier.class_probabilities`."""
        scaler, regression = self.classifier
        means = self._means(texts)
        self.featureless = featureless(means)
        return self.answers(regression, scaler.transform(means), texts, classes)

    def save(self, folder: Path) -> None:
        """See `lib.backbones.contract.TextBackbone.save`; the word vectors are in a folder inside."""
        scaler, _ = self.classifier
        numbers = {"mean": scaler.mean_, "scale": scaler.scale_, "most_rare": np.array(float(self.most_rare))}
        rarity = {"rarity": np.array([*self.rarity.values()], float)}
        write_fit(Fit({"rare": [*self.rarity]}, {**self.decision_numbers(), **numbers, **rarity}), folder)
        link_tree(str(self.parameters.vectors_folder), folder / VECTORS)

    def load(self, folder: Path) -> None:
        """See `lib.backbones.contract.TextBackbone.load`."""
        self._read_vectors(folder / VECTORS)
        fit = read_fit(folder, ["rare"], ["mean", "scale", "most_rare", "rarity", *DECISION])
        size, scaler = self.vectors.vector_size, StandardScaler()
        require_shape(folder / NUMBERS, "rarity", fit.numbers["rarity"], len(fit.words["rare"]))
        for name in ("mean", "scale"):
            require_shape(folder / NUMBERS, name, fit.numbers[name], size)
            setattr(scaler, f"{name}_", fit.numbers[name])
        self.rarity = dict(zip(fit.words["rare"], fit.numbers["rarity"], strict=True))
        self.most_rare = float(fit.numbers["most_rare"])
        self.classifier = make_pipeline(scaler, self.decision_of(fit, size, folder))

    def _read_vectors(self, folder: str | Path) -> None:
        self.vectors, lowercase = load_vectors(folder)
        self.split = partial(split_words, lowercase=lowercase)

    def _means(self, texts: pd.Series) -> np.ndarray:
        """Return the weighted mean of the vectors of each text's words [n, D]; zero for a text without any."""
        means = np.zeros((len(texts), self.vectors.vector_size))
        for row, text in enumerate(texts):
            counts = Counter(word for word in self.split(text) if word in self.vectors)
            if counts:
                weights = [count * self.rarity.get(word, self.most_rare) for word, count in counts.items()]
                means[row] = self.vectors.get_mean_vector(list(counts), weights, pre_normalize=False)
        return means


def featureless(means: np.ndarray) -> float:
    """Return the share of the texts [n, D] without a word that has a vector."""
    return float((means == 0).all(axis=1).mean())
