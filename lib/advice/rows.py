"""The candidates of the advice: their costs and scores, and which one to take.

A mechanism is advised instead of exact attention only where it is faster beyond doubt: the interval of its time over
that of exact attention, from turns that measured both, has to lie below 1 by a tolerance.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import quantile_test

from lib.advice.estimates import Hardware, ModelSteps, PredictionTimes, StageCost
from lib.advice.preparing import OwnTexts
from lib.study.graph import Graph
from lib.study.recipe import Recipe

TOLERANCE = 0.1
"""Share of the time that a mechanism has to save, at least, to be advised instead of exact attention."""

START_UP = 15.0
"""Seconds that a run takes before its first step, for imports above all."""


@dataclass(frozen=True)
class Ratio:
    """Time of a model over that of exact attention."""

    median: float
    """Median over all turns."""
    low: float
    """Lower end of the 95 % interval of the median; nan if there are fewer than six turns."""
    high: float
    turns: int

    @property
    def faster(self) -> bool:
        """Whether the model is faster than exact attention, by the tolerance and beyond doubt."""
        return self.high < 1 - TOLERANCE  # nan is not below anything

    def __str__(self) -> str:
        if math.isnan(self.low):
            return f"{self.median:.2f} ({self.turns} turn{'s' * (self.turns > 1)})"
        return f"{self.median:.2f} [{self.low:.2f}, {self.high:.2f}]"


def ratio(seconds: np.ndarray, exact: np.ndarray) -> Ratio:
    """Return the ratio of times that were measured in the same turns.

    Args:
        seconds: seconds of a model, by turn [n].
        exact: seconds of exact attention, by turn [n].

    Source: the interval is that of the sign test, which assumes nothing about how ratios are distributed: Conover
    (1999), Practical Nonparametric Statistics, section 3.2.
    """
    ratios = seconds / exact
    ends = quantile_test(ratios, q=1.0, p=0.5).confidence_interval(0.95)
    return Ratio(float(np.median(ratios)), float(ends.low), float(ends.high), len(ratios))


def template(graph: Graph, stage: str, limit: int) -> str:
    """Return the entry of a stage's `data` whose limit on tokens is the nearest to `limit`: its recipe is taken."""
    entries = graph.experiment.stages[stage].data
    return min(entries, key=lambda entry: abs(math.log2(graph.corpus(entry).max_tokens / limit)))


def recipe(graph: Graph, stage: str, limit: int) -> Recipe:
    """Return the recipe for documents of `limit` tokens."""
    found = graph.experiment.stages[stage].data[template(graph, stage, limit)].recipe
    assert found is not None  # `find_stages` saw to it
    return found


@dataclass(frozen=True)
class Row:
    """A candidate on texts of a user."""

    model: str
    training: np.ndarray
    """Seconds of its runs without the start of their programs, by turn [n]."""
    costs: Sequence[StageCost]
    """Cost of each stage."""
    prediction: PredictionTimes | None = None
    f1: float | None = None
    """F1 in per cent on other texts; None = unknown."""

    @property
    def seconds(self) -> float:
        """Seconds of its runs, one per stage."""
        return float(np.median(self.training)) + START_UP * len(self.costs)

    @property
    def fits(self) -> bool:
        """Whether this machine's memory suffices."""
        return all(cost.fits for cost in self.costs)


def row(
    model: str,
    turns: Sequence[ModelSteps],
    works: Sequence[tuple[Recipe, bool]],
    lengths: np.ndarray,
    own: OwnTexts,
    hardware: Hardware,
    *,
    f1: float | None = None,
    pieces: float = 1.0,
) -> Row:
    """Return the row of a candidate.

    Args:
        model: its name.
        turns: its measured steps.
        works: recipe of each stage, and whether it is masked language modelling.
        lengths: tokens of documents that are read at once, or of their segments [n].
        own: the texts.
        hardware: of this machine.
        f1: its score in per cent on other texts; None = unknown.
        pieces: segments per document.
    """
    documents = own.splits["train"]
    read = round(pieces * documents)
    costs = [[each.cost(hardware, recipe, lengths, read, masked=masked) for recipe, masked in works] for each in turns]
    epochs = [recipe.epochs_over(documents) for recipe, _ in works]
    # Each epoch of the last stage has an evaluation; with labels, validation and test are predicted in the end.
    evaluated = epochs[-1] * own.splits["validation" if own.labelled else "held_out"]
    evaluated += own.documents - documents if own.labelled else 0
    passes = turns[0].classification.forward_share * evaluated / documents
    seconds = np.array([[cost.seconds for cost in each] for each in costs])
    prediction = turns[0].predicting(lengths, hardware.micro_batch_tokens) if own.labelled and pieces == 1 else None
    return Row(model, seconds @ epochs + passes * seconds[:, -1], costs[0], prediction, f1)


def near_the_best(scores: dict[str, float | None], points: float) -> list[str]:
    """Return the models whose score is known to be at most some points below the best, or all if nothing is known."""
    known = [f1 for f1 in scores.values() if f1 is not None]
    least = max(known, default=0.0) - points
    return [model for model, f1 in scores.items() if not known or (f1 is not None and f1 >= least)]


def choose(rows: Sequence[Row], exact: Row, points: float) -> Row | None:
    """Return the model to take; None if none fits in memory.

    Of the models that fit and whose scores are near enough, the fastest of those that are faster than exact attention
    beyond doubt is the choice, or exact attention if there is none. If exact attention does not read so long documents,
    does not fit or scores too low, the one that takes the least time is.

    Args:
        rows: the candidates.
        exact: exact attention.
        points: points of F1 that may be lost.
    """
    fitting = {each.model: each for each in rows if each.fits}
    near = [fitting[model] for model in near_the_best({name: each.f1 for name, each in fitting.items()}, points)]
    ratios = {each.model: ratio(each.training, exact.training) for each in near}
    if faster := [each for each in near if ratios[each.model].faster]:
        return min(faster, key=lambda each: ratios[each.model].median)
    fastest = min(near, key=lambda each: each.seconds, default=None)
    return next((each for each in near if each is exact), fastest)
