"""The runs of a study. All later steps (paths, rules, tables, status) take runs."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from lib.backbones.settings import BackboneSettings
from lib.core.files import json_as_yaml
from lib.core.record import RunId
from lib.core.search_space import Setting, variant_name
from lib.core.weights import ForeignStart, WordVectorsStart
from lib.preparing.settings.corpus import Corpus
from lib.preparing.settings.dataset import Dataset
from lib.study.graph import Graph
from lib.study.stages import Work
from lib.study.tuning import Tuning


class Imitated(NamedTuple):
    """A model whose states another one learns; it runs in the same training."""

    weights: RunId | ForeignStart
    """The run that its weights come from, or a published model."""
    backbone: BackboneSettings


@dataclass(frozen=True)
class Run:
    """One run, with all that follows for it from the study."""

    id: RunId
    settings: str
    """The settings that its result depends on, without paths, as JSON with sorted keys."""
    work: Work
    """Task and recipe, with the settings of its variant."""
    backbone: BackboneSettings
    corpus: Corpus | Dataset
    """Its data."""
    splits: tuple[str, ...]
    """The splits that it reads."""
    fitted_to: str
    """The dataset whose training documents it reads."""
    tokenizer: str | None
    """Name of the tokeniser of its data; None = it reads texts."""
    max_tokens: int | None
    """Tokens that a document is cut to; None = it reads texts."""
    tokens_name: str | None
    """Name of the tokens that it reads, among those of the same documents; None = it reads texts."""
    parent: RunId | None
    """The run whose weights it starts from."""
    start: ForeignStart | WordVectorsStart | None
    """Initial weights that come from outside of the study."""
    teacher: RunId | None
    """The run whose model is its teacher."""
    imitated: Imitated | None
    """The model whose states it learns."""
    settings_from: str | None
    """The stage whose search chooses some of its settings."""
    tuning: Tuning | None
    """Its search by trials, each of them a training."""
    trains: bool
    """Whether it has a training loop."""
    measures: bool
    """Whether it measures the geometry of attention."""

    @property
    def reads_tokens(self) -> bool:
        """Whether it reads tokens, and not texts."""
        return self.tokenizer is not None


def resolve(graph: Graph) -> list[Run]:
    """Return all runs of a checked study; runs that models share are listed once."""
    return [
        derive(graph, RunId(stage, model, dataset, seed, variant_name(settings)), settings)
        for stage, section in graph.experiment.stages.items()
        for model in graph.experiment.models
        for dataset in graph.entries(model, stage)
        if graph.owner(model, stage, dataset) == model
        for settings in section.combinations()
        for seed in graph.seeds_of(stage, dataset)
    ]


def derive(graph: Graph, run: RunId, variant: Mapping[str, Setting]) -> Run:
    """Return the run of that name in a checked study.

    Args:
        graph: graph of the study.
        run: name of the run.
        variant: the settings of its variant of a search; none for a run without a search.
    """
    stage, model, dataset = run.stage, run.model, run.dataset
    experiment, section = graph.experiment, graph.experiment.stages[stage]
    work = graph.work(model, stage, dataset).with_settings(variant)
    backbone = _with_class_weights(graph, run, work, graph.backbone_at(model, stage, dataset))
    trains, reads_tokens = graph.trains(model, stage, dataset), graph.reads_tokens(model, stage, dataset)
    measures = graph.measures(model, stage, dataset)
    parent = _parent(graph, run) if reads_tokens else None
    start = experiment.models[model].start if reads_tokens and parent is None else None
    teacher = work.task.taught_by()
    imitated = _imitated(graph, run, work)

    settings: dict[str, Any] = {"stage": stage, "model": model, "dataset": dataset, "seed": run.seed}
    settings |= {"task": work.task.model_dump(mode="json"), "backbone": backbone.model_dump(mode="json")}
    if imitated:
        settings["task"] |= {"teacher_backbone": imitated.backbone.model_dump(mode="json")}
    if variant:
        settings["variant"] = variant
    if work.task.labelled and work.task.label_form != "number":
        settings["labels"] = experiment.datasets[dataset].labels
    if reads_tokens:
        settings |= {"max_tokens": graph.max_tokens(model, dataset), "precision": experiment.precision}
    if trains:
        assert work.recipe is not None
        settings["recipe"] = work.recipe.model_dump(mode="json") | {"keep": work.keep}
    if measures:
        assert section.geometry is not None
        settings["geometry"] = section.geometry.model_dump(mode="json")
    if section.tuning:
        settings["tuning"] = section.tuning.model_dump(mode="json")

    return Run(
        id=run,
        settings=as_json(settings),
        work=work,
        backbone=backbone,
        corpus=graph.corpus(dataset),
        splits=graph.splits(model, stage, dataset),
        fitted_to=dataset if reads_tokens else graph.fitted_at(model, stage, dataset)[1],
        tokenizer=graph.tokenizer_of(model, dataset) if reads_tokens else None,
        max_tokens=graph.max_tokens(model, dataset) if reads_tokens else None,
        tokens_name=graph.tokens_name(model, dataset) if reads_tokens else None,
        parent=parent,
        start=start if isinstance(start, ForeignStart | WordVectorsStart) else None,
        teacher=None if teacher is None else run._replace(model=graph.owner(teacher, stage, dataset), variant=""),
        imitated=imitated,
        settings_from=section.settings_from if trains else None,
        tuning=section.tuning,
        trains=trains,
        measures=measures,
    )


def _with_class_weights(graph: Graph, run: RunId, work: Work, backbone: BackboneSettings) -> BackboneSettings:
    """Return a backbone, with the class weights of the recipe if it has such a setting and leaves it unset.

    Where it is fitted to another dataset, classes are named as in the run's own.
    """
    stage, dataset = graph.fitted_at(run.model, run.stage, run.dataset)
    recipe = work.recipe if stage == run.stage else graph.work(run.model, stage, dataset).recipe
    weights, unset = recipe and recipe.class_weights, type(backbone).model_fields.keys() - backbone.model_fields_set
    if not weights or "class_weight" not in unset:
        return backbone
    if isinstance(weights, dict):
        there, here = (graph.experiment.datasets[name].labels for name in (dataset, run.dataset))
        weights = {here[there.index(name)]: weight for name, weight in weights.items()}
    return backbone.model_copy(update={"class_weight": weights})


def _parent(graph: Graph, run: RunId) -> RunId | None:
    """Return the run whose weights a run starts from; None = they come from elsewhere, or are random."""
    if (parent := graph.parent(run.model, run.stage, run.dataset)) is None:
        return None
    return RunId(parent[0], graph.owner(run.model, *parent), parent[1], graph.seed_before(*parent, run.seed))


def _imitated(graph: Graph, run: RunId, work: Work) -> Imitated | None:
    """Return the model whose states a run learns, with its weights before the stage."""
    name = work.task.imitates()
    if name is None:
        return None
    weights = _parent(graph, run._replace(model=name)) or graph.experiment.models[name].start
    assert isinstance(weights, RunId | ForeignStart)  # the study was checked
    return Imitated(weights, graph.backbone_before(name, run.stage, run.dataset))


def as_json(value: Any) -> str:
    """Return `value` as JSON with sorted keys, so that equal settings give equal text, which YAML reads as well."""
    return json_as_yaml(json.dumps(value, sort_keys=True, ensure_ascii=False))
