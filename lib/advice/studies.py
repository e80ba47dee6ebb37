"""The study that is advised: which of its stages adapt and classify, and the file that runs one model on own texts."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from lib.core.errors import ConfigError
from lib.study.configuration import Layer, load_study, merged
from lib.study.graph import Graph
from lib.study.recipe import Recipe
from lib.study.study import Study

TEXTS = "texts"
"""Name of the own texts in a study."""

SECTIONS = ("tables", "figures", "analyses")


@dataclass(frozen=True)
class Stages:
    """The two stages of a study that own texts pass."""

    adaptation: str
    """Masked language modelling."""
    classification: str
    """Of documents; it starts from the adaptation."""


def find_stages(graph: Graph) -> Stages:
    """Return the last stage that trains to classify documents, and the stage of masked language modelling before it.

    Raises:
        ConfigError: there are no such stages.
    """

    def trains(stage: str, kind: str) -> bool:
        return all(work.recipe and work.task.kind == kind for work in graph.experiment.stages[stage].data.values())

    for stage in reversed(graph.experiment.stages):
        if trains(stage, "sequence_classification"):
            before = [name for name in graph.chain(stage)[1:] if trains(name, "masked_lm")]
            if before:
                return Stages(before[0], stage)
    raise ConfigError(
        "the study has no stage of sequence_classification that starts from one of masked_lm. Expected both, since "
        "they are what is estimated; name another study with --study."
    )


def template(graph: Graph, stage: str, limit: int) -> str:
    """Return the entry of a stage's `data` whose limit on tokens is the nearest to `limit`: its recipe is taken."""
    entries = graph.experiment.stages[stage].data
    return min(entries, key=lambda entry: abs(math.log2(graph.corpus(entry).max_tokens / limit)))


def recipe(graph: Graph, stage: str, limit: int) -> Recipe:
    """Return the recipe for documents of `limit` tokens."""
    found = graph.experiment.stages[stage].data[template(graph, stage, limit)].recipe
    assert found is not None  # `find_stages` saw to it
    return found


def candidates(graph: Graph, stages: Stages) -> list[str]:
    """Return the models that pass both stages on tokens, in order."""
    both = (stages.adaptation, stages.classification)
    return [
        model
        for model in graph.experiment.models
        if set(both) <= set(graph.stages_of(model)) and all(graph.reads_tokens(model, stage) for stage in both)
    ]


@dataclass(frozen=True)
class OwnStudy:
    """What the file of a study on own texts says.

    Args:
        model: the one that is trained, beside the baseline.
        limit: tokens that documents are cut to.
        files: the texts.
        column: of the text.
        label: column of the label; None = the texts have none, and are only adapted to.
        labels: names of the classes.
        documents: number of documents.
        held_out: of those, how many texts without labels are held out.
        vocabulary: a vocab.txt in place of the study's vocabulary; None = the study's.
        execution: settings of `execution` that differ, `results` among them.
        precision: arithmetic of the forward pass.
    """

    model: str
    limit: int
    files: Sequence[str]
    column: str
    label: str | None
    labels: Sequence[str]
    documents: int
    held_out: int
    vocabulary: str | None
    execution: Mapping[str, Any]
    precision: str

    def write(self, layers: Sequence[Layer], stages: Stages, extends: str) -> str:
        """Return the file as YAML, which loads as a study.

        Args:
            layers: the study that it extends.
            stages: of that study.
            extends: path of that study, as the file names it.

        Raises:
            ConfigError: it does not load; that is a fault of the study that it extends, or of the texts' options.
        """
        base = load_study(layers)
        values = self._values(base, merged(layers), stages)
        values["report"] |= {
            section: gone for section in SECTIONS if (gone := _not_possible(layers, values, base, section))
        }
        load_study([*layers, (extends, values)])
        return yaml.safe_dump({"extends": extends, **values}, sort_keys=False, allow_unicode=True, width=110)

    def _values(self, base: Study, raw: Mapping[str, Any], stages: Stages) -> dict[str, Any]:
        graph = base.graph
        if TEXTS in {*graph.experiment.corpora, *graph.experiment.datasets}:
            raise ConfigError(f"the study has texts called '{TEXTS}', as yours would be. Rename those of the study.")
        kept = {self.model}
        if self.label is not None and base.report.baseline in graph.experiment.models:
            kept.add(str(base.report.baseline))
        taken = graph.experiment.models[self.model]
        mechanisms = {taken.mechanism, *(change.mechanism for change in taken.changes.values())}
        values: dict[str, Any] = {}
        if self.precision != graph.experiment.precision:
            values["precision"] = self.precision
        values["mechanisms"] = {name: None for name in graph.experiment.mechanisms if name not in mechanisms}
        values["models"] = {  # others go with their mechanisms
            name: None
            for name, model in graph.experiment.models.items()
            if name not in kept and (model.mechanism is None or model.mechanism in mechanisms)
        }
        if tokenizers := self._tokenizers(graph):
            values["tokenizers"] = tokenizers
        values["datasets"] = dict.fromkeys(graph.experiment.datasets)
        source = {"source": "local", "local": {"files": {"train": list(self.files)}}, "text": self.column}
        works = [stages.adaptation]
        if self.label is None:
            trained = {"articles": self.documents - self.held_out, "max_tokens": self.limit}
            values["corpora"] = {
                TEXTS: source
                | {"short": {"articles": 0, "max_tokens": self.limit}, "long": trained}
                | {"held_out": {"articles": self.held_out, "max_tokens": self.limit}}
            }
        else:
            own = source | {"label": self.label, "labels": list(self.labels), "max_tokens": self.limit}
            values["datasets"] |= {TEXTS: own}
            works.append(stages.classification)
        passed = {name for stage in works for name in graph.chain(stage)}
        values["stages"] = gone = {name: None for name in graph.experiment.stages if name not in passed}
        for name in kept:
            if set(skipped := graph.experiment.models[name].skip) & set(gone):
                values["models"][name] = {"skip": [stage for stage in skipped if stage not in gone]}
        for stage in works:
            entry = template(graph, stage, self.limit)
            written = raw["experiment"]["stages"][stage]["data"][entry] or {}
            values["stages"][stage] = {"data": {TEXTS: written}}
        report: dict[str, Any] = {"published": None, "reference": None}
        if base.report.baseline not in kept:
            report["baseline"] = None
        return {"experiment": values, "report": report, "execution": dict(self.execution)}

    def _tokenizers(self, graph: Graph) -> dict[str, Any]:
        """Return what differs of the tokenisers."""
        if self.vocabulary is not None:
            own = {"source": "local", "algorithm": "wordpiece", "path": self.vocabulary}
            return {name: dict(own) for name in graph.experiment.tokenizers}
        # Without labels, the texts are a second corpus, so a tokeniser has to say which one it is trained on.
        return {
            name: {"corpus": next(iter(graph.experiment.corpora))}
            for name, settings in graph.experiment.tokenizers.items()
            if self.label is None and settings.source == "trained" and settings.corpus is None
        }


def _not_possible(layers: Sequence[Layer], values: Mapping[str, Any], base: Study, section: str) -> dict[str, None]:
    """Return the entries of a section of the report that name what the new study has not."""
    every = {name: dict.fromkeys(getattr(base.report, name)) for name in SECTIONS}
    gone: dict[str, None] = {}
    for entry in every[section]:
        alone = every | {section: {name: None for name in every[section] if name != entry}}
        try:
            load_study([*layers, ("trial", {**values, "report": values["report"] | alone})])
        except ConfigError:
            gone[entry] = None
    return gone
