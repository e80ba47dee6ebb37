"""Settings of fine-tuning for classification. Nothing of pretraining reads them."""

from typing import Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveInt

from lib.core.settings import Probability, Section
from lib.core.settings.training import Optimisation


class ClassificationHead(Section):
    """From hidden states to class scores; each field is the field of the same name in `EncoderConfig`."""

    classifier_pooling: Literal["cls", "mean", "max", "min", "mean_step"] = Field(
        "mean", description="Aggregation of the real tokens' hidden states into one vector."
    )
    pooling_step: PositiveInt = Field(1, description="Stride of `mean_step`, in tokens.")
    classifier_head: Literal["bert", "roberta", "none"] = Field(
        "bert", description="`bert`: dense, tanh, dropout; `roberta`: dropout before that too; `none`: dropout only."
    )
    classifier_dropout: Probability = Field(0.1, description="Dropout before the last projection.")


class Finetuning(Optimisation):
    """Fine-tuning of one dataset."""

    head: ClassificationHead = Field(default_factory=ClassificationHead)
    freeze_layers: NonNegativeInt = Field(0, description="Lowest encoder blocks frozen at first; 0 freezes nothing.")
    freeze_embeddings: bool = Field(True, description="Freeze the embeddings together with the blocks.")
    freeze_epochs: NonNegativeInt | None = Field(None, description="Epochs until the thaw; null = floor(epochs / 2).")
    head_lr_multiplier: NonNegativeFloat = Field(1.0, description="Factor on the classification head's learning rate.")
    backbone_lr_multiplier: NonNegativeFloat = Field(1.0, description="Factor on the encoder's learning rate.")

    @property
    def frozen_epochs(self) -> int:
        """Epochs during which the lowest blocks do not train."""
        if not self.freeze_layers:
            return 0
        return self.epochs // 2 if self.freeze_epochs is None else self.freeze_epochs
