"""Statistics of differences between models on one test set: intervals, tests, and smallest visible differences.

n documents with m labelled items in all (the documents themselves, or labelled tokens of theirs); S seeds; M models;
C classes (spans have one: inside). Scores are fractions. Imports inside functions keep modules out of the
workflow's own process.
"""

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

FEW_DOCUMENTS = 10
"""Test documents of a class below which intervals of macro-F1 can be too short: see the simulation in the tests."""


ROUNDING = 1e-24
"""Variance of scores at or below which it is that of rounding alone."""


class Counts(NamedTuple):
    """Items of one model where a document has any of a class, in k places: no more memory than there are items."""

    shape: tuple[int, int]
    """n and C."""
    documents: np.ndarray
    """Document of each place [k]."""
    classes: np.ndarray
    """Class of each place [k]."""
    twice_right: np.ndarray
    """Twice the right items [k]."""
    named: np.ndarray
    """Predicted plus true items [k]."""

    @classmethod
    def of(cls, shape: tuple[int, int], *items: np.ndarray) -> "Counts":
        """Return the counts of predicted and true items, perhaps several in a place.

        Args:
            shape: see above.
            items: document and class of each item, numbered from 0; how many right ones it is, predicted or true; and
                how many in all [m].
        """
        places, of_items = np.unique(items[0] * shape[1] + items[1], return_inverse=True)
        return cls(shape, *np.divmod(places, shape[1]), *(np.bincount(of_items, each) for each in items[2:]))

    def totals(self) -> tuple[np.ndarray, ...]:
        """Return twice the right items of each class, and predicted plus true ones [C]."""
        return tuple(np.bincount(self.classes, each, self.shape[1]) for each in (self.twice_right, self.named))

    def right(self) -> np.ndarray:
        """Return which documents are right in all of their items [n]."""
        return np.bincount(self.documents, self.named - self.twice_right, self.shape[0]) == 0

    def left_out(self) -> np.ndarray:
        """Return the mean F1 of the classes without each of the documents [n], which changes that of its places."""
        totals = self.totals()
        rest = (total[self.classes] - each for total, each in zip(totals, (self.twice_right, self.named), strict=True))
        changes = _f1(*rest) - _f1(*totals)[self.classes]
        return _f1(*totals).mean() + np.bincount(self.documents, changes, self.shape[0]) / self.shape[1]


def _f1(twice_right: np.ndarray, named: np.ndarray) -> np.ndarray:
    """Return F1 by counts; of what neither occurs nor is predicted it is 0."""
    return np.divide(twice_right, named, out=np.zeros(np.shape(named)), where=named > 0)


@dataclass(frozen=True)
class Paired(ABC):
    """Results of M models on the same test documents, each trained with the same S seeds."""

    models: Sequence[str]
    """Names of the models [M]."""
    metric: str = field(default="f1_macro", kw_only=True)
    """Metric of run records that its F1 is."""
    runs: np.ndarray | None = field(default=None, kw_only=True)
    """The run of each seed and model, the same one for copies of one evaluation [S, M]; None = there are no copies."""

    @property
    @abstractmethod
    def counts(self) -> list[list[Counts]]:
        """Counts of every seed and model [S][M]."""

    @property
    @abstractmethod
    def documents_of_classes(self) -> np.ndarray:
        """Number of documents that hold each class [C]."""

    def f1(self) -> np.ndarray:
        """Return F1 of every seed and model, the mean over classes, as fractions [S, M]."""
        return _f1(*self._totals).mean(axis=-1)

    def right(self) -> np.ndarray:
        """Return which documents are right in all of their items [S, M, n]."""
        return np.array([[each.right() for each in of_seed] for of_seed in self.counts])

    @functools.cached_property
    def left_out(self) -> np.ndarray:
        """F1 of every seed and model without each of the documents [n, S, M]."""
        return np.array([[each.left_out() for each in of_seed] for of_seed in self.counts]).transpose(2, 0, 1)

    def score(self, model: int) -> "Estimate":
        """Return F1 of a model, by its number."""
        return self.combined(np.eye(len(self.models))[model])

    def difference(self, model: int, other: int) -> "Estimate":
        """Return F1 of a model minus that of another one, by their numbers, seed by seed on the same documents."""
        one = np.eye(len(self.models))
        return self.combined(one[model] - one[other])

    def combined(self, weights: np.ndarray) -> "Estimate":
        """Return the sum of F1 of the models with these weights [M], seed by seed on the same documents."""
        seeds = self.repetitions(*np.flatnonzero(weights))
        return Estimate(self.f1()[seeds] @ weights, self.left_out[:, seeds] @ weights, self._extremes(weights))

    def repetitions(self, *models: int) -> np.ndarray:
        """Return the seeds, numbered from 0, without those whose runs of all these models are copies of other seeds."""
        if self.runs is None:
            return np.arange(self._totals.shape[1])
        return np.sort(np.unique(self.runs[:, models], axis=0, return_index=True)[1])

    def _extremes(self, weights: np.ndarray) -> list["Extreme"]:
        """Return the classes whose F1 is 0 or 1 for most models of the greatest weight, as parts of the weighted sum.

        Where that of one of two models varies over documents, so does their difference, and the jackknife sees it.
        """
        (twice_right, predicted_and_true), documents = self._totals, self.documents_of_classes  # [S, M, C], [C]
        never = (twice_right == 0).all(axis=0)
        always = (twice_right == predicted_and_true).all(axis=0) & ~never
        decide = np.abs(weights) == np.abs(weights).max()
        fixed = (documents > 0) & ((never | always)[decide].mean(axis=0) > 0.5)
        return [
            Extreme(int(documents[number]), found, float(share) / len(fixed))
            for number in np.flatnonzero(fixed)
            for found, which in ((False, never[:, number]), (True, always[:, number]))
            for share in (weights[which & (weights > 0)].sum(), weights[which & (weights < 0)].sum())
            if share
        ]

    @functools.cached_property
    def _totals(self) -> np.ndarray:
        """The counts of all documents [2, S, M, C]."""
        return np.array([[each.totals() for each in of_seed] for of_seed in self.counts]).transpose(2, 0, 1, 3)


class Extreme(NamedTuple):
    """A class whose F1 is 0 or 1 for some models in all seeds, as a part of a score or a difference."""

    documents: int
    """Number of documents that hold the class."""
    found: bool
    """Whether F1 is 1."""
    weight: float
    """Weight of its F1 in the score; below 0 for models that are subtracted."""

    @property
    def direction(self) -> int:
        """Whether the score may be higher (1) or lower (-1)."""
        return 1 if (self.weight > 0) != self.found else -1

    def reach(self, level: float) -> float:
        """Return how far the score may be from its estimate.

        If a recall of 0 may be u, F1 may be 2u / (1 + u), with no other document taken for one of the class. If a
        recall of 1 may be 1 - u, F1 is at most u lower.
        """
        u = _without_variance(level, self.documents)
        return abs(self.weight) * (u if self.found else 2 * u / (1 + u))


@dataclass(frozen=True)
class Estimate:
    """A score, or a difference of two, as the mean over S seeds, with its interval and test.

    The mean varies for two reasons. Other seeds give other models: the variance of the seeds, divided by S, is its
    first part. Other documents change the scores of all seeds alike: their covariance, by the jackknife, is the second
    part. The first part rests on S - 1 degrees of freedom and so has the quantile of Student's t with S - 1; the
    second one that with n - 1. The squares of both half-widths add up. With normal errors such an interval covers at
    least as often as it says, at every confidence and whatever the ratio of both parts: given the seeds' variance, the
    chance of an error is convex in the squared half-width, so it is at most the mean of the chances of both parts
    alone, weighted by their variances. Welch's and Satterthwaite's degrees of freedom give shorter intervals, which
    cover only 87 % of the cases with two seeds where the seeds' part is nine tenths.

    An interval is never shorter than that over documents for the given models. With one seed it is that interval,
    and knows nothing of other seeds.

    A class that a model never finds, or finds without an error, has an F1 of 0 or 1 if any document is left out, so
    the jackknife takes it as known. As with a score of 0 or 1, its recall may differ from that by what
    `_without_variance` says, and the mean over classes by a share of this, whose square adds to the others. Without
    this, intervals of a score cover 65 % where a class has 20 documents and a model finds every twentieth.

    Source: seeds and documents as in Obuchowski and Rockette (1995), Hypothesis Testing of Diagnostic Accuracy for
    Multiple Readers and Multiple Tests, where seeds are readers; and Bouthillier et al. (2021), Accounting for Variance
    in Machine Learning Benchmarks. Squares of half-widths: Zou and Donner (2008), Construction of Confidence Limits
    about Effect Measures. The inequality: Hajek (1962), Inequalities for the Generalized Student's Distribution.
    Jackknife: Efron and Tibshirani (1993), An Introduction to the Bootstrap, chapter 11.
    """

    values: np.ndarray
    """Score of each seed [S]."""
    left_out: np.ndarray
    """Score of each seed when one document is left out [n, S]."""
    extremes: Sequence[Extreme] = ()
    """Classes that the jackknife takes as known."""

    @property
    def mean(self) -> float:
        """The mean over the seeds."""
        return float(self.values.mean())

    @property
    def seeds(self) -> int:
        """Number of seeds, S."""
        return len(self.values)

    @property
    def documents(self) -> int:
        """Number of documents, n."""
        return len(self.left_out)

    @functools.cached_property
    def of_seeds(self) -> float:
        """The part of the variance of the mean that comes from the seeds; 0 with one seed, where it is unknown."""
        return float(self.values.var(ddof=1)) / self.seeds if self.seeds > 1 else 0.0

    @functools.cached_property
    def of_documents(self) -> float:
        """The part of the variance that comes from the documents, shared by the models of all seeds."""
        if self.seeds == 1:
            return self.of_documents_given_models
        return max(float((self._covariance.sum() - self._covariance.trace()) / (self.seeds * (self.seeds - 1))), 0.0)

    @functools.cached_property
    def of_documents_given_models(self) -> float:
        """The variance of the mean over documents, for these models."""
        return float(self._covariance.mean())

    @functools.cached_property
    def _covariance(self) -> np.ndarray:
        """Jackknife estimate of the covariance of the seeds' values over documents [S, S]."""
        centred = self.left_out - self.left_out.mean(axis=0)
        return (1 - 1 / self.documents) * centred.T @ centred

    def difference_interval(self, confidence: float) -> tuple[float, float]:
        """Return the ends of the interval of a difference: symmetric around the mean, but not beyond -1 and 1."""
        half = math.sqrt(self._squared_half_width(1 - confidence))
        return max(self.mean - half, -1.0), min(self.mean + half, 1.0)

    def score_interval(self, confidence: float) -> tuple[float, float]:
        """Return the ends of the interval of a score between 0 and 1.

        The documents' part is symmetric in the score's logit, since a score near 1 has more room below than above.
        Of a score without variance over documents, as of 0 or 1, they are as far as `_without_variance` says.
        """
        level, ends = 1 - confidence, []
        for sign in (-1, 1):
            of_documents = self._logit_reach(sign, level, self.of_documents)
            given_models = self._logit_reach(sign, level, self.of_documents_given_models)
            squared = max(self._of_seeds_squared(level) + of_documents**2, given_models**2)
            squared += sum(each.reach(level) ** 2 for each in self.extremes if each.direction == sign)
            ends.append(min(max(self.mean + sign * math.sqrt(squared), 0.0), 1.0))
        return ends[0], ends[1]

    def p_value(self) -> float:
        """Return the two-sided p-value of whether a difference is 0: the least level whose interval excludes 0.

        It is at least 2 / 2^n, that of the sign test if all documents are on one side (n at most 400).
        """
        from scipy.optimize import brentq

        least, squared = 2 * 0.5 ** min(self.documents, 400), self.mean**2
        if squared == 0:
            return 1.0
        if self._squared_half_width(least) <= squared:
            return least
        exponent = brentq(lambda at: self._squared_half_width(math.exp(at)) - squared, math.log(least), 0.0)
        return math.exp(exponent)

    def of_extremes(self, level: float) -> float:
        """Return the share of extreme classes in the square of a half-width of a difference."""
        return sum(each.reach(level) ** 2 for each in self.extremes)

    def _logit_reach(self, sign: int, level: float, variance: float) -> float:
        """Return how far an interval that is symmetric in the logit reaches from the mean to one side."""
        from scipy.special import expit, logit

        slope = self.mean * (1 - self.mean)
        if slope <= 0 or self.of_documents_given_models <= ROUNDING:
            return 0.0 if self.extremes else _without_variance(level, self.documents)
        half = math.sqrt(variance) * _quantile(level, self.documents - 1) / slope
        return abs(float(expit(logit(self.mean) + sign * half)) - self.mean)

    def _squared_half_width(self, level: float) -> float:
        quantile = _quantile(level, self.documents - 1) ** 2
        least = _least_squared_half_width(self.of_documents_given_models, level, self.documents)
        return max(self._of_seeds_squared(level) + quantile * self.of_documents, least) + self.of_extremes(level)

    def _of_seeds_squared(self, level: float) -> float:
        return _quantile(level, self.seeds - 1) ** 2 * self.of_seeds if self.of_seeds else 0.0


def _quantile(level: float, degrees_of_freedom: int) -> float:
    """Return what Student's t exceeds to either side with half the chance `level`."""
    from scipy.special import stdtrit

    return -float(stdtrit(max(degrees_of_freedom, 1), level / 2))


def _least_squared_half_width(of_documents_given_models: float, level: float, documents: int) -> float:
    """Return the least square of a half-width of a difference: that over documents, for the given models."""
    squared = _quantile(level, documents - 1) ** 2 * of_documents_given_models
    return squared if of_documents_given_models > ROUNDING else _without_variance(level, documents) ** 2


def _without_variance(level: float, documents: int) -> float:
    """Return how far a value that no document changes may be from that of all documents there are.

    In a sample without a single error, or a single document on which two models disagree, a share of so many may
    have one (Clopper and Pearson 1934); with 3 / n at a level of 5 % it is the rule of three.
    """
    return float(1 - level ** (1 / documents))


@dataclass(frozen=True)
class PairedPredictions(Paired):
    """Classes that models predicted; F1 is macro-F1, or micro-F1 with all items of one class."""

    labels: np.ndarray
    """True classes [m], numbered from 0; -1 = none."""
    predictions: np.ndarray
    """Predicted classes [S, M, m]; -1 = none, which is wrong if there is a true one."""
    documents: np.ndarray
    """Document of each item [m], numbered from 0 without a gap."""
    classes: int
    """C; one that neither occurs nor is predicted counts as 0 in macro-F1."""

    @classmethod
    def of_sets(
        cls, models: Sequence[str], labels: np.ndarray, given: np.ndarray, classes: int, metric: str, runs: Any = None
    ) -> "PairedPredictions":
        """Return sets of classes: each class that a document has, or is given by any model, is an item.

        Args:
            models: see above.
            labels: true classes of each document, a sequence each [n].
            given: those that it was given [S, M, n].
            classes: number of all classes.
            metric: `f1_macro`, or `f1_micro` for that of all items together.
            runs: see above.
        """
        none = np.arange(len(labels)) * (classes + 1) + classes  # an item of each document that it neither has nor gets
        items = [
            np.repeat(none - classes, [*map(len, sets)]) + np.concatenate([[], *sets]).astype(int)
            for sets in (labels, *given.reshape(-1, len(labels)))
        ]
        known = np.unique(np.concatenate([none, *items]))
        documents, numbers = np.divmod(known, classes + 1)
        if metric == "f1_micro":
            numbers, classes = 0 * numbers, 1
        found = np.array([np.where(np.isin(known, each), numbers, -1) for each in items])
        predictions = found[1:].reshape(*given.shape[:2], -1)
        return cls(models, found[0], predictions, documents, classes, metric=metric, runs=runs)

    @property
    def documents_of_classes(self) -> np.ndarray:
        """See `Paired.documents_of_classes`."""
        of_items = np.unique(np.stack([self.documents, self.labels])[:, self.labels >= 0], axis=1)[1]
        return np.bincount(of_items, minlength=self.classes)

    @functools.cached_property
    def counts(self) -> list[list[Counts]]:
        """See `Paired.counts`."""
        shape, documents = (self.documents.max() + 1, self.classes), np.tile(self.documents, 2)

        def count(found: np.ndarray) -> Counts:
            classes, named = np.append(self.labels, found), np.append(self.labels, found) >= 0
            right = np.tile(found == self.labels, 2) & named
            return Counts.of(shape, documents, classes.clip(0), right, named)

        return [[count(found) for found in of_seed] for of_seed in self.predictions]


@dataclass(frozen=True)
class PairedSpans(Paired):
    """Spans that models found; F1 is that of the characters inside, of all documents together."""

    metric: str = field(default="f1", kw_only=True)
    """See the base."""
    true_positives: np.ndarray
    """Characters in a span that were found [S, M, n]."""
    false_positives: np.ndarray
    """Characters that were found and are in no span [S, M, n]."""
    false_negatives: np.ndarray
    """Characters in a span that were not found [S, M, n]."""

    @property
    def documents_of_classes(self) -> np.ndarray:
        """See `Paired.documents_of_classes`: those with a span."""
        return np.count_nonzero(self.true_positives[0, :1] + self.false_negatives[0, :1], axis=-1)

    @functools.cached_property
    def counts(self) -> list[list[Counts]]:
        """See `Paired.counts`."""
        named = 2 * self.true_positives + self.false_positives + self.false_negatives
        shape = named.shape[-1], 1
        documents, one = np.arange(shape[0]), np.zeros(shape[0], int)
        return [
            [Counts.of(shape, documents, one, 2 * right, both) for right, both in zip(*of_seed, strict=True)]
            for of_seed in zip(self.true_positives, named, strict=True)
        ]


def mcnemar_test(right: np.ndarray, other: np.ndarray) -> float:
    """Return the p-value of McNemar's exact test of whether two given models are right equally often.

    It takes the models as they are, and says nothing of the mechanisms or settings that others could be trained with.

    With several seeds each gives a p-value, and the k-th smallest times S / k is valid however they depend on each
    other, k being half of S, rounded up.

    Args:
        right: which documents one model gets right [S, n].
        other: the same of the other model.

    Source: McNemar (1947), Note on the Sampling Error of the Difference between Correlated Proportions; Rueger (1978),
    Das maximale Signifikanzniveau des Tests.
    """
    from statsmodels.stats.contingency_tables import mcnemar

    pairs = zip(right, other, strict=True)
    tables = [np.histogram2d(ours, theirs, bins=2, range=[[0, 1], [0, 1]])[0] for ours, theirs in pairs]
    values = sorted(float(mcnemar(table, exact=True).pvalue) for table in tables)
    k = math.ceil(len(values) / 2)
    return min(values[k - 1] * len(values) / k, 1.0)


def holm(p_values: Sequence[float]) -> np.ndarray:
    """Return p-values corrected for their number, so that the chance of any wrong rejection keeps to the level.

    Source: Holm (1979), A Simple Sequentially Rejective Multiple Test Procedure.
    """
    from statsmodels.stats.multitest import multipletests

    return multipletests(p_values, method="holm")[1]


def smallest_difference(
    of_seeds: float,
    of_documents: float,
    seeds: int,
    documents: int,
    level: float,
    power: float,
    of_documents_given_models: float | None = None,
    of_extremes: float = 0.0,
) -> float | None:
    """Return the smallest true difference that the test of `Estimate` shows with this power.

    Args:
        of_seeds: part of the variance of the mean difference that seeds make.
        of_documents: part that documents make.
        seeds: S.
        documents: n.
        level: level of significance, two-sided.
        power: chance to show a difference of this size.
        of_documents_given_models: the variance over documents for the given models, which bounds intervals below; None
            = `of_documents`, as with one seed.
        of_extremes: share of extreme classes in the square of a half-width (`Estimate.of_extremes`).

    Returns:
        A fraction; None if not even a difference of 1 is shown so often.
    """
    from scipy.optimize import brentq
    from scipy.special import chdtri, ndtr

    points = (np.arange(2000) + 0.5) / 2000
    drawn = chdtri(seeds - 1, points) / (seeds - 1) if seeds > 1 else np.zeros(1)  # variance of seeds, as estimated
    squared = (_quantile(level, seeds - 1) ** 2 * of_seeds * drawn if of_seeds else 0.0 * drawn) + (
        _quantile(level, documents - 1) ** 2 * of_documents
    )
    given_models = of_documents if of_documents_given_models is None else of_documents_given_models
    least = _least_squared_half_width(given_models, level, documents)
    half = np.sqrt(np.maximum(squared, least) + of_extremes)
    deviation = max(math.sqrt(of_seeds + of_documents), np.finfo(float).tiny)

    def lacking(difference: float) -> float:
        return float((ndtr((difference - half) / deviation) + ndtr((-difference - half) / deviation)).mean()) - power

    return float(brentq(lacking, 0, 1)) if lacking(0) < 0 < lacking(1) else None
