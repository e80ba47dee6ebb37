"""A study: one configuration file. `experiment` says what is compared, `report` what comes out, `execution` how.

`only` asks for a part of it.
"""

import functools
from collections.abc import Iterator

from pydantic import Field

from lib.core.settings import BaseSettings, check
from lib.study.execution import Execution
from lib.study.experiment import Experiment
from lib.study.graph import Graph
from lib.study.names import unknown_names
from lib.study.part import Part
from lib.study.relations import misfits, underivable
from lib.study.report import Report
from lib.study.runs import Run, resolve
from lib.study.shown import not_kept, unsharable, unshowable


class Study(BaseSettings):
    """A complete configuration."""

    experiment: Experiment = Field(description="What is compared.")
    report: Report = Field(default_factory=Report, description="What comes out.")
    execution: Execution = Field(default_factory=Execution, description="How the work is done.")
    only: Part | None = Field(
        None,
        description="Part of the study that is asked for, with what it needs; null = all. Paths and runs are those of "
        "the whole study.",
    )

    @functools.cached_property
    def graph(self) -> Graph:
        """What its models are and do at its stages."""
        return Graph(self.experiment)

    @functools.cached_property
    def runs(self) -> list[Run]:
        """All its runs, each once."""
        return resolve(self.graph)

    @functools.cached_property
    def asked(self) -> list[Run]:
        """The runs that are asked for, each once: those of `only`, or all."""
        return self.runs if self.only is None else self.only.of(self.runs, self.graph)

    @check
    def _fits_together(self) -> Iterator[str]:
        # Each question may follow the names that the one before has found to lead somewhere.
        if problems := list(unknown_names(self.experiment, self.report)):
            yield from problems
        elif problems := list(underivable(self.graph)):
            yield from (f"experiment.{problem}" for problem in problems)
        else:
            yield from (f"experiment.{problem}" for problem in misfits(self.graph))
            yield from unshowable(self.graph, self.report)
            if self.execution.runs != "made":
                yield from not_kept(self.report, self.execution.runs)
            if self.only is not None:
                yield from (f"only{problem}" for problem in self.only.problems(self.runs, self.graph))
            if self.execution.gpus_per_run > 1:
                yield from unsharable(self.graph, self.execution.gpus_per_run)
