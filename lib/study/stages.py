"""Settings of stages and models, and how a model overrides those of a stage."""

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError

from lib.attention.settings import EXPECTED, each_of
from lib.core.files import MOST_RUNS, check_expansion
from lib.core.search_space import Setting, VariedSetting, laid_over, short_name, spelled, variant_name
from lib.core.settings import (
    BackboneName,
    BaseSettings,
    DatasetName,
    EntryName,
    MechanismName,
    ModelName,
    Name,
    Seeds,
    StageName,
    TokenizerName,
    check,
    overlaid,
    sentences,
)
from lib.core.weights import ForeignStart, WordVectorsStart
from lib.preparing.settings.document_form import MaxTokens
from lib.study.recipe import Geometry, Recipe
from lib.study.tuning import Tuning
from lib.tasks.settings import AnyTask

SCRATCH = "scratch"


def _start(values: Any) -> Any:
    """Return a typed start, so that an error is reported for the form that was meant, and not for every form."""
    if isinstance(values, dict):
        return (WordVectorsStart if "word_vectors" in values else ForeignStart).model_validate(values)
    if values is None or values == SCRATCH or isinstance(values, ForeignStart | WordVectorsStart):
        return values
    raise ValueError(f"expected '{SCRATCH}', {{folder: ...}}, {{repository: ...}} or {{word_vectors: ...}}")


def _mechanism(value: Any) -> Any:
    """Refuse a value that is neither a name nor a list of names, with one error for both forms."""
    names = value if isinstance(value, list) else [value]
    if value is not None and not (names and all(isinstance(name, str) for name in names)):
        raise ValueError(f"{value!r} names no mechanism. {EXPECTED}")
    return value


MechanismNames = Annotated[MechanismName | list[MechanismName] | None, BeforeValidator(_mechanism)]


class Override(BaseSettings):
    """Overrides of parts of a model; omitted fields are inherited."""

    backbone: BackboneName | None = None
    """Name of a backbone that can take over the weights."""
    mechanism: MechanismNames = None
    """Name of an attention mechanism that can take over the weights, or a list of names that repeats over the layers.
    """

    @property
    def mechanisms(self) -> list[str]:
        """Names of the attention mechanisms; [] = inherited."""
        return each_of(self.mechanism)


class Change(Override):
    """Overrides of a model at a stage; omitted fields are inherited."""

    data: dict[Name, Override] = Field(default_factory=dict)
    """What it changes on some entries of the stage's `data` only, for the runs there and all that start from them."""
    task: dict[str, Any] = Field(default_factory=dict)
    """Settings of the stage's task, replaced for this stage only; another `kind` replaces the task."""
    recipe: dict[str, Any] | None = Field(default_factory=dict)
    """Settings of the stage's recipe, replaced for this stage only; of a section such as `lora`, the fields that it
    names. null = no training."""

    def of(self, work: "Work") -> "Work":
        """Return `work` with the settings of the model.

        Raises:
            pydantic.ValidationError: a setting is unknown or its value wrong, by itself or together with the others.
        """
        values = work.model_dump(exclude_unset=True)
        replaces = self.task.get("kind", work.task.kind) != work.task.kind
        values["task"] = overlaid({} if replaces else values["task"], self.task)
        values["recipe"] = None if self.recipe is None else overlaid(values.get("recipe") or {}, self.recipe) or None
        return Work.model_validate(values)


class Model(BaseSettings):
    """One row of the tables."""

    description: str | None = Field(None, min_length=1)
    """Meaning of its name, in a few words below the tables and figures that show it."""
    backbone: BackboneName
    """Name of its backbone."""
    mechanism: MechanismNames = None
    """Name of its attention mechanism, if its backbone takes one, or a list of names that repeats over the layers."""
    tokenizer: TokenizerName | None = None
    """Name of its tokeniser; null = the tokeniser of the corpus or dataset, or the only one that is not a published
    model's."""
    max_tokens: MaxTokens | None = None
    """Maximum length of a labelled document in tokens where this model reads it; null = that of the dataset."""
    start: Annotated[Literal["scratch"] | ForeignStart | WordVectorsStart | None, BeforeValidator(_start)] = None
    """First weights of the first stage that it does not skip; `scratch` = random weights, even if that stage starts
    from another one; null = the weights that the stages name."""
    skip: list[StageName] = Field(default_factory=list)
    """Stages that it leaves out; later ones start from the one before."""
    changes: dict[StageName, Change] = Field(default_factory=dict)
    """What it changes at a stage: backbone and mechanism for this stage and all that start from it, task and recipe for
    this stage only."""
    datasets: list[DatasetName] | None = Field(None, min_length=1)
    """Labelled datasets that it is made for; on the others, tables leave it out or show a dash. It passes stages on
    corpora all the same. null = all."""

    @property
    def mechanisms(self) -> list[str]:
        """Names of its attention mechanisms, which repeat over the layers; [] = it names none."""
        return each_of(self.mechanism)


class Work(BaseSettings):
    """A stage on one corpus or dataset: the settings of the stage, overridden by those of the entry."""

    task: AnyTask
    """Settings of the task that hold here only."""
    recipe: Recipe | None = None
    """Settings of the recipe that hold here only."""
    seeds: Seeds | None = None
    """Seeds of the runs here; null = those of the stage."""
    start: str | None = None
    """Entry of the stage's `start` from whose runs these runs start; null = the entry of the same name, or the only
    one; also for a model that skips that stage, if the stage before it lacks the entry."""

    def with_settings(self, settings: Mapping[str, Setting]) -> "Work":
        """Return the same work with settings, given by dotted names, in the place of its own.

        Raises:
            pydantic.ValidationError: a setting is unknown or its value wrong, by itself or together with the others.
        """
        return Work.model_validate(laid_over(self.model_dump(exclude_unset=True), settings)) if settings else self

    @property
    def keep(self) -> Sequence[str]:
        """Checkpoint that the training keeps."""
        return (self.recipe and self.recipe.keep) or [self.task.keeps]

    @property
    def no_model_reason(self) -> str | None:
        """Why it leaves no complete model to start from; None = it leaves one."""
        if self.recipe is None:
            return "has no recipe and so leaves no model"
        if self.recipe.lora and not self.recipe.lora.merge:
            return "leaves adapters without the full weights (recipe.lora.merge: false)"
        return None


class Stage(BaseSettings):
    """A step in a model's life."""

    task: dict[str, Any]
    """`kind` of the task, and its settings for all entries of `data`."""
    recipe: dict[str, Any] | None = None
    """How it trains, for all entries of `data`. If it is null here and there, nothing trains: models are evaluated as
    they are, with the head of the stage that they start from."""
    start: StageName | None = None
    """Stage whose weights it starts from; null = random weights."""
    models: list[ModelName] | None = Field(None, min_length=1)
    """Models that pass it; null = all models that do not skip it."""
    seeds: Seeds | None = None
    """Seeds of its runs; null = those of the study. If the earlier stage lacks a seed, a run starts from that stage's
    run of its first seed."""
    geometry: Geometry | None = None
    """Measurements of attention during the training, for backbones that have queries and keys; null = none."""
    variants: dict[VariedSetting, Annotated[list[Setting], Field(min_length=1)]] = Field(default_factory=dict)
    """Settings of task and recipe by dotted name (`recipe.freeze_layers`), each with the values to try. Every
    combination is a run, on every entry of `data` and with every seed."""
    tuning: Tuning | None = None
    """Search by trials that learn from each other, instead of `variants`: one run per entry of `data`, with the first
    seed, which keeps no model; null = no search."""
    settings_from: StageName | None = None
    """Stage with `variants` or `tuning` whose best settings on the same dataset every run that trains takes: those of
    the variant with the highest mean macro-F1 on validation, over the seeds, or of the trial with the best validation
    score of its task. A model that passes that stage takes its own; if only one does, all take its."""
    data: dict[EntryName, Work] = Field(min_length=1)
    """Corpora and datasets that it works on, one run each."""

    @classmethod
    def prepared(cls, values: Any) -> Any:
        """Merge the settings that entries of `data` share into each entry."""
        if not isinstance(values, dict) or not isinstance(values.get("data"), dict):
            return values
        entries = {}
        for name, entry in values["data"].items():
            if isinstance(entry, dict):
                pairs = {key: (values.get(key) or {}, entry.get(key) or {}) for key in ("task", "recipe")}
                entry = entry | {
                    key: overlaid(shared, own)
                    for key, (shared, own) in pairs.items()
                    if isinstance(shared, dict) and isinstance(own, dict) and (shared or own)
                }
            entries[name] = entry
        return values | {"data": entries}

    def combinations(self) -> list[dict[str, Setting]]:
        """Return the settings of every variant, the last setting varying fastest; [{}] without variants.

        Raises:
            ConfigError: there are too many.
        """
        check_expansion("variants", math.prod(map(len, self.variants.values())), "runs", MOST_RUNS)
        return [dict(zip(self.variants, values, strict=True)) for values in itertools.product(*self.variants.values())]

    @property
    def search(self) -> Literal["variants", "tuning"] | None:
        """Section with its search of settings; None = it has none."""
        return "tuning" if self.tuning else "variants" if self.variants else None

    def tried(self) -> list[dict[str, Setting]]:
        """Return the settings that its search may choose: all variants, or examples of the settings of trials."""
        return self.tuning.examples() if self.tuning else self.combinations()

    @check
    def _searches_once(self) -> Iterator[str]:
        if self.variants and self.tuning:
            yield "variants and tuning are both set. Leave one of them out"
        tuned: Mapping[str, Any] = self.tuning.space if self.tuning else {}
        for section, places in (("variants", self.variants), ("tuning.space", tuned)):
            if "task.kind" in places:
                yield f"{section}.task.kind: a stage has one kind of task. Make a stage for each"
            if len(set(map(short_name, places))) < len(places):
                yield f"{section}: {', '.join(places)}: two have the same last name. Search one of them"

    @check
    def _tuning_finds_what_it_needs(self) -> Iterator[str]:
        for name, work in self.data.items() if self.tuning else ():
            if "validation" not in work.task.splits:
                yield f"tuning: {work.task.kind}, the task of data.{name}, has no score on validation. Name another"

    @check
    def _variants_have_names(self) -> Iterator[str]:
        for place, values in self.variants.items():
            if len({spelled(value).lower() for value in values}) < len(values):
                alike = "names a value twice, or two that differ in case alone and share a folder on some file systems"
                yield f"variants.{place}: {values} {alike}. Name each once"
            for value in map(spelled, values):
                if not re.fullmatch(r"[A-Za-z0-9._-]+", value):
                    yield f"variants.{place}: no folder can bear the name '{value}'. Use letters, digits, '.', '_', '-'"

    @check
    def _what_is_searched_are_settings(self) -> Iterator[str]:
        found: dict[tuple[str, str], str] = {}
        section, need = ("tuning.space", "trials train by") if self.tuning else ("variants", "settings of")
        for entry, work in self.data.items():
            if work.recipe is None and (self.tuning or any(place.startswith("recipe.") for place in self.variants)):
                yield f"{self.search}: {need} a recipe, but data.{entry} has none. Add one"
                continue
            for settings in self.tried():
                for place, sentence in settings_errors(work, settings):
                    found.setdefault((place, sentence), variant_name(settings))
        for (place, sentence), name in found.items():
            yield f"{section}.{place}: {sentence} (in {name})"


def settings_errors(work: Work, settings: Mapping[str, Setting]) -> Iterator[tuple[str, str]]:
    """Yield the settings that do not fit into a work, each with the reason."""
    try:
        work.with_settings(settings)
    except ValidationError as error:
        for place, sentence in sentences(error):
            yield ".".join(place), sentence
