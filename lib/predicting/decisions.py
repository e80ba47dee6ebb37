"""Decisions of a classifier of documents about new ones, chosen on the validation documents of its run.

Where documents have several classes, each class of each document is decided by itself, as one of two: yes or no.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, Self

import numpy as np
from pydantic import Field

from lib.core.errors import ConfigError, DataError
from lib.core.settings import BaseSettings, Fraction
from lib.evaluation.decisions import at_temperature, decide, decided, least_confidence, temperature, threshold
from lib.evaluation.label_sets import indicators, sets_of
from lib.study.reader import ReaderSettings, read_validation

logger = logging.getLogger(__name__)


class Wanted(BaseSettings):
    """Aims of decisions."""

    calibrated: bool = False
    """Whether probabilities are those at the temperature of validation."""
    thresholds: dict[str, Literal["f1"] | dict[Literal["precision", "recall"], Fraction]] = Field(default_factory=dict)
    """Aim of each class with a threshold on validation: `f1`, the greatest; or `{precision: 0.9}` or
    `{recall: 0.9}`, at least so much."""
    abstain: Fraction | None = None
    """Greatest share of wrong decisions; documents of less confidence are left to a person. null = all are decided."""
    certainty: Fraction = 0.9
    """Chance that `abstain` is kept on other documents, as validation shows; 0 = it is kept on validation."""


class Decisions(NamedTuple):
    """How probabilities become decisions."""

    temperature: float | None = None
    """None = probabilities stay as they are."""
    thresholds: Mapping[int, float] = {}
    """Threshold of a class by its number."""
    confidence: float | None = None
    """Probability of the decided class, at least, of a document that is decided; None = all are."""
    of_sets: bool = False
    """Whether documents have several classes."""

    @classmethod
    def chosen(cls, wanted: Wanted, folder: Path, settings: ReaderSettings) -> Self:
        """Return the decisions that reach the aims on the validation documents of a model.

        Raises:
            RunError: the model does not classify documents, or left no predictions for validation.
            ConfigError: a threshold is of an unknown class, or sets of classes are to be left to a person.
            DataError: an aim cannot be reached.
        """
        if wanted == Wanted():
            return cls()
        if wanted.abstain is not None and settings.task.label_form == "set":
            raise ConfigError(f"abstain: {folder} decides on each class of a document by itself. Leave it out.")
        probabilities, labels = read_validation(folder)
        found = cls(of_sets=labels.ndim == 2)
        if wanted.calibrated:
            found = found._replace(temperature=temperature(found._cases(probabilities), labels.ravel()))
        probabilities = found.probabilities(probabilities)
        names, thresholds = settings.labels or [], {}
        for name, aim in wanted.thresholds.items():
            if name not in names:
                raise ConfigError(f"thresholds: there is no class '{name}'. Expected one of: {', '.join(names)}.")
            (measure, least), *_ = aim.items() if isinstance(aim, dict) else [(aim, 0.0)]
            number = names.index(name)
            try:
                of_class = labels[:, number] if found.of_sets else labels == number
                thresholds[number] = threshold(probabilities[:, number], of_class, measure, least)
            except DataError as error:
                raise DataError(f"thresholds.{name}: {error}") from error
        found = found._replace(thresholds=thresholds)
        if wanted.abstain is not None:
            classes, confidence = found.classes(probabilities)
            least = least_confidence(classes == labels, confidence, wanted.abstain, wanted.certainty or None)
            found = found._replace(confidence=least)
            logger.info("chosen on validation: %s", decided(classes == labels, confidence, least))
        return found

    def probabilities(self, probabilities: np.ndarray) -> np.ndarray:
        """Return probabilities [n, C] at the temperature."""
        if self.temperature is None:
            return probabilities
        found = at_temperature(self._cases(probabilities), self.temperature)
        return found[:, 1].reshape(probabilities.shape) if self.of_sets else found

    def _cases(self, probabilities: np.ndarray) -> np.ndarray:
        """Return probabilities [n, C]; of sets, those of no and yes for each document and class [n * C, 2]."""
        if not self.of_sets:
            return probabilities
        yes = probabilities.astype(np.float64).ravel()
        return np.stack([1 - yes, yes], axis=1)

    def classes(self, probabilities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the class of each document [n] and its probability [n]."""
        classes = decide(probabilities, self.thresholds)
        return classes, np.take_along_axis(probabilities, classes[:, None], axis=1)[:, 0]

    def sets(self, given: Iterable[Sequence[int]], probabilities: np.ndarray) -> list[np.ndarray]:
        """Return the classes of each document [n], where those with a threshold are decided anew.

        Args:
            given: classes by the thresholds of the model's task, of each document [n].
            probabilities: of the classes [n, C], at the temperature.
        """
        decided = indicators(given, probabilities.shape[1]).toarray()
        for number, least in self.thresholds.items():
            decided[:, number] = probabilities[:, number] >= least
        return sets_of(decided)
