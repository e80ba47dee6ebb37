"""The study that is advised, as a file that stands alone: TF-IDF and a published encoder, or a mechanism."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lib.advice.encoders import PublishedEncoder
from lib.advice.estimates import Stages
from lib.advice.preparing import OwnTexts
from lib.advice.question import Question
from lib.core.errors import MOST_OF_VALUE, ConfigError, cut
from lib.core.files import mapping_text
from lib.core.settings import overlaid
from lib.study.configuration import Layer, load_study, merged
from lib.study.graph import Graph
from lib.study.recipe import Recipe

TEXTS = "texts"
"""Name of the own texts in a study."""

SEEDS = (1, 2, 3)
"""Seeds of a study of a published encoder."""


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
        own: the texts. Without labels, a model is only adapted to them.
        limit: tokens that documents are cut to.
        execution: settings of `execution`, `results` among them.
        precision: arithmetic of the forward pass.
        ngrams: settings of TF-IDF that differ from the defaults; None = it is left out.
    """

    question: Question
    own: OwnTexts
    limit: int
    execution: Mapping[str, Any]
    precision: str
    ngrams: Mapping[str, Any] | None

    def of_encoder(self, encoder: PublishedEncoder) -> str:
        """Return the study that fine-tunes a published encoder, or adapts it to texts without labels.

        Labelled documents longer than the encoder reads are read in segments, too, as one row more; texts without
        labels are cut to its reach.
        """
        longer = self.own.labelled and self.limit > encoder.reach
        models: dict[str, Any] = {encoder.name: {"backbone": encoder.name}}
        backbones: dict[str, Any] = {}
        if "repository" in encoder.place:  # plans without a network
            backbones[encoder.name] = {"architecture": dict(encoder.architecture)}
        if longer:
            segments = f"{encoder.name}-segments"
            models[encoder.name]["max_tokens"] = encoder.reach
            backbones[segments] = {"kind": "hierarchical", "encoder": encoder.name, "segment": encoder.reach}
            models[segments] = {"backbone": segments}
        labelled = self.own.labelled
        stage, task = (
            ("finetune", {"kind": "sequence_classification", "classifier_pooling": "mean"})
            if labelled
            else ("tapt", {"kind": "masked_lm"})
        )
        settings = encoder.recipe(self.own.splits["train"], labelled=labelled)
        experiment = {
            "seeds": list(SEEDS),
            "precision": self.precision,
            "published": {encoder.name: dict(encoder.place)},
            "backbones": backbones,
            "datasets" if labelled else "corpora": {TEXTS: self._texts(self.limit if longer else encoder.reach)},
            "stages": {stage: {"task": task, "recipe": settings, "data": {TEXTS: {}}}},
            "models": models,
        }
        return self._file({"experiment": experiment, "execution": dict(self.execution)}, encoder.name)

    def of_model(self, layers: Sequence[Layer], stages: Stages, model: str) -> str:
        """Return the study that trains a model of another study, from its pretraining or from `question.weights`.

        Args:
            layers: the other study.
            stages: of that study.
            model: of that study.

        Raises:
            ConfigError: the other study has a corpus that is called as the own texts are, or its parts do not fit.
        """
        graph, raw, weights = load_study(layers).graph, merged(layers), self.question.weights
        experiment, labelled = dict(raw["experiment"]), self.own.labelled
        if TEXTS in graph.experiment.corpora:
            raise ConfigError(f"the study has texts called '{TEXTS}', as yours would be. Rename those of the study.")
        works = [stages.adaptation, stages.classification] if labelled else [stages.adaptation]
        chain = graph.chain(works[-1])[::-1]
        if weights is not None:
            chain = chain[chain.index(stages.adaptation) :]
        kept = {stage: dict(experiment["stages"][stage]) for stage in chain}
        for stage in works:
            kept[stage]["data"] = {TEXTS: kept[stage]["data"][template(graph, stage, self.limit)] or {}}
        row = {key: value for key, value in experiment["models"][model].items() if key != "datasets"}
        row["skip"] = [stage for stage in row.get("skip", ()) if stage in kept]
        if weights is not None:
            row["start"] = {"folder": weights}
            kept[stages.adaptation].pop("start", None)
        taken = graph.experiment.models[model]
        mechanisms = {*taken.mechanisms, *(name for change in taken.changes.values() for name in change.mechanisms)}
        first = next(iter(graph.experiment.corpora), None)
        corpora = dict(experiment.get("corpora", {}))
        experiment |= {
            "precision": self.precision,
            "mechanisms": {name: each for name, each in experiment["mechanisms"].items() if name in mechanisms},
            "backbones": dict(experiment["backbones"]),
            "tokenizers": {
                name: self._tokenizer(experiment["tokenizers"][name], None if labelled else first)
                for name in graph.experiment.tokenizers
            },
            "datasets": {TEXTS: self._texts(self.limit)} if labelled else {},
            "corpora": corpora if labelled else corpora | {TEXTS: self._texts(self.limit)},
            "stages": kept,
            "models": {model: row},
        }
        values = {"extensions": raw["extensions"]} if raw.get("extensions") else {}
        execution = overlaid(raw.get("execution", {}), self.execution)
        return self._file(values | {"experiment": experiment, "execution": execution}, model)

    def _file(self, values: dict[str, Any], model: str) -> str:
        """Return the file, with TF-IDF as its first row and a report on its last stage.

        Raises:
            ConfigError: it does not load; that is a fault of the study that it is made of, or of the texts' options.
        """
        experiment = values["experiment"]
        *before, stage = experiment["stages"]
        report: dict[str, Any] = {"title": title(self.question)}
        if not self.own.labelled:
            report["tables"] = {stage: {"stage": stage, "columns": ["memory", "minutes", "loss"]}}
        else:
            report["tables"] = {"f1": {"stage": stage, "columns": ["f1", "minutes"]}}
            report["analyses"] = {"prediction_cost": {"kind": "prediction_cost", "stage": stage}}
            if self.ngrams is not None:
                experiment["backbones"]["tfidf"] = {"kind": "tfidf", **self.ngrams}
                skipping = {"skip": before} if before else {}
                experiment["models"] = {"tfidf": {"backbone": "tfidf"} | skipping} | experiment["models"]
                report["baseline"] = "tfidf"
            if len(experiment["models"]) > 1:
                compared = {kind: {"kind": kind, "stage": stage} for kind in ("answer", "significance")}
                report |= {"tables": compared | report["tables"], "reference": model, "opens_with": ["answer"]}
        values = values | {"report": report}
        try:
            load_study([("the advised study", values)])
        except ConfigError as error:
            raise ConfigError(f"the advised study does not load: {error}") from error
        return mapping_text(values, width=110)

    def _texts(self, limit: int) -> dict[str, Any]:
        """Return the own texts as a dataset if they have labels, and else as a corpus."""
        source = {"source": "local", "local": {"files": {"train": list(self.question.texts)}}, **self.own.settings}
        size = {"max_tokens": min(limit, self.limit)}
        if self.own.labelled:
            return source | size
        parts = {"short": 0, "long": self.own.splits["train"], "held_out": self.own.splits["held_out"]}
        return source | {part: {"articles": articles} | size for part, articles in parts.items()}

    def _tokenizer(self, settings: Mapping[str, Any], corpus: str | None) -> dict[str, Any]:
        """Return the settings of a tokeniser; with two corpora, it has to say which one it is trained on."""
        if self.question.vocabulary is not None:
            return {"source": "local", "algorithm": "wordpiece", "path": self.question.vocabulary}
        trained = settings.get("source", "trained") == "trained" and corpus is not None
        return ({"corpus": corpus} if trained else {}) | dict(settings)


def title(question: Question) -> str:
    """Return the title of the study's report, which names the file of the texts, or the first of several."""
    first, *others = question.texts
    name = " ".join(cut(Path(first).name, MOST_OF_VALUE).split())
    return f"Models on {name}" + (f" and {len(others)} more" if others else "")
