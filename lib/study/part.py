"""A part of a study: a filter of its runs."""

from collections.abc import Collection, Iterator, Sequence

from pydantic import Field

from lib.core.settings import BaseSettings, Name, Seed
from lib.study.graph import Graph
from lib.study.names import known
from lib.study.runs import Run


class Part(BaseSettings):
    """The runs with one of the named models, stages, datasets and seeds; null = with any."""

    models: list[Name] | None = Field(None, min_length=1, description="Models; null = all.")
    stages: list[Name] | None = Field(None, min_length=1, description="Stages; null = all.")
    datasets: list[Name] | None = Field(
        None, min_length=1, description="Datasets and corpora on which runs train; null = all."
    )
    seeds: list[Seed] | None = Field(None, min_length=1, description="Seeds; null = all.")

    def of(self, runs: list[Run], graph: Graph) -> list[Run]:
        """Return those of all `runs` of a study that belong to this part, shared ones under their owner's name."""
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

    def problems(self, runs: list[Run], graph: Graph) -> Iterator[str]:
        """Yield what it names that a study does not have, each with its place below `only`."""
        experiment = graph.experiment
        entries = list(dict.fromkeys(dataset for _, _, dataset in graph.places))
        seeds = sorted({run.id.seed for run in runs})
        named: dict[str, tuple[Sequence[object] | None, Collection[object]]] = {
            "models": (self.models, experiment.models),
            "stages": (self.stages, experiment.stages),
            "datasets": (self.datasets, entries),
            "seeds": (self.seeds, seeds),
        }
        problems = [
            f".{key}: there is no '{name}'. {known(map(str, there))}"
            for key, (names, there) in named.items()
            for name in names or ()
            if name not in there
        ]
        yield from problems
        if not problems and not self.of(runs, graph):
            yield ": no run of the study matches all of them. Remove one"
