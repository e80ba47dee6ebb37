"""Mechanisms, backbones, tasks, tables and figures: axes whose kinds are found by name, each in a folder of its own.

A kind is a package of its axis' folder with one module per part (`lib/attention/lsh/parameters.py`, `mechanism.py`), or
a single module that holds all parts (`lib/results/tables/stage.py`). Its part `parameters` defines `class Parameters`
with a literal field `kind` and imports no torch, since the workflow reads it. Kinds are imported by a name made at run
time, so that the digest of a rule's code holds the kinds that it uses and no others.
"""

import functools
import importlib
import pkgutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from types import ModuleType
from typing import Annotated, Any, ClassVar, Generic, Literal, Self, TypeVar

from pydantic import BeforeValidator, Field, SerializeAsAny

from lib.core.errors import ConfigError
from lib.core.settings import Section, check

SHARED_MODULES = frozenset(
    {
        "adapters",
        "approximation",
        "classifier",
        "configuration",
        "contract",
        "document_classification",
        "heads",
        "interface",
        "kernels",
        "language_model",
        "loading",
        "projections",
        "registry",
    }
)
"""Modules of an axis' folder that are no kinds."""


class KindParameters(Section):
    """Base of the parameters of every kind."""

    kind: str


Parameters = TypeVar("Parameters", bound=KindParameters)


@dataclass(frozen=True)
class Axis(Generic[Parameters]):
    """One of the axes.

    Args:
        package: dotted name of its folder.
        noun: what one of its kinds is called in messages.
        base: base class of its kinds' parameters.
        default: kind of parameters that name none.
    """

    package: str
    noun: str
    base: type[Parameters]
    default: str | None = None

    def kinds(self) -> list[str]:
        """Return the known kinds, sorted."""
        folder = importlib.import_module(self.package).__path__
        return sorted(module.name for module in pkgutil.iter_modules(folder) if module.name not in SHARED_MODULES)

    def module(self, kind: Any, part: str) -> str:
        """Return the dotted name of the module that holds a part of `kind`.

        Raises:
            ConfigError: the kind is unknown.
        """
        if kind not in self.kinds():
            raise ConfigError(f"kind: {kind!r} is not a known {self.noun}. Expected one of: {', '.join(self.kinds())}.")
        name = f"{self.package}.{kind}"
        return f"{name}.{part}" if self.is_folder(kind) else name

    def load(self, kind: Any, part: str) -> ModuleType:
        """Return the module that holds a part of `kind`, imported.

        Raises:
            ConfigError: the kind is unknown.
        """
        return importlib.import_module(self.module(kind, part))

    @functools.cache  # noqa: B019 - there is one of each axis
    def has(self, kind: str, part: str) -> bool:
        """Whether a folder of `kind` has a module for a part."""
        return self.is_folder(kind) and find_spec(f"{self.package}.{kind}.{part}") is not None

    def is_folder(self, kind: str) -> bool:
        """Whether `kind` is a folder with modules, and not a single one."""
        return hasattr(importlib.import_module(f"{self.package}.{kind}"), "__path__")

    def parse(self, values: Mapping[str, Any] | Parameters) -> Parameters:
        """Return the typed parameters of `values`, whose key `kind` names the kind.

        Raises:
            ConfigError: the kind is unknown.
            pydantic.ValidationError: a parameter is unknown, missing or out of range.
        """
        if isinstance(values, self.base):
            return values
        kind = values.get("kind", self.default) if isinstance(values, Mapping) else values
        return self.load(kind, "parameters").Parameters.model_validate(values)


class MechanismParameters(KindParameters):
    """Base of the parameters of every attention mechanism."""

    shares_query_and_key: ClassVar[bool] = False
    """Whether one projection serves as query and key; weights move only between mechanisms that agree."""
    takes_attention_dropout: ClassVar[bool] = True
    """Whether there are attention weights that dropout could act on."""
    takes_bias: ClassVar[bool] = False
    """Whether there are scores to which a bias can be added, as by ALiBi."""

    def name(self) -> str:
        """Return the spelling of these parameters, used in configuration, paths and tables."""
        return self.kind

    def keys_per_query(self, tokens: int) -> int:
        """Return with how many keys' worth of work a query costs in a sequence of `tokens`."""
        return tokens


Ability = Literal[
    "states",
    "past_states",
    "generated_text",
    "class_probabilities",
    "character_probabilities",
    "attention_maps",
    "queries_and_keys",
]
"""What a backbone can do: map tokens to states that a head is trained on, to such that know nothing of later tokens,
write texts about the tokens that it reads, classify texts by itself, find spans in them by itself, show how much each
token attends to each other one, or the projections by which it does."""

VOCABULARY = 30_522
"""Tokens assumed where the vocabulary is not known yet: BERT's."""


class BackboneParameters(KindParameters):
    """Base of the parameters of every backbone."""

    takes_mechanism: ClassVar[bool] = False
    """Whether a field `mechanism` holds the parameters of an attention mechanism, which each model chooses."""
    takes_adapters: ClassVar[bool] = True
    """Whether it has linear layers, in which `recipe.lora` puts adapters."""

    @property
    def abilities(self) -> frozenset[Ability]:
        """What it can do."""
        return frozenset({"states"})

    def with_mechanism(self, mechanism: MechanismParameters | None) -> Self:
        """Return these parameters with the attention mechanism of a model.

        Raises:
            pydantic.ValidationError: the backbone cannot hold this mechanism.
        """
        if not self.takes_mechanism:
            return self
        return type(self).model_validate(self.model_dump() | {"mechanism": mechanism})

    @property
    def held_mechanism(self) -> MechanismParameters | None:
        """The attention mechanism that it holds, if any."""
        return getattr(self, "mechanism", None)

    @property
    def quantized(self) -> bool:
        """Whether its own weights are quantised before a training, so that only adapters beside them train."""
        return False

    @property
    def family(self) -> str:
        """Name by which figures group models."""
        return self.kind

    def can_train(self, task: "TaskParameters") -> bool:
        """Whether it can be trained on a task: it does what the task needs, and has a model for it if others have."""
        return task.trains_on in self.abilities and not _lacks_model(self.kind, task.head or task.kind)

    def longest(self) -> int | None:
        """Return how many tokens a sequence may have at most; None = any number."""
        return None

    def blocks(self) -> int | None:
        """Return how many blocks there are to freeze; None = freezing is not available."""
        return None

    def obstacles(self, before: "BackboneParameters") -> Iterator[str]:
        """Yield why these parameters cannot take over the weights of a backbone with the parameters `before`."""
        if before.kind != self.kind:
            yield f"a backbone of kind {self.kind} cannot take over weights of kind {before.kind}"

    def products_per_token(self, tokens: int, predicted_share: float) -> float:
        """Return the multiplications that a forward pass costs per token, to estimate how long a training takes.

        Args:
            tokens: length of a sequence.
            predicted_share: share of the tokens for which scores over the vocabulary are computed.
        """
        return 0.0


class TaskParameters(KindParameters):
    """Base of the parameters of every task."""

    trains_on: ClassVar[Ability | None] = "states"
    """What it needs of a backbone to be trained; None = it never trains."""
    evaluates_on: ClassVar[Ability | None] = None
    """What it needs of a backbone that does it by itself, without a training loop or weights from one; None = no
    backbone does."""
    labelled: ClassVar[bool] = False
    """Whether documents need labels."""
    label_per: ClassVar[Literal["document", "word", "span"]] = "document"
    """What bears a label, if the task needs labels."""
    head: ClassVar[str | None] = None
    """Name of the module with a backbone's model for the task; None = that of the task's kind."""
    predicts: ClassVar[bool] = False
    """Whether a run leaves predictions; then a model that was trained on it can be evaluated without a recipe, too."""
    keeps: ClassVar[Literal["best", "last"]] = "last"
    """Which epoch's model is kept if the recipe does not say."""
    splits: ClassVar[tuple[str, ...]] = ("train", "validation")
    """Splits that a run reads."""

    def predicted_share(self) -> float:
        """Return the share of the tokens for which scores over the vocabulary are computed."""
        return 0.0

    def taught_by(self) -> str | None:
        """Return the model whose scores of the training documents are learnt beside their labels; None = none."""
        return None

    def problems_of_labels(self, labels: Sequence[str]) -> Iterator[str]:
        """Yield why the task cannot be done with these classes, as sentences that begin with the setting at fault."""
        yield from ()

    def splits_read(self, *, fits: bool) -> tuple[str, ...]:
        """Return the splits that a run reads; no training documents if it `fits` nothing to them."""
        return tuple(split for split in self.splits if fits or split != "train")


class ResultParameters(KindParameters):
    """Base of the settings of every kind of table and figure."""

    reads: ClassVar[Literal["runs", "token_lengths", "texts"]] = "runs"
    """What it is made from: records of runs, statistics of tokenised texts, or descriptions of texts."""
    divided: ClassVar[Literal["never", "always", "if_several"]] = "never"
    """Whether there is one for each dataset, which then bears its name."""
    needs_predictions: ClassVar[bool] = False
    """Whether the runs of its stages must leave predictions."""
    needs_probabilities: ClassVar[bool] = False
    """Whether these predictions must hold probabilities of classes, which only those of documents do."""
    needs_classes: ClassVar[bool] = False
    """Whether these predictions must be classes, which spans are not."""
    needs_training: ClassVar[bool] = False
    """Whether the runs of its stages must have a training loop, as some of them do."""
    needs_published: ClassVar[bool] = False
    """Whether the report must name the study whose printed values it shows."""
    needs_geometry: ClassVar[bool] = False
    """Whether the runs of its stages must measure the geometry of attention."""
    needs_groups: ClassVar[bool] = False
    """Whether the documents of its datasets must be in groups."""
    needs_texts: ClassVar[bool] = False
    """Whether it reads descriptions of its datasets' texts beside the runs."""
    takes_variants: ClassVar[Literal["none", "any", "needed"]] = "none"
    """Whether its stages may, or must, have variants, so that there are several runs of one model, dataset and seed."""
    takes_tuning: ClassVar[Literal["none", "any", "needed"]] = "none"
    """Whether its stages may, or must, have tuning, whose runs leave trials and neither a history nor predictions."""
    beside: ClassVar[tuple[Literal["reference", "baseline"], ...]] = ()
    """What it sets models beside: the report's reference, which there must be, or its baseline, if there is one."""

    models: list[str] | None = Field(None, description="Models, in order; null = all that pass its stages.")
    datasets: list[str] | None = Field(
        None, description="Corpora and datasets that are shown, of stages that work on them; null = all."
    )

    def stages_passed(self) -> list[str]:
        """Return the stages that every model shown passes; their runs are read."""
        return []

    def stages_added(self) -> list[str]:
        """Return the stages whose runs are read as well, of models that pass them."""
        return []

    @check
    def _models_are_of_runs(self) -> Iterator[str]:
        if self.reads != "runs" and self.models:
            shown = self.reads.replace("_", " ")
            yield f"models = {self.models} does nothing where {shown} are shown. Leave it out"


class TableParameters(ResultParameters):
    """Base of the settings of every kind of table."""


class FigureParameters(ResultParameters):
    """Base of the settings of every kind of figure."""


MECHANISMS = Axis("lib.attention", "attention mechanism", MechanismParameters)
BACKBONES = Axis("lib.backbones", "backbone", BackboneParameters)
TASKS = Axis("lib.tasks", "task", TaskParameters)
TABLES = Axis("lib.results.tables", "kind of table", TableParameters, default="stage")
FIGURES = Axis("lib.results.figures", "kind of figure", FigureParameters)

AnyMechanism = Annotated[SerializeAsAny[MechanismParameters], BeforeValidator(MECHANISMS.parse)]
AnyBackbone = Annotated[SerializeAsAny[BackboneParameters], BeforeValidator(BACKBONES.parse)]
AnyTask = Annotated[SerializeAsAny[TaskParameters], BeforeValidator(TASKS.parse)]
AnyTable = Annotated[SerializeAsAny[TableParameters], BeforeValidator(TABLES.parse)]
AnyFigure = Annotated[SerializeAsAny[FigureParameters], BeforeValidator(FIGURES.parse)]


@functools.cache
def _lacks_model(kind: str, head: str) -> bool:
    """Whether a kind of backbone has no model for a head although others have one."""
    kinds = BACKBONES.kinds()
    lacks = kind in kinds and BACKBONES.is_folder(kind) and not BACKBONES.has(kind, head)
    return lacks and any(BACKBONES.has(other, head) for other in kinds)
