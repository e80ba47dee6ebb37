"""The study that is advised: its recipes for some length, and the file that runs one model on own texts."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lib.advice.encoders import TEXTS, local_texts, title
from lib.advice.estimates import Stages
from lib.advice.preparing import OwnTexts
from lib.advice.question import Question
from lib.core.errors import ConfigError
from lib.core.files import mapping_text
from lib.study.configuration import Layer, load_study, merged
from lib.study.graph import Graph
from lib.study.recipe import Recipe
from lib.study.study import Study

SECTIONS = ("tables", "figures", "analyses")


def template(graph: Graph, stage: str, limit: int) -> str:
    """Return the entry of a stage's `data` whose limit on tokens is the nearest to `limit`: its recipe is taken."""
    entries = graph.experiment.stages[stage].data
    return min(entries, key=lambda entry: abs(math.log2(graph.corpus(entry).max_tokens / limit)))


def recipe(graph: Graph, stage: str, limit: int) -> Recipe:
    """Return the recipe for documents of `limit` tokens."""
    found = graph.experiment.stages[stage].data[template(graph, stage, limit)].recipe
    assert found is not None  # `find_stages` saw to it
    return found


@dataclass(frozen=True)
class OwnStudy:
    """The file of a study on own texts.

    Args:
        question: question about the texts.
        own: the texts. Without labels, they are only adapted to.
        model: the one that is trained, in addition to the baseline.
        limit: tokens that documents are cut to.
        execution: settings of `execution` that differ, `results` among them.
        precision: arithmetic of the forward pass.
        ngrams: settings of a baseline of TF-IDF that differ from the defaults; None = it is left out.
    """

    question: Question
    own: OwnTexts
    model: str
    limit: int
    execution: Mapping[str, Any]
    precision: str
    ngrams: Mapping[str, Any] | None

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
        left = {
            name
            for each in SECTIONS
            for name in getattr(base.report, each)
            if name not in values["report"].get(each, {})
        }
        values["report"]["opens_with"] = [name for name in base.report.opens_with or () if name in left] or None
        load_study([*layers, (extends, values)])
        return mapping_text({"extends": extends, **values}, width=110)

    def _values(self, base: Study, raw: Mapping[str, Any], stages: Stages) -> dict[str, Any]:
        graph, baseline = base.graph, base.report.baseline
        if TEXTS in {*graph.experiment.corpora, *graph.experiment.datasets}:
            raise ConfigError(f"the study has texts called '{TEXTS}', as yours would be. Rename those of the study.")
        kept = {self.model}
        baselines = graph.experiment.models if self.own.labelled and self.ngrams is not None else ()
        if baseline in baselines:
            kept.add(str(baseline))
        values: dict[str, Any] = {} if self.precision == graph.experiment.precision else {"precision": self.precision}
        values |= self._models(graph, kept)
        if baseline in kept and graph.backbone_at(str(baseline), stages.classification, None).kind == "tfidf":
            own = dict.fromkeys(("C", "class_weight"), "validation") | dict(self.ngrams or {})
            values["backbones"] = {graph.experiment.models[str(baseline)].backbone: own}
        if tokenizers := self._tokenizers(graph):
            values["tokenizers"] = tokenizers
        values |= self._texts(graph)
        if self.question.weights is not None:
            values["models"][self.model] = {"start": {"folder": self.question.weights}}
        works = [stages.adaptation] if not self.own.labelled else [stages.adaptation, stages.classification]
        passed = {name for stage in works for name in graph.chain(stage)}
        if self.question.weights is not None:
            passed = set(works) | {stages.adaptation}
        gone = {name: None for name in graph.experiment.stages if name not in passed}
        for name in kept:
            if set(skipped := graph.experiment.models[name].skip) & set(gone):
                values["models"][name] = {
                    "skip": [stage for stage in skipped if stage not in gone],
                    **(values["models"].get(name) or {}),
                }
            if graph.experiment.models[name].datasets:
                values["models"].setdefault(name, {})["datasets"] = None  # which are not the own texts
        values["stages"] = dict(gone)
        for stage in works:
            entry = template(graph, stage, self.limit)
            written = raw["experiment"]["stages"][stage]["data"][entry] or {}
            values["stages"][stage] = {"data": {TEXTS: written}}
        if self.question.weights is not None:
            values["stages"][stages.adaptation]["start"] = None
        report = {"title": title(self.question), "published": None, "reference": None, "opens_with": None}
        if baseline not in kept:
            report["baseline"] = None
        return {"experiment": values, "report": report, "execution": dict(self.execution)}

    def _models(self, graph: Graph, kept: Collection[str]) -> dict[str, Any]:
        """Return the mechanisms and the models that go; models also go with their mechanisms."""
        taken = graph.experiment.models[self.model]
        mechanisms = {*taken.mechanisms, *(name for change in taken.changes.values() for name in change.mechanisms)}
        return {
            "mechanisms": {name: None for name in graph.experiment.mechanisms if name not in mechanisms},
            "models": {
                name: None
                for name, model in graph.experiment.models.items()
                if name not in kept and mechanisms.issuperset(model.mechanisms)
            },
        }

    def _texts(self, graph: Graph) -> dict[str, Any]:
        """Return the own texts in place of the study's datasets."""
        gone: dict[str, Any] = dict.fromkeys(graph.experiment.datasets)
        texts = {TEXTS: local_texts(self.question, self.own, {"max_tokens": self.limit})}
        return {"datasets": gone | texts} if self.own.labelled else {"datasets": gone, "corpora": texts}

    def _tokenizers(self, graph: Graph) -> dict[str, Any]:
        """Return what differs of the tokenisers."""
        if self.question.vocabulary is not None:
            own = {"source": "local", "algorithm": "wordpiece", "path": self.question.vocabulary}
            return {name: dict(own) for name in graph.experiment.tokenizers}
        # Without labels, the texts are a second corpus, so a tokeniser has to say which one it is trained on.
        return {
            name: {"corpus": next(iter(graph.experiment.corpora))}
            for name, settings in graph.experiment.tokenizers.items()
            if not self.own.labelled and settings.source == "trained" and settings.corpus is None
        }


def _not_possible(layers: Sequence[Layer], values: Mapping[str, Any], base: Study, section: str) -> dict[str, None]:
    """Return the entries of a section of the report that name something that the new study does not have."""
    every = {name: dict.fromkeys(getattr(base.report, name)) for name in SECTIONS}
    gone: dict[str, None] = {}
    for entry in every[section]:
        alone = every | {section: {name: None for name in every[section] if name != entry}}
        try:
            load_study([*layers, ("trial", {**values, "report": values["report"] | alone})])
        except ConfigError:
            gone[entry] = None
    return gone
