"""What models do, or may do after a search, at the stages of a study."""

import contextlib
from collections.abc import Iterator

from pydantic import ValidationError

from lib.study.graph import Graph
from lib.study.stages import Work


def all_works(graph: Graph) -> Iterator[tuple[str, str, Work]]:
    """Yield the work of stages, and of models that change it: place in the configuration, entry, work."""
    for name, stage in graph.experiment.stages.items():
        for entry, work in stage.data.items():
            yield f"stages.{name}.data.{entry}", entry, work
    for model, passed in graph.model_stages:
        if graph.changed_work(model, passed):
            for entry, work in graph.works(model, passed).items():
                yield f"models.{model}.changes.{passed}", entry, work


def searched(graph: Graph, model: str, stage: str, entry: str) -> Iterator[Work]:
    """Yield all that a model may do at a stage: by each of the settings that its own or another search tries."""
    section = graph.experiment.stages[stage]
    source = graph.experiment.stages[section.settings_from] if section.settings_from else section
    for settings in source.tried():
        with contextlib.suppress(ValidationError):  # found by searches._best_settings_fit
            yield graph.work(model, stage, entry).with_settings(settings)
