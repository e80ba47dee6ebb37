"""A study: one configuration file. `experiment` says what is compared, `report` what comes out, `execution` how."""

import contextlib
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError

from lib.analysis.parameters import AnalysisParameters
from lib.attention.parameters import AnyMechanism, MechanismParameters
from lib.backbones.parameters import AnyBackbone, BackboneParameters, Precision
from lib.core.search_space import Setting, VariedSetting, laid_over, short_name, spelled, variant_name
from lib.core.sections import Name, Section, Seeds, check, remembered, sentences, whole, without_null
from lib.core.weights import ForeignStart
from lib.data.generators import problems_of
from lib.data.sections import Corpus, Dataset, GeneratedSource, Tokenizer
from lib.results.parameters import ResultParameters
from lib.study.execution import Execution
from lib.study.geometry import Geometry
from lib.study.recipe import Recipe, obstacle_of_quantized
from lib.study.report import Report
from lib.study.tuning import Tuning
from lib.tasks.parameters import TASKS, AnyTask

SCRATCH = "scratch"


def _start(values: Any) -> Any:
    """Return a typed start, so that what is wrong with one is not told once for every form that it may have."""
    if isinstance(values, dict):
        return ForeignStart.model_validate(values)
    if values is None or values == SCRATCH or isinstance(values, ForeignStart):
        return values
    raise ValueError(f"expected '{SCRATCH}', a folder ({{folder: ...}}) or a repository with its revision")


class Change(Section):
    """What becomes of a model from some stage on; what is not named stays."""

    backbone: str | None = Field(None, description="Name of a backbone that can take over the weights.")
    mechanism: str | None = Field(None, description="Name of an attention mechanism that can take over the weights.")


class Deviation(Section):
    """What one model does otherwise than the others at a stage; what is not named is as the stage says."""

    task: dict[str, Any] = Field(
        default_factory=dict,
        description="Settings of its task that replace those of the stage; another `kind` replaces the task itself.",
    )
    recipe: dict[str, Any] | None = Field(
        default_factory=dict, description="Settings of its recipe that replace those of the stage; null = no training."
    )

    def of(self, work: "Work") -> "Work":
        """Return what the model does in place of `work`.

        Raises:
            pydantic.ValidationError: a setting is unknown or its value wrong, by itself or beside the others.
        """
        values = work.model_dump(exclude_unset=True)
        replaces = self.task.get("kind", work.task.kind) != work.task.kind
        values["task"] = {**({} if replaces else values["task"]), **self.task}
        values["recipe"] = None if self.recipe is None else {**(values.get("recipe") or {}), **self.recipe} or None
        return Work.model_validate(values)


class Model(Section):
    """One row of the tables."""

    backbone: str = Field(description="Name of its backbone.")
    mechanism: str | None = Field(None, description="Name of its attention mechanism, if its backbone takes one.")
    tokenizer: str | None = Field(
        None, description="Name of its tokeniser; null = the tokeniser of the corpus or dataset, or the only one."
    )
    start: Annotated[Literal["scratch"] | ForeignStart | None, BeforeValidator(_start)] = Field(
        None,
        description="First weights of the first stage that it does not skip; `scratch` = drawn weights, even if "
        "that stage starts from another one; null = the weights that the stages name.",
    )
    skip: list[str] = Field(
        default_factory=list, description="Stages that it leaves out; later ones start from the one before."
    )
    changes: dict[str, Change] = Field(
        default_factory=dict, description="What it changes at a stage, for this stage and all that start from it."
    )
    deviations: dict[str, Deviation] = Field(
        default_factory=dict,
        description="Settings of task and recipe that replace those of a stage for this model, at this stage only.",
    )


class Work(Section):
    """What a stage does on one corpus or dataset: the settings of the stage with those of the entry laid over them."""

    task: AnyTask = Field(description="Settings of the task that hold here only.")
    recipe: Recipe | None = Field(None, description="Settings of the recipe that hold here only.")
    seeds: Seeds | None = Field(None, description="Seeds of the runs here; null = those of the stage.")
    start: str | None = Field(
        None,
        description="Entry of the earlier stage from whose runs these runs start; null = the entry of the same "
        "name, or the only one.",
    )

    def with_settings(self, settings: Mapping[str, Setting]) -> "Work":
        """Return the same work with settings, given by dotted names, in the place of its own.

        Raises:
            pydantic.ValidationError: a setting is unknown or its value wrong, by itself or beside the others.
        """
        if not settings:
            return self
        return Work.model_validate(laid_over(self.model_dump(exclude_unset=True), settings))

    @property
    def keep(self) -> Sequence[str]:
        """What is kept of the training."""
        return (self.recipe and self.recipe.keep) or [self.task.keeps]

    @property
    def lack_of_model(self) -> str | None:
        """Why no other run can take over what it leaves; None = it leaves a whole model."""
        if self.recipe is None:
            return "has no recipe and so leaves no model"
        if self.recipe.lora and not self.recipe.lora.merge:
            return "leaves adapters without the weights beside them (recipe.lora.merge: false)"
        return None


class Stage(Section):
    """A step in a model's life."""

    task: dict[str, Any] = Field(description="`kind` of the task, and its settings for all entries of `data`.")
    recipe: dict[str, Any] | None = Field(
        None,
        description="How it trains, for all entries of `data`. If it is null here and there, nothing trains: models "
        "are evaluated as they are, with the head of the stage that they start from.",
    )
    start: str | None = Field(None, description="Stage whose weights it starts from; null = drawn weights.")
    models: list[str] | None = Field(
        None, min_length=1, description="Models that pass it; null = all models that do not skip it."
    )
    seeds: Seeds | None = Field(
        None,
        description="Seeds of its runs; null = those of the study. If the earlier stage lacks a seed, a run starts "
        "from that stage's run of its first seed.",
    )
    geometry: Geometry | None = Field(
        None,
        description="Measurements of attention during the training, for backbones that have queries and keys; null "
        "= none.",
    )
    variants: dict[VariedSetting, Annotated[list[Setting], Field(min_length=1)]] = Field(
        default_factory=dict,
        description="Settings of task and recipe by dotted name (`recipe.freeze_layers`), each with the values to "
        "try. Every combination is a run, on every entry of `data` and with every seed.",
    )
    tuning: Tuning | None = Field(
        None,
        description="Search by trials that learn from each other, instead of `variants`: one run per entry of "
        "`data`, with the first seed, which keeps no model; null = no search.",
    )
    settings_from: str | None = Field(
        None,
        description="Stage with `variants` or `tuning` whose best settings on the same dataset every run that "
        "trains takes: those of the variant with the highest mean macro-F1 on validation, over the seeds, or of the "
        "trial with the best validation score of its task.",
    )
    data: dict[str, Work] = Field(min_length=1, description="Corpora and datasets that it works on, one run each.")

    @classmethod
    def prepared(cls, values: Any) -> Any:
        """Lay the entries of `data` over the settings that they share."""
        if not isinstance(values, dict) or not isinstance(values.get("data"), dict):
            return values
        entries = {}
        for name, entry in values["data"].items():
            entry = {} if entry is None else entry
            if isinstance(entry, dict):
                pairs = {key: (values.get(key) or {}, entry.get(key) or {}) for key in ("task", "recipe")}
                entry = entry | {
                    key: {**shared, **own}
                    for key, (shared, own) in pairs.items()
                    if isinstance(shared, dict) and isinstance(own, dict) and (shared or own)
                }
            entries[name] = entry
        return values | {"data": entries}

    def combinations(self) -> list[dict[str, Setting]]:
        """Return the settings of every variant, in order: the last setting runs fastest; without variants {} alone."""
        return [dict(zip(self.variants, values, strict=True)) for values in itertools.product(*self.variants.values())]

    @property
    def search(self) -> Literal["variants", "tuning"] | None:
        """Name of the section by which it searches settings; None = it searches none."""
        return "tuning" if self.tuning else "variants" if self.variants else None

    def tried(self) -> list[dict[str, Setting]]:
        """Return the settings that its search may choose: those of every variant, or some that stand for all trials."""
        return self.tuning.examples() if self.tuning else self.combinations()

    @check
    def _what_is_measured_trains(self) -> Iterator[str]:
        if self.geometry is not None and not any(work.recipe for work in whole(self.data).values()):
            yield "geometry: is measured while models train, but the stage has no recipe. Add one, or leave it out"

    @check
    def _searches_once(self) -> Iterator[str]:
        if self.variants and self.tuning:
            yield "variants stand beside tuning. Leave one of them out"
        for section, places in (
            ("variants", self.variants),
            ("tuning.space", self.tuning.space if self.tuning else {}),
        ):
            if "task.kind" in places:
                yield f"{section}.task.kind: a stage has one kind of task. Make a stage for each"
            if len(set(map(short_name, places))) < len(places):
                yield f"{section}: {', '.join(places)}: two have the same last name, by which they are told apart"

    @check
    def _tuning_finds_what_it_needs(self) -> Iterator[str]:
        if self.tuning is None:
            return
        several = {"seeds": self.seeds} | {f"data.{name}.seeds": work.seeds for name, work in whole(self.data).items()}
        for place, seeds in several.items():
            if len(seeds or []) > 1:
                yield f"{place}: {seeds} are several, but all trials of a tuning have the same. Give one"
        if self.geometry is not None:
            yield "geometry: is not kept of the trials of a tuning. Leave it out"
        for name, work in whole(self.data).items():
            if "validation" not in work.task.splits:
                yield f"tuning: {work.task.kind}, the task of data.{name}, has no score on validation. Name another"

    @check
    def _variants_have_names(self) -> Iterator[str]:
        for place, values in self.variants.items():
            if len(set(map(spelled, values))) < len(values):
                yield f"variants.{place}: {values} names a value twice. Name each once"
            for value in map(spelled, values):
                if not re.fullmatch(r"[A-Za-z0-9._-]+", value):
                    yield f"variants.{place}: no folder can bear the name '{value}'. Use letters, digits, '.', '_', '-'"

    @check
    def _what_is_searched_are_settings(self) -> Iterator[str]:
        found: dict[tuple[str, str], str] = {}
        section, need = ("tuning.space", "trials train by") if self.tuning else ("variants", "settings of")
        for entry, work in whole(self.data).items():
            if work.recipe is None and (self.tuning or any(place.startswith("recipe.") for place in self.variants)):
                yield f"{self.search}: {need} a recipe, but data.{entry} has none. Add one"
                continue
            for settings in self.tried():
                for place, sentence in problems_of_settings(work, settings):
                    found.setdefault((place, sentence), variant_name(settings))
        for (place, sentence), name in found.items():
            yield f"{section}.{place}: {sentence} (in {name})"


def problems_of_settings(work: Work, settings: Mapping[str, Setting]) -> Iterator[tuple[str, str]]:
    """Yield where settings do not fit into a work, and why."""
    try:
        work.with_settings(settings)
    except ValidationError as error:
        for place, sentence in sentences(error):
            yield ".".join(place), sentence


class Experiment(Section):
    """What is compared: models, data, stages."""

    seeds: Seeds = Field(description="Seeds; every run is made once per seed.")
    precision: Precision = Field("bf16", description="Arithmetic of the forward pass; `fp16` needs a GPU.")
    mechanisms: dict[Name, AnyMechanism] = Field(
        default_factory=dict,
        description="Attention mechanisms by name. A name is the canonical spelling of its parameters (`lsh-h2-c64`), "
        "with a suffix if two entries would share it (`lsh-h2-c64-masked`).",
    )
    backbones: dict[Name, AnyBackbone] = Field(description="Backbones by name.")
    tokenizers: dict[Name, Tokenizer] = Field(default_factory=dict, description="Tokenisers by name.")
    corpora: dict[Name, Corpus] = Field(default_factory=dict, description="Text without labels, by name.")
    datasets: dict[Name, Dataset] = Field(default_factory=dict, description="Labelled datasets by name.")
    stages: dict[Name, Stage] = Field(min_length=1, description="Steps in a model's life, by name.")
    models: dict[Name, Model] = Field(min_length=1, description="Rows of the tables, in order, by name.")

    @classmethod
    def prepared(cls, values: Any) -> Any:
        """Drop entries that are null, and what names them: how a file removes what the one it extends has."""
        if not isinstance(values, dict):
            return values
        named = {key: section for key, section in values.items() if isinstance(section, dict)}
        gone = {key: {name for name, entry in section.items() if entry is None} for key, section in named.items()}
        data_gone = gone.get("datasets", set()) | gone.get("corpora", set())
        kept = without_null(values, *named)
        if "models" in named:
            kept["models"] = {
                name: model
                for name, model in kept["models"].items()
                if not isinstance(model, dict) or model.get("mechanism") not in list(gone.get("mechanisms", ()))
            }
        for name, stage in kept["stages"].items() if "stages" in named else ():
            if isinstance(stage, dict) and isinstance(stage.get("data"), dict):
                entries = {entry: work for entry, work in stage["data"].items() if entry not in data_gone}
                kept["stages"] = kept["stages"] | {name: stage | {"data": entries}}
        return kept

    # What a model is and does at a stage

    def chain(self, stage: str) -> list[str]:
        """Return `stage` and the stages it starts from, the nearest first; a circle ends where it closes."""
        chain: list[str] = []
        stages = whole(self.stages)
        following: str | None = stage
        while following in stages and following not in chain:
            chain.append(following)
            following = stages[following].start
        return chain

    def passes(self, model: str, stage: str) -> bool:
        """Whether a model passes a stage."""
        named = getattr(self.stages[stage], "models", None)  # none of a stage that is wrong itself
        return stage not in self.models[model].skip and (named is None or model in named)

    @remembered
    def work(self, model: str, stage: str, entry: str) -> Work:
        """Return what a model does at a stage on an entry of its `data`.

        Raises:
            pydantic.ValidationError: what the model does otherwise than the stage says is wrong.
        """
        work = self.stages[stage].data[entry]
        deviation = self.models[model].deviations.get(stage)
        return deviation.of(work) if deviation else work

    @remembered
    def stages_of(self, model: str) -> list[str]:
        """Return the stages that a model passes, in the order of the configuration."""
        return [stage for stage in self.stages if self.passes(model, stage)]

    def parent_stage(self, model: str, stage: str) -> str | None:
        """Return the stage whose weights the model starts from at `stage`; None = its first weights."""
        return next((name for name in self.chain(stage)[1:] if self.passes(model, name)), None)

    def parent_dataset(self, stage: str, parent: str, dataset: str) -> str | None:
        """Return the entry of `parent` that a run of `stage` on `dataset` starts from; None = it cannot be told."""
        entries = list(self.stages[parent].data)
        named = getattr(self.stages[stage].data[dataset], "start", None)  # none of an entry that is wrong itself
        if named is not None:
            return named if named in entries else None
        return dataset if dataset in entries else entries[0] if len(entries) == 1 else None

    def seeds_of(self, stage: str, dataset: str) -> list[int]:
        """Return the seeds of the runs of a stage on an entry of its `data`."""
        section = self.stages[stage]
        seeds = section.data[dataset].seeds or section.seeds or self.seeds
        return seeds[:1] if section.tuning else seeds

    @remembered
    def backbone_at(self, model: str, stage: str) -> BackboneParameters:
        """Return the backbone of a model at a stage, with its attention mechanism.

        Raises:
            pydantic.ValidationError: the backbone cannot hold the mechanism.
        """
        backbone, mechanism = self._names_at(model, stage)
        found = self.backbones[backbone]
        return found.with_mechanism(self.mechanisms[mechanism]) if mechanism else found

    def _names_at(self, model: str, stage: str) -> tuple[str, str | None]:
        """Return the names of backbone and mechanism of a model at a stage."""
        entry = self.models[model]
        backbone, mechanism = entry.backbone, entry.mechanism
        for name in reversed(self.chain(stage)):
            if change := entry.changes.get(name):
                backbone, mechanism = change.backbone or backbone, change.mechanism or mechanism
        return backbone, mechanism

    def tokenizer_of(self, model: str, entry: str) -> str:
        """Return the name of the tokeniser by which a model reads a corpus or dataset."""
        return self.models[model].tokenizer or self.corpus(entry).tokenizer or next(iter(self.tokenizers))

    def corpus(self, name: str) -> Corpus | Dataset:
        """Return the corpus or dataset of that name."""
        return self.corpora[name] if name in self.corpora else self.datasets[name]

    def reads_tokens(self, model: str, stage: str) -> bool:
        """Whether a model reads tokens at a stage, and not texts."""
        return "states" in self.backbone_at(model, stage).abilities

    @remembered
    def trains(self, model: str, stage: str, dataset: str) -> bool:
        """Whether a run has a training loop."""
        work = self.work(model, stage, dataset)
        return work.recipe is not None and work.task.trains(self.backbone_at(model, stage))

    def measures(self, model: str, stage: str, dataset: str) -> bool:
        """Whether a run measures the geometry of attention."""
        asked, abilities = self.stages[stage].geometry, self.backbone_at(model, stage).abilities
        return asked is not None and "queries_and_keys" in abilities and self.trains(model, stage, dataset)

    def splits(self, model: str, stage: str, dataset: str) -> tuple[str, ...]:
        """Return the splits that a run reads."""
        fits = self.trains(model, stage, dataset) or not self.reads_tokens(model, stage)
        return self.work(model, stage, dataset).task.splits_read(fits=fits)

    def fitted_to(self, model: str, stage: str, dataset: str) -> str:
        """Return the dataset to which a model that reads texts is fitted: its own, or that of its parent stage."""
        parent = self.parent_stage(model, stage)
        if parent is None or self.work(model, stage, dataset).recipe is not None:
            return dataset
        before = self.parent_dataset(stage, parent, dataset)
        assert before is not None  # the study was checked
        return self.fitted_to(model, parent, before)

    def owner(self, model: str, stage: str) -> str:
        """Return the first model whose runs of `stage` are those of `model`, because all that made them is the same."""
        return self._owners(stage)[self._making_of(model, stage)]

    @remembered
    def _owners(self, stage: str) -> dict[str, str]:
        """Return the first model that passes a stage by what made its runs."""
        owners: dict[str, str] = {}
        for name in self.models:
            if stage in self.stages_of(name):
                owners.setdefault(self._making_of(name, stage), name)
        return owners

    @remembered
    def _making_of(self, model: str, stage: str) -> str:
        parent = self.parent_stage(model, stage)
        before = self._making_of(model, parent) if parent else repr(self.models[model].start)
        reads = self.stages[stage].data if self.reads_tokens(model, stage) else ()
        tokenizer = [self.tokenizer_of(model, entry) for entry in reads]
        backbone = self.backbone_at(model, stage).model_dump(mode="json")
        deviation = self.models[model].deviations.get(stage)
        otherwise = deviation and deviation.model_dump(mode="json")
        return json.dumps([stage, backbone, otherwise, tokenizer, before], sort_keys=True)

    # What must fit together

    @check
    def _names_are_distinct(self) -> Iterator[str]:
        for name in sorted(set(self.corpora) & set(self.datasets)):
            yield f"'{name}' is both a corpus and a dataset. Rename one of them"

    @check
    def _generated_corpora_can_be_made(self) -> Iterator[str]:
        sections: dict[str, dict[str, Any]] = {"corpora": whole(self.corpora), "datasets": whole(self.datasets)}
        for section, corpora in sections.items():
            for name, corpus in corpora.items():
                if isinstance(source := corpus.chosen, GeneratedSource):
                    for problem in problems_of(source.generator or name, source.documents, source.options):
                        yield f"{section}.{name}.generated.{problem}"

    @check
    def _mechanisms_are_what_they_are_called(self) -> Iterator[str]:
        for name, parameters in self.mechanisms.items():
            if not isinstance(parameters, MechanismParameters):
                continue  # wrong itself, and reported as such
            canonical = parameters.name()
            if name != canonical and not name.startswith(f"{canonical}-"):
                yield (
                    f"mechanisms.{name}: the name contradicts the parameters, which spell {canonical}. "
                    f"Call it '{canonical}' or '{canonical}-<suffix>', or change the parameters"
                )

    @check
    def _stages_start_from_stages(self) -> Iterator[str]:
        for name, stage in whole(self.stages).items():
            if stage.start is not None and stage.start not in self.stages:
                yield f"stages.{name}.start: '{stage.start}' is not a stage. Known: {', '.join(self.stages)}"

    @check
    def _stages_form_no_circle(self) -> Iterator[str]:
        reported: set[str] = set()
        for name in whole(self.stages):
            chain = self.chain(name)
            if self.stages[chain[-1]].start == name and name not in reported:
                reported |= set(chain)
                yield f"stages: {' starts from '.join([*chain, name])}, a circle. Take `start` away from one of them"

    @check
    def _stages_are_passed_by_models(self) -> Iterator[str]:
        models = whole(self.models)
        for name, stage in whole(self.stages).items():
            for model in stage.models or []:
                if model not in self.models:
                    yield f"stages.{name}.models: there is no '{model}'. Known: {', '.join(self.models)}"
                elif model in models and name in models[model].skip:
                    yield f"stages.{name}.models: {model} skips {name}. Take it out of one of the two"

    @check
    def _stages_start_from_one_model_each(self) -> Iterator[str]:
        stages = whole(self.stages)
        for name, stage in stages.items():
            search = stages[stage.start].search if stage.start in stages else None
            if search:
                reason = {"variants": "and so a model of each", "tuning": "whose trials keep no model"}[search]
                yield (
                    f"stages.{name}.start: {stage.start} has {search}, {reason}. Start from the stage before it; "
                    f"settings_from: {stage.start} takes the best settings"
                )

    @check
    def _settings_come_from_a_search(self) -> Iterator[str]:
        stages = whole(self.stages)
        for name, stage in stages.items():
            source = stage.settings_from
            place = f"stages.{name}.settings_from"
            if source is not None and source not in self.stages:
                yield f"{place}: '{source}' is not a stage. Known: {', '.join(self.stages)}"
            if source not in stages:
                continue
            search = stages[source]
            if not search.search:
                yield f"{place}: {source} has no variants to choose from, nor tuning. Add either, or name another stage"
                continue
            if stage.search:
                yield f"{place}: {name} has {stage.search} itself. Leave one of them out"
            if name in self._needed(source):
                yield f"{place}: {source} itself needs {name}, a circle. Let {source} start from another stage"
            passing = [model for model in whole(self.models) if self.passes(model, source)]
            if len(passing) != 1:
                yield (
                    f"{place}: {source} is passed by {', '.join(passing) or 'no model'}, but the best settings are "
                    f"those of a single model. Let stages.{source}.models name it"
                )
            yield from self._problems_of_taking(name, source)

    def _problems_of_taking(self, stage: str, source: str) -> Iterator[str]:
        """Yield why the best settings of `source` cannot be laid over those of `stage`."""
        place = f"stages.{stage}.settings_from"
        searched = self.stages[source].data
        found: dict[tuple[str, str], None] = {}
        for entry, work in whole(self.stages[stage].data).items():
            if entry not in searched:
                yield f"{place}: {source} does not search on {entry}. Add it to the data of {source}"
            elif entry in whole(searched):
                task = searched[entry].task
                by_f1 = self.stages[source].search == "variants"
                if by_f1 and (not task.labelled or task.label_per != "document"):
                    yield f"{place}: the best has the highest macro-F1, which {task.kind}, the task of {source}, lacks"
            if work.recipe is not None:
                for settings in self.stages[source].tried():
                    found |= dict.fromkeys(problems_of_settings(work, settings))
        for key, sentence in found:
            yield f"{place}: the best of {source} may not fit here: {key}: {sentence}"

    def _needed(self, stage: str) -> set[str]:
        """Return the stages whose runs those of `stage` need, directly or not."""
        stages, waiting = whole(self.stages), [stage]
        found: set[str] = set()
        while waiting:
            section = stages.get(waiting.pop())
            for following in (section.start, section.settings_from) if section else ():
                if following is not None and following not in found:
                    found.add(following)
                    waiting.append(following)
        return found

    @check
    def _stages_work_on_known_data(self) -> Iterator[str]:
        for name, stage in whole(self.stages).items():
            for entry in stage.data:
                if entry not in self.corpora and entry not in self.datasets:
                    known = ", ".join([*self.corpora, *self.datasets])
                    yield f"stages.{name}.data.{entry}: there is no such corpus or dataset. Known: {known}"

    @check
    def _labelled_tasks_have_labels(self) -> Iterator[str]:
        for place, entry, work in self._all_works():
            if entry in self.corpora and work.task.labelled:
                yield f"{place}: {work.task.kind} needs labels, but {entry} is a corpus without"

    @check
    def _labels_are_per_what_the_task_needs(self) -> Iterator[str]:
        datasets = whole(self.datasets)
        for place, entry, work in self._all_works():
            needed = work.task.label_per
            if work.task.labelled and entry in datasets and datasets[entry].label_per != needed:
                yield (
                    f"{place}: {work.task.kind} needs a label per {needed}, but {entry} has one "
                    f"per {datasets[entry].label_per}. Set datasets.{entry}.label_per: {needed} if its labels are "
                    "such, or give the stage another task or dataset"
                )

    @check
    def _tasks_fit_their_classes(self) -> Iterator[str]:
        datasets = whole(self.datasets)
        for place, entry, work in self._all_works():
            if work.task.labelled and entry in datasets:
                for problem in work.task.problems_of_labels(datasets[entry].labels):
                    yield f"{place}.task.{problem}"

    @check
    def _teachers_leave_a_model_of_the_same_task(self) -> Iterator[str]:
        for name, stage in self._passages():
            for entry, work in self._works_at(name, stage):
                teacher = work.task.taught_by()
                if teacher is not None and (problem := self._problem_of_teacher(teacher, stage, entry, work.task.head)):
                    yield f"models.{name}: at {stage} on {entry} its teacher is {problem}"

    def _problem_of_teacher(self, teacher: str, stage: str, entry: str, head: str | None) -> str | None:
        """Return why a model cannot teach others at a stage, as the end of a sentence; None = it can."""
        if teacher not in self.models:
            return f"'{teacher}', which is no model. Known: {', '.join(self.models)}"
        if teacher in whole(self.models) and not self.passes(teacher, stage):
            return f"{teacher}, which does not pass {stage}. Name one that does"
        if search := self.stages[stage].search:
            return f"{teacher}, but {stage} has {search}, and no one model of it. Leave one of them out"
        works = dict(self._works_at(teacher, stage)) if (teacher, stage) in set(self._passages()) else {}
        if entry not in works:
            return None  # wrong itself, and reported as such
        task = works[entry].task
        if not self.trains(teacher, stage, entry) or (task.head or task.kind) != head or task.taught_by():
            return f"{teacher}, which trains no {head} by labels alone there. Name a model that does"
        if lacking := works[entry].lack_of_model:
            return f"{teacher}, where {stage} {lacking}. Change that"
        return None

    @check
    def _deviations_fit(self) -> Iterator[str]:
        for name, model in whole(self.models).items():
            for stage, deviation in whole(model.deviations).items():
                place = f"models.{name}.deviations.{stage}"
                if stage not in self.stages:
                    yield f"{place}: there is no '{stage}'. Known: {', '.join(self.stages)}"
                    continue
                section = self.stages[stage]
                for work in whole(section.data).values() if stage in whole(self.stages) else ():
                    try:
                        own = deviation.of(work)
                    except ValidationError as error:
                        yield from (f"{'.'.join([place, *key])}: {sentence}" for key, sentence in sentences(error))
                        continue
                    for settings in section.tried():
                        for setting, sentence in problems_of_settings(own, settings):
                            yield f"{place}.{setting}: {sentence} (in {variant_name(settings)})"

    def _all_works(self) -> Iterator[tuple[str, str, Work]]:
        """Yield all that is done in stages, and by models otherwise: the place in the configuration, the entry."""
        for name, stage in whole(self.stages).items():
            for entry, work in whole(stage.data).items():
                yield f"stages.{name}.data.{entry}", entry, work
        for model, passed in self._passages():
            if passed in self.models[model].deviations:
                for entry, work in self._works_at(model, passed):
                    yield f"models.{model}.deviations.{passed}", entry, work

    def _works_at(self, model: str, stage: str) -> Iterator[tuple[str, Work]]:
        """Yield what a model does at a stage on each entry of its `data`, as far as it is right itself."""
        for entry in whole(self.stages[stage].data):
            with contextlib.suppress(ValidationError):  # reported as such
                yield entry, self.work(model, stage, entry)

    @check
    def _models_name_what_there_is(self) -> Iterator[str]:
        for name, model in whole(self.models).items():
            uses: list[tuple[str, str | None, dict[str, Any]]] = [
                ("backbone", model.backbone, self.backbones),
                ("mechanism", model.mechanism, self.mechanisms),
                ("tokenizer", model.tokenizer, self.tokenizers),
            ]
            uses += [("skip", stage, self.stages) for stage in model.skip]
            for stage, change in whole(model.changes).items():
                uses += [
                    ("changes", stage, self.stages),
                    (f"changes.{stage}.backbone", change.backbone, self.backbones),
                    (f"changes.{stage}.mechanism", change.mechanism, self.mechanisms),
                ]
            for key, value, known in uses:
                if value is not None and value not in known:
                    yield f"models.{name}.{key}: there is no '{value}'. Known: {', '.join(known) or 'none'}"

    @check
    def _models_have_a_mechanism_where_they_need_one(self) -> Iterator[str]:
        backbones = whole(self.backbones)
        for name, model in whole(self.models).items():
            backbone = backbones.get(model.backbone)
            if backbone is None:
                continue
            if backbone.takes_mechanism and model.mechanism is None and backbone.held_mechanism is None:
                known = ", ".join(self.mechanisms) or "none; add an entry"
                yield f"models.{name}.mechanism: missing. Its backbone {model.backbone} takes one of: {known}"
            if not backbone.takes_mechanism and model.mechanism is not None:
                yield f"models.{name}.mechanism: its backbone {model.backbone} takes none. Leave it out"
            for stage, change in whole(model.changes).items():
                changed = backbones.get(change.backbone or model.backbone)
                if changed is not None and not changed.takes_mechanism and change.mechanism is not None:
                    yield f"models.{name}.changes.{stage}.mechanism: its backbone takes none. Leave it out"

    @check
    def _models_have_a_tokenizer(self) -> Iterator[str]:
        for name, stage in self._passages():
            if self.models[name].tokenizer or len(self.tokenizers) == 1 or not self.reads_tokens(name, stage):
                continue
            if missing := [entry for entry in self.stages[stage].data if self.corpus(entry).tokenizer is None]:
                known = ", ".join(self.tokenizers) or "none; add an entry"
                silent = ", ".join(missing)
                yield f"models.{name}.tokenizer: missing, and {silent} names none either. Name one of: {known}"

    @check
    def _corpora_name_tokenizers_that_there_are(self) -> Iterator[str]:
        for section, entries in (("corpora", whole(self.corpora)), ("datasets", whole(self.datasets))):
            for name, corpus in entries.items():
                if corpus.tokenizer is not None and corpus.tokenizer not in self.tokenizers:
                    known = ", ".join(self.tokenizers) or "none"
                    yield f"{section}.{name}.tokenizer: there is no '{corpus.tokenizer}'. Known: {known}"

    @check
    def _backbones_can_do_their_tasks(self) -> Iterator[str]:
        for name, stage in self._passages():
            backbone = self.backbone_at(name, stage)
            for entry, work in self._works_at(name, stage):
                if work.task.kind not in TASKS.kinds():
                    continue  # reported as such
                trained = work.task.trains(backbone)
                if not trained and work.task.evaluates_on not in backbone.abilities:
                    yield (
                        f"models.{name}: its backbone {backbone.kind} cannot do {work.task.kind}, the task of {stage}. "
                        f"Let it skip the stage, or choose another backbone"
                    )
                elif trained and not (
                    work.recipe or work.task.predicts or work.task.evaluates_on in backbone.abilities
                ):
                    yield (
                        f"stages.{stage}.data.{entry}: has no recipe, without which a backbone of kind {backbone.kind} "
                        f"cannot do {work.task.kind}. Add one"
                    )

    @check
    def _what_does_not_train_takes_a_trained_head(self) -> Iterator[str]:
        for name, stage in self._passages():
            parent = self.parent_stage(name, stage)
            for entry, work in self._works_at(name, stage):
                if work.recipe or not work.task.predicts:
                    continue
                problem = None
                if parent is not None:
                    headless = work.task.trains_on is None
                    problem = None if headless else self._missing_of_a_head(name, stage, entry, parent)
                elif self.reads_tokens(name, stage) and not isinstance(self.models[name].start, ForeignStart):
                    problem = f"{name} has drawn weights there. Add one, or let it start from a stage that trains"
                if problem:
                    yield f"stages.{stage}.data.{entry}: has no recipe, so it needs a trained model, but {problem}"

    def _missing_of_a_head(self, model: str, stage: str, entry: str, parent: str) -> str | None:
        """Return what keeps the head of a model at `parent` from serving at `stage`, if anything does."""
        before = self.parent_dataset(stage, parent, entry)
        works = dict(self._works_at(model, parent))
        if before not in works:
            return None  # wrong itself, and reported as such
        task, trained = self.work(model, stage, entry).task, works[before].task
        if (trained.head or trained.kind) != (task.head or task.kind):
            return f"{parent} trains {trained.kind}. Add one, or start from a stage that trains {task.kind}"
        if task.labelled and {entry, before} <= whole(self.datasets).keys():
            asked, given = (self.datasets[name].labels for name in (entry, before))
            if len(asked) != len(given):
                return (
                    f"{parent} trains {len(given)} labels on {before}, not {len(asked)}. Add one, or give both the "
                    "same labels"
                )
            if asked != given and set(asked) == set(given):
                return f"the labels of {before} are {given}, not {asked}. Name both in the same order"
        return None

    @check
    def _weights_come_from_what_trains(self) -> Iterator[str]:
        for name, stage in self._passages():
            parent = self.parent_stage(name, stage)
            if parent is None or not self.reads_tokens(name, stage):
                continue
            works = dict(self._works_at(name, parent))
            for entry in whole(self.stages[stage].data):
                before = self.parent_dataset(stage, parent, entry)
                if before not in works:
                    continue
                if lacking := works[before].lack_of_model:
                    yield (
                        f"stages.{stage}.data.{entry}: {name} starts from {parent}, which {lacking}. Start from a "
                        f"stage before it, or let {name} skip {parent}"
                    )

    @check
    def _models_start_from_what_they_passed(self) -> Iterator[str]:
        for name, stage in self._passages():
            model, parent = self.models[name], self.parent_stage(name, stage)
            if parent is None:
                asked = self.stages[stage].start
                if asked and model.start is None and self.reads_tokens(name, stage):
                    yield (
                        f"models.{name}: skips {asked}, from which {stage} starts. Leave {asked} in, or give the model "
                        f"a start: a folder, a repository, or '{SCRATCH}'"
                    )
                continue
            for entry in self.stages[stage].data:
                known = ", ".join(self.stages[parent].data)
                if known and self.parent_dataset(stage, parent, entry) is None:
                    yield (
                        f"stages.{stage}.data.{entry}: models start from {parent}, which has several entries and none "
                        f"for {entry}: {known}. Name one of them as its start, or add it to {parent}"
                    )

    @check
    def _weights_can_be_handed_over(self) -> Iterator[str]:
        for name, stage in self._passages():
            if parent := self.parent_stage(name, stage):
                for obstacle in self.backbone_at(name, stage).obstacles(self.backbone_at(name, parent)):
                    yield f"models.{name}: from {parent} to {stage}, {obstacle}"
                yield from self._changes_of_tokenizer(name, stage, parent)

    @check
    def _only_blocks_that_exist_are_frozen(self) -> Iterator[str]:
        for name, stage in self._passages():
            blocks = self.backbone_at(name, stage).blocks() or 0
            backbone, _ = self._names_at(name, stage)
            for entry in whole(self.stages[stage].data):
                frozen = [work.recipe.freeze_layers for work in self._works(name, stage, entry) if work.recipe]
                if max(frozen, default=0) > blocks and self.trains(name, stage, entry):
                    yield (
                        f"stages.{stage}.data.{entry}.recipe.freeze_layers: {max(frozen)} is too many, since the "
                        f"backbone {backbone} has {blocks} blocks to freeze. Freeze fewer"
                    )

    @check
    def _trials_train(self) -> Iterator[str]:
        for name, stage in self._passages():
            for entry, work in whole(self.stages[stage].data).items():
                if self.stages[stage].tuning and work.recipe and not self.trains(name, stage, entry):
                    yield (
                        f"stages.{stage}.models: {name} does not train on {entry}, so there is nothing to tune. Name "
                        "those that do"
                    )

    @check
    def _quantised_backbones_train_adapters(self) -> Iterator[str]:
        for name, stage in self._passages():
            if not self.backbone_at(name, stage).quantized:
                continue
            backbone, _ = self._names_at(name, stage)
            for entry, work in self._works_at(name, stage):
                if obstacle := obstacle_of_quantized(work.recipe):
                    yield f"stages.{stage}.data.{entry}: the backbone {backbone} {obstacle}"

    @check
    def _adapters_have_a_place(self) -> Iterator[str]:
        models: dict[tuple[str, str, str, str], dict[str, None]] = {}
        for name, stage in self._passages():
            layers = self.backbone_at(name, stage).linear_layers
            backbone, _ = self._names_at(name, stage)
            for entry in whole(self.stages[stage].data) if layers is not None else ():
                for work in self._works(name, stage, entry) if self.trains(name, stage, entry) else ():
                    if work.recipe and work.recipe.lora and (obstacle := work.recipe.lora.obstacle(layers)):
                        models.setdefault((stage, entry, backbone, obstacle), {})[name] = None
        for (stage, entry, backbone, obstacle), names in models.items():
            told = ", ".join(names)
            yield (
                f"stages.{stage}.data.{entry}.recipe.lora: the backbone {backbone} of {told} {obstacle}. Leave it out, "
                f"or let {told} skip the stage"
            )

    def _works(self, model: str, stage: str, entry: str) -> Iterator[Work]:
        """Yield what a model may come to do at a stage: all that it searches, or takes from the search of another."""
        section = self.stages[stage]
        source = whole(self.stages).get(section.settings_from or stage, section)
        for settings in source.tried():
            with contextlib.suppress(ValidationError):  # reported as such
                yield self.work(model, stage, entry).with_settings(settings)

    @check
    def _positions_reach_the_longest_document(self) -> Iterator[str]:
        for name, stage in self._passages():
            reach = self.backbone_at(name, stage).longest()
            backbone, _ = self._names_at(name, stage)
            for entry, corpus in whole({entry: self.corpus(entry) for entry in self.stages[stage].data}).items():
                if reach is not None and corpus.max_tokens > reach:
                    yield (
                        f"backbones.{backbone}: positions reach {reach} tokens, but {entry} has max_tokens = "
                        f"{corpus.max_tokens}. Raise max_position_embeddings, or use rope or sinusoidal positions"
                    )

    @check
    def _mechanisms_fit_their_backbones(self) -> Iterator[str]:
        for name, stage in self._passages(valid_only=False):
            try:
                self.backbone_at(name, stage)
            except ValidationError as error:
                for problem in error.errors():
                    yield f"models.{name}: {problem['msg']}"

    @check
    def _tokenizers_have_texts_to_train_on(self) -> Iterator[str]:
        for name, tokenizer in whole(self.tokenizers).items():
            if tokenizer.source != "trained":
                continue
            known = [*self.corpora, *self.datasets]
            if tokenizer.corpus is None and len(self.corpora) != 1:
                yield f"tokenizers.{name}.corpus: missing. Name what it is trained on: {', '.join(known)}"
            for corpus in tokenizer.corpora:
                if corpus not in known:
                    yield f"tokenizers.{name}.corpus: there is no '{corpus}'. Known: {', '.join(known)}"

    def _changes_of_tokenizer(self, model: str, stage: str, parent: str) -> Iterator[str]:
        if not self.tokenizers or not self.reads_tokens(model, stage):
            return
        for entry in self.stages[stage].data:
            if (source := self.parent_dataset(stage, parent, entry)) is None:
                continue
            before, after = self.tokenizer_of(model, source), self.tokenizer_of(model, entry)
            if before != after:
                yield (
                    f"models.{model}: {stage} reads {entry} by the tokeniser {after}, but starts from {parent} on "
                    f"{source}, which it read by {before}. Let both have the same"
                )

    def _passages(self, valid_only: bool = True) -> Iterator[tuple[str, str]]:
        """Yield every model with every stage it passes, as far as all that they name is there and right itself."""
        right_backbones, right_mechanisms = set(whole(self.backbones)), set(whole(self.mechanisms))
        for name, model in whole(self.models).items():
            named: list[Model | Change] = [model, *model.changes.values()]
            if whole(model.changes) != model.changes:
                continue
            backbones = {entry.backbone for entry in named} - {None}
            mechanisms = {entry.mechanism for entry in named} - {None}
            if not (backbones <= right_backbones and mechanisms <= right_mechanisms):
                continue
            for stage in self.stages_of(name):
                chain = self.chain(stage)
                if not chain or self.stages[chain[-1]].start not in (None, *chain):
                    continue
                try:
                    self.backbone_at(name, stage)
                except ValidationError:
                    if valid_only:
                        continue
                if all(entry in self.corpora or entry in self.datasets for entry in self.stages[stage].data):
                    yield name, stage


class Study(Section):
    """A complete configuration."""

    experiment: Experiment = Field(description="What is compared.")
    report: Report = Field(default_factory=Report, description="What comes out.")
    execution: Execution = Field(default_factory=Execution, description="How the work is done.")

    def analysed_dataset(self, analysis: AnalysisParameters) -> str | None:
        """Return the entry of the stage's `data` that an analysis reads; None = it has to name one."""
        entries = list(self.experiment.stages[analysis.stage].data)
        return analysis.dataset or (entries[0] if len(entries) == 1 else None)

    def analysed_models(self, analysis: AnalysisParameters) -> list[str]:
        """Return the models of an analysis, in order: those named, or all that it is able to look at."""
        dataset = self.analysed_dataset(analysis)
        assert dataset is not None  # the study was checked
        return analysis.models or [
            model
            for model, stage in self.experiment._passages()
            if stage == analysis.stage and not list(self._obstacles(analysis, model, dataset))
        ]

    def _obstacles(self, analysis: AnalysisParameters, model: str, dataset: str) -> Iterator[str]:
        """Yield why an analysis cannot look at a model that passes its stage."""
        backbone = self.experiment.backbone_at(model, analysis.stage)
        reach = backbone.longest()
        if analysis.needs not in backbone.abilities:
            yield f"{model} has a backbone of kind {backbone.kind}, which gives no {analysis.needs.replace('_', ' ')}"
        elif not self.experiment.trains(model, analysis.stage, dataset):
            yield f"{model} does not train at {analysis.stage}, which therefore leaves no model of it"
        elif lacking := self.experiment.work(model, analysis.stage, dataset).lack_of_model:
            yield f"{model} cannot be looked at, since {analysis.stage} {lacking}"
        elif reach is not None and analysis.tokens_needed is not None and analysis.tokens_needed > reach:
            yield f"positions of {model} reach {reach} tokens, but length = {analysis.tokens_needed}"

    @check
    def _analyses_look_at_what_there_is(self) -> Iterator[str]:
        models, stages = self.experiment.models, whole(self.experiment.stages)
        passing = set(self.experiment._passages())
        for name, analysis in whole(self.report.analyses).items():
            place = f"report.analyses.{name}"
            for section in ("tables", "figures"):
                if name in getattr(self.report, section):
                    yield f"{place}: report.{section}.{name} makes files of the same name. Rename one of them"
            if analysis.stage not in stages:
                continue
            for model in [each for each in analysis.models or [] if each in whole(models)]:
                if not self.experiment.passes(model, analysis.stage):
                    yield f"{place}.models: {model} skips {analysis.stage}. Leave it out"
            if search := stages[analysis.stage].search:
                reason = {"variants": "and so several models of each", "tuning": "whose trials keep no model"}[search]
                yield f"{place}.stage: {analysis.stage} has {search}, {reason}. Name another stage"
            entries, dataset = stages[analysis.stage].data, self.analysed_dataset(analysis)
            if dataset is None:
                yield f"{place}.dataset: missing. Name one of: {', '.join(entries)}"
            elif dataset not in entries:
                yield f"{place}.dataset: {analysis.stage} does not work on '{dataset}'. Known: {', '.join(entries)}"
            elif analysis.needs_labels and dataset in self.experiment.corpora:
                yield f"{place}.dataset: {dataset} has no labels, by which states could be told apart. Name a dataset"
            if dataset not in whole(entries):
                continue
            asked = analysis.models or [each for each in models if analysis.stage in self.experiment.stages_of(each)]
            found = {
                model: list(self._obstacles(analysis, model, dataset))
                for model in asked
                if (model, analysis.stage) in passing
            }
            if analysis.models:
                for obstacle in [text for texts in found.values() for text in texts]:
                    yield f"{place}.models: {obstacle}. Leave it out"
            elif len(found) == len(asked) and all(found.values()):
                reasons = "; ".join(text for texts in found.values() for text in texts)
                yield f"{place}: there is no model to look at: {reasons or 'none passes the stage'}. Take it out"

    def _results(self) -> Iterator[tuple[str, ResultParameters]]:
        """Yield the place of every table and figure that has no wrong field, and its settings."""
        for section in ("tables", "figures"):
            for name, settings in whole(getattr(self.report, section)).items():
                yield f"report.{section}.{name}", settings

    @check
    def _trainings_can_be_shared(self) -> Iterator[str]:
        processes = self.execution.gpus_per_run
        if processes == 1:
            return
        sizes = [
            (f"{place}.recipe.batch_size", work.recipe.batch_size)
            for place, _, work in self.experiment._all_works()
            if work.recipe
        ]
        for name, stage in whole(self.experiment.stages).items():
            varied = stage.variants.get("recipe.batch_size", [])
            sizes += [(f"stages.{name}.variants.recipe.batch_size", size) for size in varied if isinstance(size, int)]
            if stage.tuning:
                yield (
                    f"execution.gpus_per_run: {processes}, but trials of experiment.stages.{name}.tuning run in one "
                    "process. Set it to 1 until that stage has run"
                )
        for place, size in sizes:
            if size < processes:
                yield (
                    f"execution.gpus_per_run: {processes} processes cannot share the {size} documents of "
                    f"experiment.{place}. Lower it, or raise the batch size"
                )

    @check
    def _report_shows_what_there_is(self) -> Iterator[str]:
        stages, models = self.experiment.stages, self.experiment.models
        uses: list[tuple[str, str | None, Iterable[str]]] = [
            ("report.reference", self.report.reference, models),
            ("report.baseline", self.report.baseline, models),
        ]
        for place, settings in self._results():
            uses += [(f"{place}.stage", stage, stages) for stage in settings.stages_passed()]
            lists = {name: value for name, value in settings if isinstance(value, list)}
            uses += [
                (f"{place}.{name}", stage, stages)
                for stage in settings.stages_added()
                for name, value in lists.items()
                if stage in value
            ]
            uses += [(f"{place}.models", model, models) for model in settings.models or []]
            uses += [(f"{place}.datasets", dataset, self._shown_by(settings)) for dataset in settings.datasets or []]
        for name, analysis in whole(self.report.analyses).items():
            uses += [(f"report.analyses.{name}.stage", analysis.stage, stages)]
            uses += [(f"report.analyses.{name}.models", model, models) for model in analysis.models or []]
        for place, value, known in uses:
            if value is not None and value not in known:
                yield f"{place}: there is no '{value}'. Known: {', '.join(known)}"

    def _shown_by(self, settings: ResultParameters) -> list[str]:
        """Return the corpora and datasets that a table or figure may show: those of its stages, if it has any."""
        stages, shown = whole(self.experiment.stages), settings.stages_passed()
        if settings.reads == "texts":
            return list(self.experiment.datasets)
        if not shown or not set(shown) <= set(stages):
            return [*self.experiment.corpora, *self.experiment.datasets]
        return list(dict.fromkeys(entry for stage in shown for entry in stages[stage].data))

    @check
    def _models_of_tables_and_figures_pass_their_stages(self) -> Iterator[str]:
        models = whole(self.experiment.models)
        for place, settings in self._results():
            stages, added = (
                [stage for stage in named if stage in self.experiment.stages]
                for named in (settings.stages_passed(), settings.stages_added())
            )
            passes = self.experiment.passes
            skipped = {name: [stage for stage in stages if not passes(name, stage)] for name in models}
            if not stages:  # then a model passes at least one of the others
                stages = added
                skipped = {name: [] if any(passes(name, stage) for stage in added) else added for name in models}
            for model in settings.models or []:
                if skipped.get(model):
                    yield f"{place}.models: {model} skips {', '.join(skipped[model])}. Leave it out"
            if stages and not settings.models and models and all(skipped.values()):
                yield f"{place}.stage: no model passes {' and '.join(stages)}. Name others"

    @check
    def _printed_values_are_of_a_study(self) -> Iterator[str]:
        for place, settings in self._results():
            if settings.needs_published and self.report.published is None:
                yield f"{place}: shows printed values, but report.published is null. Name the study that printed them"

    @check
    def _comparisons_have_a_reference(self) -> Iterator[str]:
        reference, models = self.report.reference, whole(self.experiment.models)
        for place, settings in self._results():
            if "reference" not in settings.beside:
                continue
            if reference is None:
                yield f"{place}: compares models, but report.reference is null. Name the model to compare with there"
            elif reference in models and (
                skipped := [
                    stage
                    for stage in settings.stages_passed()
                    if stage in self.experiment.stages and not self.experiment.passes(reference, stage)
                ]
            ):
                yield f"{place}: compares models with {reference}, which skips {', '.join(skipped)}. Name other stages"

    @check
    def _results_of_training_find_some(self) -> Iterator[str]:
        experiment, passing = self.experiment, set(self.experiment._passages())
        for place, settings in self._results():
            for stage in settings.stages_passed() if settings.needs_training else []:
                models = [each for each in settings.models or experiment.models if (each, stage) in passing]
                if not models or not (entries := whole(experiment.stages[stage].data)):
                    continue  # wrong itself, and reported as such
                still = [each for each in models if not any(experiment.trains(each, stage, name) for name in entries)]
                if settings.models:
                    for model in still:
                        yield f"{place}.models: {model} does not train at {stage}. Leave it out"
                elif still == models:
                    yield f"{place}.stage: no model trains at {stage}. Name another stage"

    @check
    def _results_find_geometry(self) -> Iterator[str]:
        experiment, passing = self.experiment, set(self.experiment._passages())
        for place, settings in self._results():
            for stage in [*settings.stages_passed(), *settings.stages_added()] if settings.needs_geometry else []:
                if stage not in whole(experiment.stages):
                    continue
                if experiment.stages[stage].geometry is None:
                    yield f"{place}: shows geometry, but stages.{stage}.geometry is null. Set it, or take this out"
                    continue
                for model in [each for each in settings.models or experiment.models if (each, stage) in passing]:
                    backbone = experiment.backbone_at(model, stage)
                    if "states" in backbone.abilities and "queries_and_keys" not in backbone.abilities:
                        yield (
                            f"{place}.models: {model} has a backbone of kind {backbone.kind}, which has no queries and "
                            "keys to measure. Name the other models"
                        )

    @check
    def _imported_runs_hold_what_is_shown(self) -> Iterator[str]:
        if self.execution.runs == "imported":
            for place, settings in self._results():
                for needed, name in (
                    (settings.needs_predictions, "predictions"),
                    (settings.needs_geometry, "geometry"),
                    (settings.takes_tuning == "needed", "trials"),
                ):
                    if needed:
                        yield f"{place}: needs {name}, which imported runs do not leave. Take it out (null)"
            for name in self.report.analyses:
                yield f"report.analyses.{name}: needs models, which imported runs do not leave. Take it out (null)"

    @check
    def _searches_are_shown_by_what_knows_them(self) -> Iterator[str]:
        stages = whole(self.experiment.stages)
        for place, settings in self._results():
            for stage in [*settings.stages_passed(), *settings.stages_added()]:
                if stage in stages and not stages[stage].variants and settings.takes_variants == "needed":
                    yield f"{place}.stage: {stage} has no variants. Name a stage that has"
                if stage in stages and stages[stage].variants and settings.takes_variants == "none":
                    yield (
                        f"{place}.stage: {stage} has variants, which the kind {settings.kind} does not tell apart. "
                        "Name another stage, or choose the kind search"
                    )
                if stage in stages and not stages[stage].tuning and settings.takes_tuning == "needed":
                    yield f"{place}.stage: {stage} has no tuning. Name a stage that has"
                if stage in stages and stages[stage].tuning and settings.takes_tuning == "none":
                    yield (
                        f"{place}.stage: {stage} has tuning, which leaves trials that the kind {settings.kind} does "
                        "not show. Name another stage, or choose the kind trials"
                    )

    @check
    def _results_find_predictions_and_groups(self) -> Iterator[str]:
        experiment, datasets = self.experiment, whole(self.experiment.datasets)
        passages = list(experiment._passages())
        for place, settings in self._results():
            asked = settings.stages_passed() if settings.needs_predictions else []
            works = [
                (stage, *item)
                for model, stage in passages
                if stage in asked and model in (settings.models or experiment.models)
                for item in experiment._works_at(model, stage)
            ]
            for stage, entry, work in works:
                if not work.task.predicts:
                    yield f"{place}: {work.task.kind}, the task of {stage}, leaves no predictions. Leave it out"
                elif settings.needs_classes and work.task.label_per == "span":
                    yield f"{place}: {work.task.kind}, the task of {stage}, predicts no classes. Leave it out"
                elif settings.needs_probabilities and work.task.label_per != "document":
                    yield f"{place}: {work.task.kind}, the task of {stage}, leaves no probabilities. Leave it out"
                elif settings.needs_groups and entry in datasets and datasets[entry].group is None:
                    yield (
                        f"{place}: shows scores by group, but datasets.{entry}.group is null. Name the column of its "
                        f"groups there, or leave this out"
                    )
