"""The resolved settings of one fine-tuning run."""

from typing import Literal

from lib.core.settings.finetuning import Finetuning
from lib.core.settings.run import Run, Start


class FinetuneRun(Run):
    """A run of fine-tuning."""

    stage: Literal["finetune"]
    start: Start | None = None
    optimisation: Finetuning
    labels: list[str]
