"""The resolved settings of one run: what its `config.yaml` holds and its program reads."""

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from lib.core.kinds import AnyBackbone, AnyTask
from lib.core.settings import Section, check
from lib.core.settings.execution import Training
from lib.core.settings.recipe import Precision, Recipe


class Start(Section):
    """Where a run's first weights come from."""

    run: str | None = Field(
        None, description="Folder of the run whose weights are taken; null = not one of this house."
    )
    checkpoint: str = Field(
        description="Folder with the weights: a run's `model`, a model of its own, or a working checkpoint."
    )
    load_only_model_state: bool = Field(
        True, description="Take weights only; false goes on with optimiser, schedule and step of a working checkpoint."
    )


class Run(Section):
    """One execution of a stage: stage x model x data x seed."""

    stage: str = Field(description="Name of the stage.")
    model: str = Field(description="Row of the tables.")
    dataset: str = Field(description="Corpus or dataset.")
    seed: int = Field(description="Seed of order, masks, features, initial weights and dropout.")
    precision: Precision = Field("fp32", description="Arithmetic of the forward pass.")
    task: AnyTask = Field(description="What is learnt and how it is scored.")
    labels: list[str] | None = Field(None, description="Names of the classes, in the order of their numbers.")
    backbone: AnyBackbone = Field(description="What maps tokens to states, its attention mechanism included.")
    tokenizer: str | None = Field(None, description="Folder of the tokeniser; null = the backbone reads texts.")
    max_tokens: int | None = Field(None, description="Tokens that the documents were cut to; null = not cut.")
    data: dict[Literal["train", "validation", "test"], str] = Field(
        description="Tokenised splits (folders), or prepared ones (Parquet files) for a backbone that reads texts."
    )
    recipe: Recipe | None = Field(None, description="How it trains; null = it does not.")
    start: Start | None = Field(None, description="Where first weights come from; null = they are drawn.")
    execution: Training = Field(default_factory=Training, description="How the work is done; changes no number.")

    @property
    def trains(self) -> bool:
        """Whether the run has a training loop."""
        return self.recipe is not None

    @check
    def _parts_fit(self) -> Iterator[str]:
        needed = self.task.trains_on if self.trains else self.task.evaluates_on
        if needed not in self.backbone.abilities:
            how = "train" if self.trains else "evaluate without a recipe"
            yield f"the backbone {self.backbone.kind} cannot {how} the task {self.task.kind}"
        if self.trains and self.tokenizer is None:
            yield "tokenizer is missing. Give the folder of the tokeniser"
        if self.task.labelled and not self.labels:
            yield f"labels are missing. The task {self.task.kind} needs the names of the classes"
        if missing := [split for split in self.task.splits if split not in self.data]:
            yield f"data: {', '.join(missing)} is missing, which the task {self.task.kind} reads"
