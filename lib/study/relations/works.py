"""What models do, or may come to do, at the stages of a study."""

import contextlib
from collections.abc import Iterator

from pydantic import ValidationError

from lib.study.graph import Graph
from lib.study.stages import Work


def all_works(graph: Graph) -> Iterator[tuple[str, str, Work]]:
    """Yield all that is done in stages, and by models otherwise: the place in the configuration, the entry."""
    for name, stage in graph.experiment.stages.items():
        for entry, work in stage.data.items():
            yield f"stages.{name}.data.{entry}", entry, work
    for model, passed in graph.passages:
        if passed in graph.experiment.models[model].deviations:
            for entry, work in graph.works(model, passed).items():
                yield f"models.{model}.deviations.{passed}", entry, work


def searched(graph: Graph, model: str, stage: str, entry: str) -> Iterator[Work]:
    """Yield what a model may come to do at a stage: all that it searches, or takes from the search of another."""
    section = graph.experiment.stages[stage]
    source = graph.experiment.stages[section.settings_from] if section.settings_from else section
    for settings in source.tried():
        with contextlib.suppress(ValidationError):  # found by searches._best_settings_fit
            yield graph.work(model, stage, entry).with_settings(settings)
