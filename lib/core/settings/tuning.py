"""What a stage tunes, and the settings of such a run."""

import itertools
from collections.abc import Iterator
from typing import Literal

from pydantic import Field, PositiveFloat, PositiveInt

from lib.core.settings import Section, check
from lib.core.settings.run import Run
from lib.core.variants import Number, Setting, VariedSetting, spelled

UNROUND = (5**0.5 - 1) / 2
"""Where between two bounds a number is looked at that is no rounder than most."""


class Dimension(Section):
    """What a setting may be: one of `values`, or a number from `low` to `high`."""

    values: list[Setting] | None = Field(None, min_length=1, description="Values to choose from, in no order.")
    low: Number | None = Field(None, description="Lowest value. Bounds and step without a point make whole numbers.")
    high: Number | None = Field(None, description="Highest value.")
    step: Number | None = Field(
        None, description="Distance of the values, counted from `low`; null = any value, of whole numbers each."
    )
    log: bool = Field(False, description="Draw on a logarithmic scale, so that every decade is as likely.")

    @property
    def whole(self) -> bool:
        """Whether its numbers are whole ones."""
        return all(isinstance(number, int) for number in (self.low, self.high, self.step or 1))

    def examples(self) -> list[Setting]:
        """Return values that stand for all: those listed, or the bounds and one between them."""
        if self.low is None or self.high is None:
            return list(self.values or [])
        step = self.step or (1 if self.whole else None)
        if step is None:
            return [self.low, self.low + UNROUND * (self.high - self.low), self.high]
        last = self.low + (self.high - self.low) // step * step
        return list(dict.fromkeys([self.low, min(self.low + step, last), last]))

    @check
    def _values_or_bounds(self) -> Iterator[str]:
        bounds = [self.low, self.high, self.step]
        if self.values is not None:
            if self.log or bounds != [None] * 3:
                yield "values stand beside low, high, step or log. Give either values, or bounds"
            if len(set(map(spelled, self.values))) < len(self.values):
                yield f"values = {self.values} names a value twice. Name each once"
        elif None in bounds[:2]:
            yield "expected values, or both low and high. Give either of them"

    @check
    def _bounds_are_in_order(self) -> Iterator[str]:
        if self.low is None or self.high is None:
            return
        if self.low >= self.high:
            yield f"low = {self.low} is not below high = {self.high}. Exchange them, or set the value in the stage"
        elif self.step is not None and not 0 < self.step <= self.high - self.low:
            yield f"step = {self.step} does not fit between low = {self.low} and high = {self.high}. Choose another"
        if self.log and self.low <= 0:
            yield f"low = {self.low} has no logarithm. Raise it above 0, or leave log out"
        if self.log and self.step is not None:
            yield f"step = {self.step} stands beside log: true. Leave one of them out, or list values"


class Tuning(Section):
    """A search by optuna: trainings one after the other, with settings that follow from the scores of those before."""

    trials: PositiveInt = Field(description="Trainings.")
    space: dict[VariedSetting, Dimension] = Field(
        min_length=1,
        description="What is searched: settings of task and recipe by dotted name (`recipe.learning_rate`).",
    )
    sampler: Literal["tpe", "random"] = Field(
        "tpe",
        description="What proposes settings: `tpe`, a tree-structured Parzen estimator, which draws near those that "
        "scored well; `random`, chance alone.",
    )
    pruner: Literal["median", "none"] = Field(
        "median",
        description="What ends a trial early: `median`, if its best evaluation so far is worse than the median of the "
        "complete trials at that evaluation; `none`, nothing.",
    )
    startup: PositiveInt | None = Field(
        None,
        description="Trials before sampler and pruner learn from any: drawn at random, run to their end; null = a "
        "quarter of all, at least 2 and at most 10.",
    )
    minutes: PositiveFloat | None = Field(
        None, description="Wall time of the trials, in minutes, after which no other begins; null = no limit."
    )

    @property
    def startup_trials(self) -> int:
        """How many trials sampler and pruner wait for."""
        return self.startup or min(max(self.trials // 4, 2), 10)

    def examples(self) -> list[dict[str, Setting]]:
        """Return settings that stand for all trials: every two settings in all pairs of their examples."""
        examples = {place: dimension.examples() for place, dimension in self.space.items()}
        first = {place: values[0] for place, values in examples.items() if values}
        alone = [first | {place: value} for place, values in examples.items() for value in values]
        pairs = [
            first | {one: value, other: beside}
            for one, other in itertools.combinations(examples, 2)
            for value, beside in itertools.product(examples[one], examples[other])
        ]
        return pairs or alone

    @check
    def _startup_leaves_trials(self) -> Iterator[str]:
        learns = self.sampler != "random" or self.pruner != "none"
        if self.startup is not None and not learns:
            yield f"startup = {self.startup} does nothing with sampler: random and pruner: none. Leave it out"
        elif self.startup is not None and self.startup >= self.trials:
            yield f"startup = {self.startup} leaves none of {self.trials} trials to learn. Lower it, or raise trials"


class TunedRun(Run):
    """One search of a stage: stage x model x data, whose trials all have the same seed."""

    tuning: Tuning = Field(description="What is searched, and how.")
