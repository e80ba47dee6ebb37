"""The resolved settings of one run: what its `config.yaml` holds and its stage's script reads."""

from typing import Any, Literal

from pydantic import Field, model_validator

from lib.backbones.encoder.settings import Encoder
from lib.core.errors import ConfigError
from lib.core.kinds import MECHANISMS
from lib.core.settings import Section
from lib.core.settings.execution import Training
from lib.core.settings.training import Masking, Optimisation, Precision


class Start(Section):
    """Where a run's first weights come from."""

    run: str = Field(description="Folder of the run whose weights are taken.")
    checkpoint: str = Field(description="Folder with the weights: the run's `model`, or a working checkpoint.")
    load_only_model_state: bool = Field(
        True, description="Take weights only; false goes on with optimiser, schedule and step of a working checkpoint."
    )


class Run(Section):
    """What the runs of all stages have in common."""

    model: str = Field(description="Row of the tables.")
    dataset: str = Field(description="Corpus or dataset trained on.")
    seed: int = Field(description="Seed of order, masks, features, initial weights and dropout.")
    precision: Precision = Field(description="Arithmetic of the forward pass.")
    mechanism: dict[str, Any] = Field(description="Parameters of the attention mechanism.")
    encoder: Encoder
    tokenizer: str = Field(description="Folder of the tokeniser.")
    data: dict[Literal["train", "validation", "test"], str] = Field(description="Folders of the tokenised splits.")
    execution: Training = Field(default_factory=Training)

    @model_validator(mode="after")
    def _mechanism_is_known(self) -> "Run":
        try:
            MECHANISMS.parse(self.mechanism)
        except ConfigError as error:
            raise ValueError(str(error)) from error
        return self


class MlmRun(Run):
    """A run of masked language modelling."""

    stage: Literal["pretrain", "tapt"]
    start: Start | None = None
    optimisation: Optimisation
    masking: Masking = Field(default_factory=Masking)
