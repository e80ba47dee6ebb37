"""The graph of stages: the stages of each model, the run that its weights come from, and its settings there."""

import functools
import json
from collections.abc import Mapping
from typing import NamedTuple

from lib.attention.settings import parse_mechanisms
from lib.backbones.settings import BackboneSettings
from lib.core.weights import ForeignStart
from lib.preparing.settings.corpus import Corpus
from lib.preparing.settings.dataset import Dataset
from lib.study.experiment import Experiment
from lib.study.stages import Change, Work

LENGTH = "@"
"""Separates tokeniser and length in the name of tokens; no other name contains it."""


class Origin(NamedTuple):
    """Runs that later ones start from."""

    owner: str
    """Model that has these runs."""
    dataset: str
    """Entry of the `data` of their stage."""
    seeds: Mapping[int, int]
    """The seed of the run that a later run starts from, by the seed of the later run."""


class Graph:
    """Backbone, weights and task of models at the stages of an experiment.

    Unknown names raise a KeyError; `lib.study.names` reports them before anything asks the graph.
    """

    def __init__(self, experiment: Experiment):
        self.experiment = experiment
        for asked_often in ("work", "_backbone", "_owners", "_run_key"):  # its answers go with the graph
            setattr(self, asked_often, functools.cache(getattr(self, asked_often)))

    def chain(self, stage: str) -> list[str]:
        """Return `stage` and the stages it starts from, the nearest first; each once, even in a circle."""
        chain: list[str] = []
        following: str | None = stage
        while following is not None and following not in chain:
            chain.append(following)
            following = self.experiment.stages[following].start
        return chain

    def entries(self, model: str, stage: str) -> list[str]:
        """Return the entries of a stage's `data` where a model has runs."""
        made_for = self.experiment.models[model].datasets
        return [
            entry
            for entry in (self.experiment.stages[stage].data if self._takes_part(model, stage) else ())
            if made_for is None or entry in made_for or entry in self.experiment.corpora
        ]

    def has_runs(self, model: str, stage: str, entry: str | None = None) -> bool:
        """Whether a model has runs at a stage, on an entry of its `data` or, without one, on any."""
        entries = self.entries(model, stage)
        return bool(entries) if entry is None else entry in entries

    def stages_of(self, model: str) -> list[str]:
        """Return the stages where a model has runs, in the order of the configuration."""
        return [stage for stage in self.experiment.stages if self.has_runs(model, stage)]

    @functools.cached_property
    def model_stages(self) -> list[tuple[str, str]]:
        """Pairs of a model and a stage where it has runs."""
        return [(model, stage) for model in self.experiment.models for stage in self.stages_of(model)]

    @functools.cached_property
    def places(self) -> list[tuple[str, str, str]]:
        """Triples of model, stage and entry of the stage's `data`, one per place where the model has runs."""
        return [(model, stage, entry) for model, stage in self.model_stages for entry in self.entries(model, stage)]

    def work(self, model: str, stage: str, entry: str) -> Work:
        """Return the work of a model at a stage on an entry of its `data`.

        Raises:
            pydantic.ValidationError: what the model changes is wrong.
        """
        work, change = self.experiment.stages[stage].data[entry], self.changed_work(model, stage)
        return change.of(work) if change else work

    def changed_work(self, model: str, stage: str) -> Change | None:
        """Return the change that gives a model a task or a recipe of its own at a stage; None = it has the stage's."""
        change = self.experiment.models[model].changes.get(stage)
        return change if change and (change.task or change.recipe != {}) else None

    def parent_stage(self, model: str, stage: str) -> str | None:
        """Return the stage whose weights the model starts from at `stage`; None = its initial weights."""
        return next((name for name in self.chain(stage)[1:] if self._takes_part(model, name)), None)

    def parent_dataset(self, stage: str, parent: str, dataset: str | None) -> str | None:
        """Return the entry of `parent` that a run of `stage` on `dataset` starts from; None = no setting says it.

        A model that skips the stage before `stage` may have a parent without the entry that `dataset` names.
        """
        entries = list(self.experiment.stages[parent].data)
        named = self.experiment.stages[stage].data[dataset].start if dataset is not None else None
        if named in entries:
            return named
        return dataset if dataset in entries else entries[0] if len(entries) == 1 else None

    def parent(self, model: str, stage: str, dataset: str) -> tuple[str, str] | None:
        """Return the stage and the entry of its `data` that a run's weights come from; None = from no stage."""
        stage_before = self.parent_stage(model, stage)
        before = stage_before and self.parent_dataset(stage, stage_before, dataset)
        return (stage_before, before) if stage_before and before else None

    def origins(self, model: str, stage: str, dataset: str) -> dict[str, Origin]:
        """Return the runs that those of a model at a stage start from, directly or not, by stage, the nearest first."""
        found: dict[str, Origin] = {}
        if not self.reads_tokens(model, stage, dataset):
            return found
        seeds = {seed: seed for seed in self.seeds_of(stage, dataset)}
        while parent := self.parent(model, stage, dataset):
            stage, dataset = parent
            seeds = {seed: self.seed_before(stage, dataset, each) for seed, each in seeds.items()}
            found[stage] = Origin(self.owner(model, stage, dataset), dataset, seeds)
        return found

    def share_weights(self, model: str, stage: str, dataset: str) -> bool:
        """Whether seeds of a model at a stage start from the same weights, directly or not.

        These are runs of an earlier stage that are fewer than its seeds, or published weights.
        """
        seeds, origins = self.seeds_of(stage, dataset), self.origins(model, stage, dataset)
        if len(seeds) == 1 or not self.reads_tokens(model, stage, dataset):
            return False
        fewest = min((len(set(origin.seeds.values())) for origin in origins.values()), default=len(seeds))
        return fewest < len(seeds) or isinstance(self.experiment.models[model].start, ForeignStart)

    def seed_before(self, stage: str, dataset: str, seed: int) -> int:
        """Return the seed of the run of a stage that a later run of a seed starts from: the same seed, or the first."""
        seeds = self.seeds_of(stage, dataset)
        return seed if seed in seeds else seeds[0]

    def seeds_of(self, stage: str, dataset: str) -> list[int]:
        """Return the seeds of the runs of a stage on an entry of its `data`."""
        section = self.experiment.stages[stage]
        seeds = section.data[dataset].seeds or section.seeds or self.experiment.seeds
        return seeds[:1] if section.tuning else seeds

    def backbone_at(self, model: str, stage: str, dataset: str | None) -> BackboneSettings:
        """Return the backbone of a model at a stage, with its attention mechanisms.

        Args:
            model: its name.
            stage: its name.
            dataset: entry of the stage's `data`; None = other texts, to which no change for one entry applies.

        Raises:
            pydantic.ValidationError: the backbone cannot hold the mechanisms.
        """
        name, mechanisms = self.names_at(model, stage, dataset)
        return self._backbone(name, *mechanisms)

    def backbone_before(self, model: str, stage: str, dataset: str) -> BackboneSettings:
        """Return the backbone of a model at the start of a stage, with its attention mechanisms.

        It is that of the run that the model would start from or, without one, its first backbone. The model may skip
        the stage.

        Raises:
            pydantic.ValidationError: the backbone cannot hold the mechanisms.
        """
        if parent := self.parent_stage(model, stage):
            return self.backbone_at(model, parent, self.parent_dataset(stage, parent, dataset))
        first = self.experiment.models[model]
        return self._backbone(first.backbone, *first.mechanisms)

    def _backbone(self, name: str, *mechanisms: str) -> BackboneSettings:
        """Return the backbone of that name, with the mechanisms of those names."""
        backbone = self.experiment.backbones[name]
        held = parse_mechanisms([self.experiment.mechanisms[each] for each in mechanisms]) if mechanisms else None
        return backbone.with_mechanism(held) if held else backbone

    def names_at(self, model: str, stage: str, dataset: str | None) -> tuple[str, list[str]]:
        """Return the names of backbone and mechanisms of a model at a stage; see `backbone_at`."""
        entry, entries = self.experiment.models[model], {stage: dataset}
        at = stage
        while (parent := self.parent_stage(model, at)) is not None and parent not in entries:
            entries[parent] = self.parent_dataset(at, parent, entries[at])
            at = parent
        backbone, mechanisms = entry.backbone, entry.mechanisms
        for name in reversed(self.chain(stage)):
            if change := entry.changes.get(name):
                for each in (change, change.data.get(entries.get(name) or "")):
                    backbone = (each and each.backbone) or backbone
                    mechanisms = (each and each.mechanisms) or mechanisms
        return backbone, mechanisms

    def corpus(self, name: str) -> Corpus | Dataset:
        """Return the corpus or dataset of that name."""
        return self.experiment.corpora[name] if name in self.experiment.corpora else self.experiment.datasets[name]

    def tokenizer_of(self, model: str, entry: str) -> str:
        """Return the name of the tokeniser of a model for a corpus or dataset."""
        return self.experiment.models[model].tokenizer or self.corpus(entry).tokenizer or self.shared_tokenizers[0]

    @functools.cached_property
    def shared_tokenizers(self) -> list[str]:
        """The tokenisers for models that name none: all but those of published models, unless there are no others."""
        own = [name for name in self.experiment.tokenizers if name not in self.experiment.published]
        return own or list(self.experiment.tokenizers)

    def max_tokens(self, model: str, entry: str) -> int:
        """Return the maximum length of a document in tokens for a model."""
        own = self.experiment.models[model].max_tokens if entry in self.experiment.datasets else None
        return own or self.corpus(entry).max_tokens

    def tokens_name(self, model: str, entry: str) -> str:
        """Return the name of a model's tokens: the tokeniser, and the length if it differs from that of the corpus."""
        tokenizer, tokens = self.tokenizer_of(model, entry), self.max_tokens(model, entry)
        return tokenizer if tokens == self.corpus(entry).max_tokens else f"{tokenizer}{LENGTH}{tokens}"

    def reads_tokens(self, model: str, stage: str, dataset: str | None) -> bool:
        """Whether a model reads tokens at a stage, and not texts, whatever mechanism it has."""
        return "states" in self.experiment.backbones[self.names_at(model, stage, dataset)[0]].abilities

    def trains(self, model: str, stage: str, dataset: str) -> bool:
        """Whether a run has a training loop."""
        work = self.work(model, stage, dataset)
        return work.recipe is not None and work.task.trains(self.backbone_at(model, stage, dataset))

    def measures(self, model: str, stage: str, dataset: str) -> bool:
        """Whether a run measures the geometry of attention."""
        section, abilities = self.experiment.stages[stage], self.backbone_at(model, stage, dataset).abilities
        asked = section.geometry is not None and section.tuning is None  # trials keep none
        return asked and "queries_and_keys" in abilities and self.trains(model, stage, dataset)

    def splits(self, model: str, stage: str, dataset: str) -> tuple[str, ...]:
        """Return the splits that a run reads."""
        fits = self.trains(model, stage, dataset) or not self.reads_tokens(model, stage, dataset)
        return self.work(model, stage, dataset).task.splits_read(fits=fits)

    def fitted_at(self, model: str, stage: str, dataset: str) -> tuple[str, str]:
        """Return where a model that reads texts is fitted, stage and dataset: where it is, or at its parent stage."""
        parent = self.parent(model, stage, dataset)
        if parent is None or self.work(model, stage, dataset).recipe is not None:
            return stage, dataset
        return self.fitted_at(model, *parent)

    def owner(self, model: str, stage: str, dataset: str) -> str:
        """Return the first model whose runs at a stage on a dataset are the same as those of `model`."""
        return self._owners(stage, dataset)[self._run_key(model, stage, dataset)]

    def owners(self, stage: str, dataset: str) -> list[str]:
        """Return the models that have runs of their own at a stage on an entry of its `data`."""
        return list(self._owners(stage, dataset).values())

    def _owners(self, stage: str, dataset: str) -> dict[str, str]:
        """Return the owners of the runs at a stage on an entry of its `data`, by what determines the runs."""
        owners: dict[str, str] = {}
        for model in self.experiment.models:
            if self.has_runs(model, stage, dataset):
                owners.setdefault(self._run_key(model, stage, dataset), model)
        return owners

    def searcher(self, model: str, stage: str) -> str | None:
        """Return the model whose search gives a model its settings at a stage with `settings_from`.

        It is the model itself, or the only one that searches; None = neither.
        """
        source = self.experiment.stages[stage].settings_from
        searching = [name for name, passed in self.model_stages if passed == source]
        return model if model in searching else searching[0] if len(searching) == 1 else None

    def _takes_part(self, model: str, stage: str) -> bool:
        """Whether a model does not skip a stage, and the stage is not for other models only."""
        named = self.experiment.stages[stage].models
        return stage not in self.experiment.models[model].skip and (named is None or model in named)

    def _run_key(self, model: str, stage: str, dataset: str) -> str:
        """Return everything that determines the runs of a model at a stage, earlier ones included, as text."""
        parent = self.parent(model, stage, dataset)
        before = self._run_key(model, *parent) if parent else repr(self.experiment.models[model].start)
        tokens = self.tokens_name(model, dataset) if self.reads_tokens(model, stage, dataset) else None
        backbone = self.backbone_at(model, stage, dataset).model_dump(mode="json")
        change = self.changed_work(model, stage)
        otherwise = change and change.model_dump(mode="json", include={"task", "recipe"})
        search = self._search_of(model, stage, dataset)
        return json.dumps([stage, backbone, otherwise, tokens, before, search], sort_keys=True)

    def _search_of(self, model: str, stage: str, dataset: str) -> str | None:
        """Return everything that determines the search whose settings a run takes, as text; None = it takes none."""
        source, searcher = self.experiment.stages[stage].settings_from, self.searcher(model, stage)
        if source is None or searcher is None or not self.has_runs(searcher, source, dataset):
            return None
        return self._run_key(searcher, source, dataset) if self.trains(model, stage, dataset) else None
