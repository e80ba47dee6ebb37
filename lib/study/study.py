"""A study: `experiment` (models, data, stages), `report` (results), `execution` (hardware, paths), `only` (a part)."""

import functools
from collections.abc import Collection, Iterator
from typing import Any

from pydantic import Field

from lib.core.extensions import use
from lib.core.settings import BaseSettings, EntryName, ModelName, Seed, StageName, check, references
from lib.study.derivable import derivation_errors
from lib.study.execution import Execution
from lib.study.experiment import Experiment
from lib.study.fits import fit_errors
from lib.study.fold_datasets import with_folds
from lib.study.graph import Graph
from lib.study.names import name_errors
from lib.study.report import ReportSettings
from lib.study.runs import Run, resolve
from lib.study.shown import not_kept, report_errors


class Filter(BaseSettings):
    """The runs with one of the named models, stages, datasets and seeds; null = with any."""

    models: list[ModelName] | None = Field(None, min_length=1)
    """Models; null = all."""
    stages: list[StageName] | None = Field(None, min_length=1)
    """Stages; null = all."""
    datasets: list[EntryName] | None = Field(None, min_length=1)
    """Datasets and corpora of the runs; null = all."""
    seeds: list[Seed] | None = Field(None, min_length=1)
    """Seeds; null = all."""

    def of(self, runs: list[Run], graph: Graph) -> list[Run]:
        """Return the runs that match the filter; a run that models share is listed under its owner."""

        def matches(names: Collection[Any] | None, name: object) -> bool:
            return names is None or name in names

        places = {
            (stage, graph.owner(model, stage, dataset), dataset)
            for model, stage, dataset in graph.places
            if matches(self.models, model) and matches(self.stages, stage) and matches(self.datasets, dataset)
        }
        found = (run for run in runs if (run.id.stage, run.id.model, run.id.dataset) in places)
        return [run for run in found if matches(self.seeds, run.id.seed)]


class Study(BaseSettings):
    """The complete configuration."""

    extensions: list[str] = Field(default_factory=list)
    """Folders with parts of their own, relative to the working folder or to the project, such as `studies/toy`
    (docs/extensions.md)."""
    experiment: Experiment
    """What is compared."""
    report: ReportSettings = Field(default_factory=ReportSettings)
    """Tables, figures and analyses."""
    execution: Execution = Field(default_factory=Execution)
    """How the work is done."""
    only: Filter | None = None
    """Part of the study that is asked for, with what it needs; null = all. Paths and runs are those of the whole study.
    """

    @classmethod
    def prepared(cls, values: Any) -> Any:
        """Take extensions into use, and add the datasets of drawn folds. Drop a report that is null.

        So a file removes that of the file that it extends.
        """
        if isinstance(values, dict) and isinstance(values.get("extensions"), list):
            use(map(str, values["extensions"]))
        if isinstance(values, dict) and values.get("report", ()) is None:
            values = {key: value for key, value in values.items() if key != "report"}
        return with_folds(values)

    @functools.cached_property
    def graph(self) -> Graph:
        """Its graph of stages."""
        return Graph(self.experiment)

    @functools.cached_property
    def runs(self) -> list[Run]:
        """All its runs."""
        return resolve(self.graph)

    @functools.cached_property
    def asked(self) -> list[Run]:
        """The runs that are asked for: those that match `only`, or all."""
        return self.runs if self.only is None else self.only.of(self.runs, self.graph)

    @check
    def _fits_together(self) -> Iterator[str]:
        # A check relies on the names that the checks before it have found to exist.
        if errors := list(name_errors(self.experiment, self.report, references(self))):
            yield from errors
        elif errors := list(derivation_errors(self.graph)):
            yield from (f"experiment.{error}" for error in errors)
        else:
            yield from (f"experiment.{error}" for error in fit_errors(self.graph, self.execution.gpus_per_run))
            yield from report_errors(self.graph, self.report)
            if self.execution.runs != "made":
                yield from not_kept(self.report, self.execution.runs)
            if self.only is not None and not self.asked:
                yield "only: no run of the study matches all of them. Remove one"
            if self.experiment.precision == "fp16" and self.execution.training.device == "cpu":
                yield "experiment.precision: fp16 needs a GPU, but execution.training.device is cpu. Use bf16 or fp32"
