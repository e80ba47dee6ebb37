"""A filter of the runs of a study."""

from collections.abc import Collection, Iterator, Sequence

from pydantic import Field

from lib.core.settings import BaseSettings, Name, Seed
from lib.study.graph import Graph
from lib.study.names import known
from lib.study.runs import Run


class Filter(BaseSettings):
    """The runs with one of the named models, stages, datasets and seeds; null = with any."""

    models: list[Name] | None = Field(None, min_length=1, description="Models; null = all.")
    stages: list[Name] | None = Field(None, min_length=1, description="Stages; null = all.")
    datasets: list[Name] | None = Field(None, min_length=1, description="Datasets and corpora of the runs; null = all.")
    seeds: list[Seed] | None = Field(None, min_length=1, description="Seeds; null = all.")

    def of(self, runs: list[Run], graph: Graph) -> list[Run]:
        """Return the runs that match the filter; a run that models share is listed under its owner."""
        places = {
            (stage, graph.owner(model, stage, dataset), dataset)
            for model, stage, dataset in graph.places
            if all(
                names is None or name in names
                for names, name in ((self.models, model), (self.stages, stage), (self.datasets, dataset))
            )
        }
        return [
            run
            for run in runs
            if (run.id.stage, run.id.model, run.id.dataset) in places
            and (self.seeds is None or run.id.seed in self.seeds)
        ]

    def errors(self, runs: list[Run], graph: Graph) -> Iterator[str]:
        """Yield the names that the study does not have, each with its place below `only`."""
        experiment = graph.experiment
        entries = list(dict.fromkeys(dataset for _, _, dataset in graph.places))
        seeds = sorted({run.id.seed for run in runs})
        named: dict[str, tuple[Sequence[object] | None, Collection[object]]] = {
            "models": (self.models, experiment.models),
            "stages": (self.stages, experiment.stages),
            "datasets": (self.datasets, entries),
            "seeds": (self.seeds, seeds),
        }
        errors = [
            f".{key}: there is no '{name}'. {known(map(str, there))}"
            for key, (names, there) in named.items()
            for name in names or ()
            if name not in there
        ]
        yield from errors
        if not errors and not self.of(runs, graph):
            yield ": no run of the study matches all of them. Remove one"
