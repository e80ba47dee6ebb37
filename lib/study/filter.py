"""A filter of the runs of a study."""

from pydantic import Field

from lib.core.settings import BaseSettings, EntryName, ModelName, Seed, StageName
from lib.study.graph import Graph
from lib.study.runs import Run


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
