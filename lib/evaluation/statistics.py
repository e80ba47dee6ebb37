"""What differences between models on one test set are worth: intervals, tests, and what a test set can show.

n documents with m labelled items in all (the documents themselves, or labelled tokens of theirs); S seeds; M models;
C classes (of spans one, what is inside); R resamples. What is imported inside functions stays out of the workflow's own
process.
"""

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from lib.core.randomness import derive_seed

CHUNK = 4_000_000
"""Documents drawn at a time, which bounds the memory."""


@dataclass(frozen=True)
class Paired(ABC):
    """What M models did on the same test documents, each trained with the same S seeds."""

    models: Sequence[str]
    """Names of the models [M]."""

    @property
    @abstractmethod
    def counts(self) -> np.ndarray:
        """By document: twice the right items of every seed, model and class, then predicted plus true ones.

        [n, 2, S, M, C].
        """

    def f1(self) -> np.ndarray:
        """Return F1 of every seed and model, the mean over classes, as fractions [S, M]."""
        return self._f1(np.ones((1, len(self.counts))))[0]

    def right(self) -> np.ndarray:
        """Return which documents are right in all of their items [S, M, n]."""
        twice_right, predicted_and_true = np.moveaxis(self.counts.sum(axis=-1), 1, 0)  # [n, S, M]
        return np.moveaxis(twice_right == predicted_and_true, 0, -1)

    def resampled_f1(self, *key: int | str, resamples: int) -> np.ndarray:
        """Return F1 of every model, the mean over seeds, in resamples of the documents and of the seeds [R, M].

        One resample is the same documents and seeds for all models, so the difference of two columns is a paired
        bootstrap of their difference. What is drawn does not depend on which models there are. Of S > 1 seeds, S - 1
        are drawn: S would understate the variance of their mean by (S - 1) / S.

        Args:
            key: what the draws belong to, such as the dataset.
            resamples: R.

        Source: Efron and Tibshirani (1993), An Introduction to the Bootstrap; seeds beside documents as in Sellam et
        al. (2022), The MultiBERTs; one seed less as in Rao and Wu (1988), Resampling Inference with Complex Survey
        Data.
        """
        documents, _, seeds, *_ = self.counts.shape
        of_documents = np.random.default_rng(derive_seed("bootstrap documents", *key))
        of_seeds = np.random.default_rng(derive_seed("bootstrap seeds", *key))
        drawn = max(seeds - 1, 1)
        shares = of_seeds.multinomial(drawn, np.full(seeds, 1 / seeds), size=resamples) / drawn  # [R, S]
        scores = []
        for part in np.array_split(shares, math.ceil(resamples * documents / CHUNK)):
            rows = documents * np.arange(len(part))[:, None]
            places = rows + of_documents.integers(documents, size=(len(part), documents))
            times = np.bincount(places.ravel(), minlength=rows.size * documents).reshape(-1, documents)
            scores.append(np.einsum("rs,rsm->rm", part, self._f1(times.astype(float))))
        return np.concatenate(scores)

    def _f1(self, times: np.ndarray) -> np.ndarray:
        """Return F1 where each document counts `times` [R, n] as often [R, S, M]."""
        documents, *shape = self.counts.shape
        totals = (times @ self.counts.reshape(documents, -1)).reshape(-1, *shape)  # [R, 2, S, M, C]
        twice_right, predicted_and_true = totals[:, 0], totals[:, 1]
        scores = np.divide(
            twice_right, predicted_and_true, out=np.zeros_like(twice_right), where=predicted_and_true > 0
        )
        return scores.mean(axis=-1)


@dataclass(frozen=True)
class PairedPredictions(Paired):
    """Classes that models predicted; F1 is macro-F1."""

    labels: np.ndarray
    """True classes [m], numbered from 0."""
    predictions: np.ndarray
    """Predicted classes [S, M, m]; -1 = none, which is wrong."""
    documents: np.ndarray
    """Document of each item [m], numbered from 0 without a gap."""
    classes: int
    """C; one that neither occurs nor is predicted counts as 0 in macro-F1."""

    @functools.cached_property
    def counts(self) -> np.ndarray:
        """See `Paired.counts`."""
        predictions = self.predictions.reshape(-1, len(self.labels))  # [S * M, m]
        shape = self.documents.max() + 1, len(predictions), self.classes

        def count(classes: np.ndarray, weights: np.ndarray) -> np.ndarray:
            places = (self.documents * shape[1] + np.arange(shape[1])[:, None]) * self.classes + classes.clip(0)
            weights = weights * (classes >= 0)
            return np.bincount(places.ravel(), weights.ravel(), minlength=math.prod(shape)).reshape(shape)

        once = np.ones_like(predictions)
        right = count(predictions, predictions == self.labels)
        counts = np.stack([2 * right, count(predictions, once) + count(self.labels, once)], axis=1)
        return counts.reshape(len(counts), 2, *self.predictions.shape[:2], self.classes)


@dataclass(frozen=True)
class PairedSpans(Paired):
    """Spans that models found; F1 is that of the characters inside, of all documents together."""

    true_positives: np.ndarray
    """Characters in a span that were found [S, M, n]."""
    wrong: np.ndarray
    """Those that were found but are in none, and those in one that were not found [S, M, n]."""

    @functools.cached_property
    def counts(self) -> np.ndarray:
        """See `Paired.counts`."""
        right = 2 * self.true_positives
        return np.moveaxis(np.stack([right, right + self.wrong]), -1, 0)[..., None]


def bootstrap_test(differences: np.ndarray) -> float:
    """Return the two-sided p-value of whether a difference is 0, from resamples of it [R].

    Source: Davison and Hinkley (1997), Bootstrap Methods and their Application; their count by which no p-value is 0.
    """
    beyond = min((differences <= 0).sum(), (differences >= 0).sum())
    return min(2 * (float(beyond) + 1) / (len(differences) + 1), 1.0)


def interval(resampled: np.ndarray, confidence: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the lower and the upper end of the percentile interval of every column.

    Args:
        resampled: statistic in every resample [R, ...].
        confidence: share of the resamples between the ends.
    """
    tail = (1 - confidence) / 2
    low, high = np.quantile(resampled, [tail, 1 - tail], axis=0)
    return low, high


def mcnemar_test(right: np.ndarray, other: np.ndarray) -> float:
    """Return the p-value of McNemar's exact test of whether two models are right equally often.

    With several seeds each gives a p-value, and the k-th smallest times S / k is valid however they depend on each
    other, k being half of S, rounded up.

    Args:
        right: which documents one model gets right [S, n].
        other: the same of the other model.

    Source: McNemar (1947), Note on the Sampling Error of the Difference between Correlated Proportions; Rueger (1978),
    Das maximale Signifikanzniveau des Tests.
    """
    from statsmodels.stats.contingency_tables import mcnemar

    tables = [
        np.histogram2d(ours, theirs, bins=2, range=[[0, 1], [0, 1]])[0]
        for ours, theirs in zip(right, other, strict=True)
    ]
    values = sorted(float(mcnemar(table, exact=True).pvalue) for table in tables)
    k = math.ceil(len(values) / 2)
    return min(values[k - 1] * len(values) / k, 1.0)


def holm(p_values: Sequence[float]) -> np.ndarray:
    """Return p-values corrected for their number, so that the chance of any wrong rejection keeps to the level.

    Source: Holm (1979), A Simple Sequentially Rejective Multiple Test Procedure.
    """
    from statsmodels.stats.multitest import multipletests

    return multipletests(p_values, method="holm")[1]


def smallest_difference(documents: int, disagreement: float, level: float, power: float) -> float | None:
    """Return the smallest difference in accuracy that McNemar's test on so many documents shows with this power.

    Args:
        documents: n.
        disagreement: share of the documents that exactly one of the two models gets right.
        level: of significance, two-sided.
        power: chance to show a difference of this size.

    Returns:
        A fraction; None if not even a difference as large as the disagreement is shown.

    Source: Connor (1987), Sample Size for Testing Differences in Proportions for the Paired-Sample Design, solved for
    the difference.
    """
    z_level, z_power = NormalDist().inv_cdf(1 - level / 2), NormalDist().inv_cdf(power)
    root = documents + z_power**2 - z_level**2
    if root < 0:
        return None
    difference = math.sqrt(disagreement) * (z_level * math.sqrt(documents) + z_power * math.sqrt(root))
    difference /= documents + z_power**2
    return difference if 0 < difference <= disagreement else None
