"""Cost and score of every model at every length limit, and the choice of a model.

A mechanism is advised instead of exact attention only where it is faster beyond doubt: the interval of its time over
that of exact attention, from turns that measured both, has to lie below 1 by a tolerance.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import quantile_test

from lib.advice.estimates import StageCost
from lib.advice.scores import ModelScores, difference_shown
from lib.advice.texts import Language

BEARABLE = 0.05
"""Share of the text that a limit may lose."""

TOLERANCE = 0.1
"""Share of the time that a mechanism has to save, at least, to be advised instead of exact attention."""

DISAGREEMENT = 0.2
"""Assumed share of test documents that two models classify differently, before any training."""

WANTED = 0.1
"""Difference in accuracy that a test split has to show, at least, if documents are to compare models."""

REACH = 512
"""Longest text in tokens that the advised published encoders read."""


@dataclass(frozen=True)
class Ratio:
    """Time of a model over that of exact attention."""

    median: float
    """Median over all measurements."""
    low: float
    """Lower end of the 95 % interval of the median; nan if there are fewer than six turns."""
    high: float
    turns: int

    @property
    def faster(self) -> bool:
        """Whether the model is faster than exact attention, by the tolerance and beyond doubt."""
        return self.high < 1 - TOLERANCE  # nan is not below anything


def ratio(seconds: Sequence[float], exact: Sequence[float]) -> Ratio:
    """Return the ratio of times that were measured in the same turns.

    Args:
        seconds: seconds of a model, by turn [n].
        exact: seconds of exact attention, by turn [n or more].

    Source: the interval is that of the sign test, which assumes nothing about how ratios are distributed: Conover
    (1999), Practical Nonparametric Statistics, section 3.2.
    """
    ratios = np.asarray(seconds) / np.asarray(exact)[: len(seconds)]
    ends = quantile_test(ratios, q=1.0, p=0.5).confidence_interval(0.95)
    return Ratio(float(np.median(ratios)), float(ends.low), float(ends.high), len(ratios))


@dataclass(frozen=True)
class Choice:
    """Cost and score of a model at a length limit."""

    model: str
    limit: int
    adaptation: StageCost
    """Cost of the adaptation, in the measurement with the median time."""
    classification: StageCost | None
    """Cost of the classification, in that measurement; None = the texts have no labels."""
    hours: float
    """Hours of these stages with all epochs, median of the measurements."""
    ratio: Ratio
    """These hours divided by those of exact attention."""
    f1: float | None
    """F1 in per cent; None = unknown."""
    minutes: tuple[float, float] = (math.nan, math.nan)
    """Minutes of an epoch of the last stage, in the fastest and the slowest measurement."""
    exact: bool = False
    """Whether it is the model that the others are compared with."""

    @property
    def costs(self) -> tuple[StageCost, ...]:
        """Costs of the stages."""
        return (self.adaptation,) if self.classification is None else (self.adaptation, self.classification)

    @property
    def fits(self) -> bool:
        """Whether this machine's memory suffices for the stages."""
        return all(cost.fits for cost in self.costs)


@dataclass(frozen=True)
class Limit:
    """A length limit: what it cuts from the texts, and the cost and score of each model."""

    tokens: int
    lost: float
    """Share of the text."""
    cut: float
    """Share of the documents."""
    scores: ModelScores | None
    choices: list[Choice]


def enough(losses: Sequence[float]) -> int:
    """Return the number of the shortest limit that loses little, by the shares of the text that each loses."""
    return next((number for number, lost in enumerate(losses) if lost <= BEARABLE), len(losses) - 1)


def bearable(scores: dict[str, float | None], points: float, noise: float | None) -> list[str]:
    """Return the models whose macro-F1 is known to be near the best, or all if nothing is known.

    Args:
        scores: macro-F1 by model, in per cent; None = unknown.
        points: distance from the best model, in points of macro-F1, that is accepted.
        noise: difference that the scores' test documents show, at least; what is smaller counts as none.
    """
    known = [f1 for f1 in scores.values() if f1 is not None]
    least = max(known, default=0.0) - max(points, noise or 0.0)
    return [model for model, f1 in scores.items() if not known or (f1 is not None and f1 >= least)]


def choose(table: Sequence[Limit], points: float) -> Choice | None:
    """Return the model and the limit to take; None if no model fits in memory at any limit.

    The limit is the shortest that loses at most `BEARABLE` of the text, or the longest; the next shorter one where no
    model fits. There, of the models that fit and whose scores are near enough, the fastest of those that are faster
    than exact attention beyond doubt is the choice, or exact attention if there is none. If exact attention does not
    fit or scores too low, the one that takes the least time is.

    Args:
        table: length limits, ascending.
        points: as of `bearable`.
    """
    for limit in reversed(table[: enough([limit.lost for limit in table]) + 1]):
        fitting = {choice.model: choice for choice in limit.choices if choice.fits}
        noise = limit.scores.noise if limit.scores else None
        near = [fitting[model] for model in bearable({name: each.f1 for name, each in fitting.items()}, points, noise)]
        if faster := [choice for choice in near if choice.ratio.faster and not choice.exact]:
            return min(faster, key=lambda choice: choice.ratio.median)
        if near:
            return next((choice for choice in near if choice.exact), min(near, key=lambda choice: choice.hours))
    return None


@dataclass(frozen=True)
class StartAdvice:
    """What to start a model from, and the smallest difference that the test documents show."""

    shown: float | None
    """Difference in accuracy that the test split shows, at least, as a fraction; None = not even the largest."""
    published: bool
    """Whether to start from a published encoder, and not from weights that are pretrained for this."""

    @property
    def few(self) -> bool:
        """Whether the documents are too few to compare models."""
        return self.shown is None or self.shown > WANTED


def start_advice(test: int, limit: int, language: Language, *, at_hand: bool = False) -> StartAdvice:
    """Return what to start a model from, by the number, length and language of the documents.

    A published encoder is advised where there are few documents, where it reads up to the limit, or
    where the texts are in another language than English, which the study's vocabulary and corpus are in. So it is if
    one is at hand.

    Args:
        test: number of documents of the test split.
        limit: tokens that they are cut to.
        language: language of the texts.
        at_hand: whether the user names a published encoder.
    """
    shown = difference_shown(test, DISAGREEMENT) if test > 1 else None
    few = shown is None or shown > WANTED
    return StartAdvice(shown, published=at_hand or few or not language.english or limit <= REACH)
