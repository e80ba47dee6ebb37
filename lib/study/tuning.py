"""Settings of a search by trials, and of a run that does it."""

import itertools
from typing import Literal

from pydantic import Field

from lib.core.files import MOST_VALUES, check_expansion
from lib.core.search_space import Dimension, Setting, VariedSetting
from lib.core.settings import BaseSettings, PositiveFloat, PositiveInt, Size
from lib.study.run import RunSettings


class Tuning(BaseSettings):
    """A search by optuna: trainings in sequence, whose settings follow from the scores of earlier ones."""

    trials: Size
    """Trainings."""
    space: dict[VariedSetting, Dimension] = Field(min_length=1)
    """Searched settings of task and recipe by dotted name (`recipe.learning_rate`)."""
    sampler: Literal["tpe", "random"] = "tpe"
    """Method that proposes settings: `tpe`, a tree-structured Parzen estimator, which draws near settings that scored
    well; `random`, random draws."""
    pruner: Literal["median", "none"] = "median"
    """Rule that ends a trial early: `median`, if its best evaluation so far is worse than the median of the complete
    trials at that evaluation; `none`, no rule."""
    startup: PositiveInt | None = None
    """Number of first trials, which are drawn at random and run to their end; sampler and pruner learn from them. null
    = a quarter of all, at least 2 and at most 10."""
    minutes: PositiveFloat | None = None
    """Wall time in minutes after which no further trial begins; null = no limit."""

    @property
    def startup_trials(self) -> int:
        """Number of trials before sampler and pruner begin."""
        return self.startup or min(max(self.trials // 4, 2), 10)

    def examples(self) -> list[dict[str, Setting]]:
        """Return settings that trials may have: each two dimensions in all pairs of their examples.

        Raises:
            ConfigError: there are too many.
        """
        examples = {place: dimension.examples() for place, dimension in self.space.items()}
        counts = [len(values) for values in examples.values()]
        check_expansion("tuning.space", sum(counts) ** 2, "pairs of values", MOST_VALUES)
        first = {place: values[0] for place, values in examples.items() if values}
        alone = [first | {place: value} for place, values in examples.items() for value in values]
        pairs = [
            first | {one: value, other: another}
            for one, other in itertools.combinations(examples, 2)
            for value, another in itertools.product(examples[one], examples[other])
        ]
        return pairs or alone


class TunedRun(RunSettings):
    """One search of a stage: stage x model x data, whose trials all have the same seed."""

    tuning: Tuning
    """What is searched, and how."""
