"""What models do, or may do after a search, at the stages of a study."""

import contextlib
from typing import NamedTuple

from pydantic import ValidationError

from lib.backbones.settings import BackboneSettings
from lib.preparing.settings.dataset import Dataset
from lib.study.graph import Graph
from lib.study.stages import Work


class Place(NamedTuple):
    """A model at a stage, on an entry of the stage's `data`."""

    model: str
    stage: str
    entry: str
    work: Work
    tried: list[Work]
    """All that it may do there: by each of the settings that its own or another search tries."""
    backbone: BackboneSettings
    trains: bool
    reads_tokens: bool
    dataset: Dataset | None
    """Its labelled data; None = a corpus."""
    parent: tuple[str, str] | None
    """Stage and entry that its weights come from."""

    def __str__(self) -> str:
        return f"stages.{self.stage}.data.{self.entry}"


def place_of(graph: Graph, model: str, stage: str, entry: str) -> Place:
    """Return the place of a model at a stage on an entry of its `data`."""
    section, work = graph.experiment.stages[stage], graph.work(model, stage, entry)
    source = graph.experiment.stages[section.settings_from] if section.settings_from else section
    tried = []
    for settings in source.tried():
        with contextlib.suppress(ValidationError):  # the check of best settings reports it
            tried.append(work.with_settings(settings))
    place = model, stage, entry
    what = graph.backbone_at(*place), graph.trains(*place), graph.reads_tokens(*place)
    return Place(*place, work, tried or [work], *what, graph.experiment.datasets.get(entry), graph.parent(*place))
