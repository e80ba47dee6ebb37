"""Settings of a training and of its measurements, the same for all tasks."""

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from lib.backbones.settings import Lora
from lib.core.settings import (
    BaseSettings,
    FewOrZero,
    Fraction,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Size,
    WholeNumber,
    check,
    unset,
)


class Recipe(BaseSettings):
    """AdamW, and a learning rate that rises to its peak and falls to a minimum."""

    epochs: PositiveInt
    """Passes over the training documents."""
    steps: PositiveInt | None = None
    """Optimiser steps after which training and schedule end, even within an epoch; null = the steps of all epochs,
    which also are the maximum."""
    learning_rate: PositiveFloat
    """Peak learning rate."""
    min_lr_ratio: Fraction
    """Final learning rate as a share of the peak."""
    batch_size: PositiveInt
    """Documents per optimiser step."""
    schedule: Literal["cosine", "one_cycle"] = "cosine"
    """`cosine`: the rate rises linearly from 0 and falls with a cosine; `one_cycle`: it does both with a cosine, from
    1/25 of the peak, while AdamW's first momentum falls from 0.95 to 0.85 and rises again."""
    warmup_ratio: Fraction = 0.1
    """Share of the steps that warm up."""
    optimizer: Literal["adamw", "adamw_8bit"] = "adamw"
    """`adamw_8bit` keeps AdamW's moments in 8 bits, except those of embeddings (bitsandbytes)."""
    weight_decay: NonNegativeFloat = 0.01
    """Weight decay; norms and biases have none."""
    max_grad_norm: NonNegativeFloat = 1.0
    """Gradient norm above which gradients are clipped; 0 = off."""
    freeze_layers: FewOrZero = 0
    """Lowest blocks of the backbone that are frozen at first."""
    freeze_embeddings: bool | None = None
    """Freeze the embeddings at first; null = if any block is frozen."""
    freeze_epochs: PositiveInt | None = None
    """Epochs until the thaw; null = floor(epochs / 2). `epochs` or more = no thaw."""
    head_lr_multiplier: NonNegativeFloat = 1.0
    """Factor on the learning rate of the task's head."""
    backbone_lr_multiplier: NonNegativeFloat = 1.0
    """Factor on the learning rate of the backbone."""
    lora: Lora | None = None
    """Low-rank adapters; null = all weights train."""
    evaluate_every: PositiveInt | None = None
    """Optimiser steps between evaluations; the last step has one, too. Each writes a row of the history and can be the
    best one. null = evaluate at the end of each epoch."""
    # Both are left out where they are not set, so that the settings of earlier runs stay as they were.
    patience: PositiveInt | None = Field(None, exclude_if=unset)
    """Evaluations in a row without a new best validation score after which training stops, where `keep` has `best`. The
    schedule stays that of all steps. null = all steps are done."""
    class_weights: Literal["balanced"] | dict[str, PositiveFloat] | None = Field(None, exclude_if=unset)
    """Weights of the classes of documents in the training loss, which is the mean over the weights of a step's labels.
    `balanced` = n / (C * n_c) for n training documents of C classes, of which n_c have the class; or a weight by class
    name, 1 for the others. Losses and scores of evaluations are not weighted. Logistic regression, which has no recipe,
    takes it as `class_weight` unless its backbone sets that. null = all documents weigh alike."""
    keep: list[Literal["best", "last", "state"]] | None = None
    """What the run keeps. `best`: the evaluation with the best score on validation; `last`: the last one; `state`: the
    last one with its optimiser, to continue from. The first of `best` and `last` is the run's model, the others are in
    folders of their names inside it. null = the task decides: `last` for language modelling, `best` for all other
    tasks."""

    @check
    def _a_model_is_kept(self) -> Iterator[str]:
        if self.keep is not None and not {"best", "last"} & set(self.keep):
            yield f"keep = {self.keep} names no model. Add 'best' or 'last'"

    @check
    def _adapters_train_alone(self) -> Iterator[str]:
        if self.lora is None:
            return
        if self.freezes:
            yield "freeze_layers and freeze_embeddings do nothing with lora, which freezes the backbone. Leave them out"
        if "state" in (self.keep or ()):
            yield f"keep = {self.keep}: with lora there is no 'state', since frozen weights are left out. Remove it"

    def epochs_over(self, documents: float) -> float:
        """Return the number of epochs over `documents` that `steps` allows."""
        return self.epochs if self.steps is None else min(self.epochs, self.steps * self.batch_size / documents)

    @property
    def freezes_embeddings(self) -> bool:
        """Whether the embeddings are frozen at first."""
        return self.freeze_layers > 0 if self.freeze_embeddings is None else self.freeze_embeddings

    @property
    def freezes(self) -> bool:
        """Whether anything is frozen at first."""
        return self.freeze_layers > 0 or self.freezes_embeddings

    @property
    def frozen_epochs(self) -> int:
        """Number of epochs until the thaw."""
        if not self.freezes:
            return 0
        return self.epochs // 2 if self.freeze_epochs is None else self.freeze_epochs


class Geometry(BaseSettings):
    """Symmetry, directionality and gradients of queries and keys, and where attention looks, during training."""

    every: PositiveInt
    """Optimiser steps between two measurements; first and last weights are measured, too."""
    positions: list[WholeNumber] = Field([0], min_length=1)
    """Tokens from a query to its key (negative = the key stands before it), for rotary positions; 0 = the projections
    alone."""
    documents: NonNegativeInt = 8
    """Number of validation documents, the first ones, whose attention maps are measured; 0 = none."""
    length: Size = Field(128, ge=2)
    """Length in tokens that documents are cut to for the maps; the cost of maps is quadratic in it."""
