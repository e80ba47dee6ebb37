"""How a stage trains, whatever its task is."""

from collections.abc import Iterator
from typing import Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from lib.core.settings import Fraction, Section, check

Precision = Literal["fp32", "bf16", "fp16"]


class Recipe(Section):
    """AdamW, and a learning rate that rises to its peak and falls to a minimum."""

    epochs: PositiveInt = Field(description="Passes over the training documents.")
    learning_rate: PositiveFloat = Field(description="Peak learning rate.")
    min_lr_ratio: Fraction = Field(description="Final learning rate as a share of the peak.")
    batch_size: PositiveInt = Field(description="Documents per optimiser step.")
    schedule: Literal["cosine", "one_cycle"] = Field(
        "cosine",
        description="`cosine`: the rate rises linearly from 0 and falls with a cosine; `one_cycle`: it does both with "
        "a cosine, from 1/25 of the peak, while AdamW's first momentum falls from 0.95 to 0.85 and rises again.",
    )
    warmup_ratio: Fraction = Field(0.1, description="Share of the steps that warm up.")
    weight_decay: NonNegativeFloat = Field(0.01, description="Weight decay, not on norms and biases.")
    max_grad_norm: NonNegativeFloat = Field(1.0, description="Gradient norm above which gradients are clipped; 0 = no.")
    freeze_layers: NonNegativeInt = Field(0, description="Lowest blocks of the backbone that are frozen at first.")
    freeze_embeddings: bool | None = Field(
        None, description="Freeze the embeddings at first; null = if any block is frozen."
    )
    freeze_epochs: NonNegativeInt | None = Field(None, description="Epochs until the thaw; null = floor(epochs / 2).")
    head_lr_multiplier: NonNegativeFloat = Field(1.0, description="Factor on the learning rate of the task's head.")
    backbone_lr_multiplier: NonNegativeFloat = Field(1.0, description="Factor on the learning rate of the backbone.")
    keep: list[Literal["best", "last", "state"]] | None = Field(
        None,
        description="What to keep of the training. `best`: the epoch with the best score on validation; `last`: the "
        "last one; `state`: the last one with its optimiser, to go on from. The first of `best` and `last` is the "
        "run's model, others lie in folders of their names inside it. null = as the task says: `last` for `masked_lm`, "
        "`best` for `sequence_classification`.",
    )

    @check
    def _something_to_freeze(self) -> Iterator[str]:
        if self.freeze_epochs is not None and not self.freezes:
            yield (
                f"freeze_epochs = {self.freeze_epochs}, but nothing is frozen. Set freeze_layers or freeze_embeddings, "
                "or leave it out"
            )

    @check
    def _a_model_is_kept(self) -> Iterator[str]:
        if self.keep is not None and not {"best", "last"} & set(self.keep):
            yield f"keep = {self.keep} names no model. Add 'best' or 'last'"
        if self.keep is not None and len(set(self.keep)) < len(self.keep):
            yield f"keep = {self.keep} names something twice. Name each once"

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
        """Epochs during which what is frozen does not train."""
        if not self.freezes:
            return 0
        return self.epochs // 2 if self.freeze_epochs is None else self.freeze_epochs
