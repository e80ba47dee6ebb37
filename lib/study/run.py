"""The resolved settings of one run, which its `config.yaml` stores and its program reads."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from lib.backbones.settings import AnyBackbone, BackboneSettings, Precision
from lib.core.extensions import in_use, use
from lib.core.record import MODEL
from lib.core.search_space import Setting
from lib.core.settings import BaseSettings, PositiveInt, Seed, check, known
from lib.study.execution import Training
from lib.study.recipe import Geometry, Recipe
from lib.tasks.settings import AnyTask, TaskSettings


class Start(BaseSettings):
    """Where a run's first weights come from."""

    run: str | None = None
    """Folder of the run whose weights are taken; null = the weights do not come from a run of this project."""
    checkpoint: str
    """Folder with the weights: a run's `model`, a model of its own, or a working checkpoint."""
    load_only_model_state: bool = True
    """Take weights only; false continues with optimiser, schedule and step of a working checkpoint."""

    @classmethod
    def of(cls, folder: str | Path) -> "Start":
        """Return the start from the weights in a folder, which belongs to a run if it is called as their models are."""
        folder = Path(folder)
        return cls(run=str(folder.parent) if folder.name == MODEL else None, checkpoint=str(folder))


class RunSettings(BaseSettings):
    """Settings of one run, as in its `config.yaml`."""

    extensions: list[str] = Field(default_factory=list, exclude_if=lambda value: not value)
    """Extensions in use, which may have kinds that the run needs."""
    stage: str
    """Name of the stage."""
    model: str
    """Row of the tables."""
    dataset: str
    """Corpus or dataset."""
    variant: dict[str, Setting] = Field(default_factory=dict)
    """Settings by dotted name that distinguish it from other runs of a search."""
    seed: Seed
    """Seed of order, masks, features, initial weights and dropout."""
    precision: Precision = "fp32"
    """Arithmetic of the forward pass."""
    task: AnyTask
    """What is learnt and how it is scored."""
    labels: list[str] | None = None
    """Names of the classes, in the order of their numbers."""
    backbone: AnyBackbone
    """The model that maps tokens to states, its attention mechanism included."""
    tokenizer: str | None = None
    """Folder of the tokeniser; null = the backbone reads texts."""
    max_tokens: PositiveInt | None = None
    """Tokens that the documents were cut to; null = not cut."""
    data: dict[Literal["train", "validation", "test", "choice"], str]
    """Tokenised splits (folders), or prepared ones (Parquet files) for a backbone that reads texts; `choice` =
    validation of the dataset that such a backbone is fitted to, where it is evaluated on another."""
    recipe: Recipe | None = None
    """How it trains; null = it does not train."""
    geometry: Geometry | None = None
    """Measurements of attention during the training, written to `geometry.csv`; null = none."""
    start: Start | None = None
    """Source of the first weights; null = they are random."""
    execution: Training = Field(default_factory=Training)
    """How the work is done; it changes no result."""

    @classmethod
    def prepared(cls, values: Any) -> Any:
        """Take the extensions into use, and name those that are in use anyway."""
        if not isinstance(values, dict) or not isinstance(named := values.get("extensions", []), list):
            return values
        use(map(str, named))
        return values | ({"extensions": in_use()} if in_use() else {})

    @property
    def trains(self) -> bool:
        """Whether the run has a training loop."""
        return self.recipe is not None

    @property
    def reads_tokens(self) -> bool:
        """Whether the run reads tokens, and not texts."""
        return "states" in self.backbone.abilities

    @check
    def _parts_fit(self) -> Iterator[str]:
        task, labelled = self.task, self.task.labelled and self.task.label_form != "number"
        yield from parts_errors(task, self.recipe, self.backbone, starts=self.start is not None)
        yield from class_weight_errors(task, self.recipe, self.backbone, self.labels or ())
        if self.recipe and self.recipe.lora and self.start and not self.start.load_only_model_state:
            yield "start.load_only_model_state: false does not go with recipe.lora, whose checkpoints are partial"
        if self.reads_tokens and self.tokenizer is None:
            yield "tokenizer is missing. Give the folder of the tokeniser"
        if self.geometry is not None and "queries_and_keys" not in self.backbone.abilities:
            yield f"geometry: the backbone {self.backbone.kind} has no separate queries and keys to measure"
        if labelled and not self.labels:
            yield f"labels are missing. The task {task.kind} needs the names of the classes"
        elif labelled:
            yield from (f"task.{error}" for error in task.label_errors(self.labels or ()))
        needed = task.splits_read(fits=self.trains or not self.reads_tokens)
        if missing := [split for split in needed if split not in self.data]:
            yield f"data: {', '.join(missing)} is missing, which the task {task.kind} reads"


def parts_errors(
    task: TaskSettings, recipe: Recipe | None, backbone: BackboneSettings, *, starts: bool
) -> Iterator[str]:
    """Yield why a backbone cannot do a task by a recipe, each with the setting.

    Args:
        task: what is learnt or evaluated.
        recipe: how it trains; None = it does not.
        backbone: what trains or is evaluated.
        starts: whether its first weights come from another model.
    """
    trainable, kind = task.trains(backbone), backbone.kind
    if recipe is not None and not trainable:
        yield f"task: the backbone {kind} cannot train the task {task.kind}"
    elif recipe is None and not task.evaluates(backbone) and not (trainable and task.predicts):
        yield f"task: the backbone {kind} cannot do {task.kind}" + (" without a recipe" if trainable else "")
    elif recipe is None and not starts and "states" in backbone.abilities:
        yield "recipe: missing, so a trained model is needed, but the weights are random. Add one, or a start"
    if backbone.quantized and not (recipe and recipe.lora and not recipe.lora.merge):
        yield f"recipe: the backbone {kind} is quantised, so that only adapters train. Give lora with merge: false"
    if recipe and recipe.patience and "best" not in (recipe.keep or [task.keeps]):
        yield "recipe.patience: waits for a better evaluation, but the best one is not kept. Add best to recipe.keep"
    if recipe and recipe.lora:
        if reason := recipe.lora.error(backbone.linear_layers):
            yield f"recipe.lora: the backbone {kind} {reason}"
        if not starts and not recipe.lora.merge:
            yield "recipe.lora.merge: false without a start would lose the random weights. Set it to true"
    yield from (f"task.{error}" for error in task.backbone_errors(backbone))


def class_weight_errors(
    task: TaskSettings, recipe: Recipe | None, backbone: BackboneSettings, labels: Sequence[str]
) -> Iterator[str]:
    """Yield why weights of classes do not fit a task or its classes, each with the setting.

    Args:
        task: task of a run.
        recipe: recipe of the run or of its stage; None = there is none.
        backbone: backbone of the run.
        labels: names of the classes.
    """
    own = getattr(backbone, "class_weight", None)
    of_backbone = (f"task: class_weight of the backbone {backbone.kind}", own if isinstance(own, dict) else None)
    for place, weights in (("recipe.class_weights", recipe and recipe.class_weights), of_backbone):
        if weights and not task.weighs_classes:
            yield f"{place}: the task {task.kind} has no weights of classes. Remove it"
        elif isinstance(weights, dict) and (unknown := [name for name in weights if name not in labels]):
            yield f"{place}: there is no class '{unknown[0]}'. {known(unknown[0], labels)}"
