"""Imitation: a model learns the states or the attention of another one, the teacher, which runs at the same time.

Shapes: B batch, N tokens.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, ValidationError

from lib.backbones.settings import BACKBONES
from lib.core.errors import ConfigError, RunError
from lib.core.labels import IGNORED
from lib.core.settings import check
from lib.tasks import contract
from lib.tasks.settings import TaskSettings

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import EvalPrediction, PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase


def _usual(value: Any) -> bool:
    """Whether states are matched; stored settings omit that, so that those of older runs are unchanged."""
    return value == "states"


class Settings(TaskSettings):
    """Imitation: a model learns the states or the attention of another one, the teacher, for texts without labels.

    The loss is the mean squared error of the states at real tokens. With exact attention in the teacher and another
    attention in the student, both from the same weights, this is attention transfer. `match` names other losses.
    """

    kind: Literal["imitation"]
    teacher: str
    """Name of the teacher, a model of the study, in its state before this stage: with the weights that it would start
    from here, and the backbone and mechanism that it has until then. It need not pass this stage. It has the same
    tokeniser and the same width of states."""
    layers: Literal["last", "all"] = "last"
    """States that are learnt: `last`, those of the last layer; `all`, those of every layer, for models with equally
    many layers."""
    match: Literal["states", "outputs", "weights"] = Field("states", exclude_if=_usual)
    """Target of the loss: `states`, learnt by all weights; or, learnt by the weights of the attention mechanisms alone,
    given the queries, keys and values of each of the teacher's layers, the `outputs` of its attention (mean squared
    error) or its attention `weights` (cross-entropy; time grows with the square of the length)."""
    teacher_backbone: dict[str, Any] | None = None
    """The teacher's backbone. A study leaves it out; the settings of a run contain it."""
    teacher_weights: str | None = None
    """Folder of the teacher's weights. A study leaves it out; the settings of a run contain it."""

    @check
    def _teacher_has_a_backbone(self) -> Iterator[str]:
        if self.teacher_backbone is None:
            return
        try:
            BACKBONES.parse(self.teacher_backbone)
        except (ConfigError, ValidationError) as error:
            yield f"teacher_backbone: {error}"

    def imitates(self) -> str | None:
        """See `TaskSettings.imitates`."""
        return self.teacher

    def folders(self) -> dict[str, str]:
        """See `TaskSettings.folders`."""
        return {"teacher": self.teacher_weights} if self.teacher_weights else {}


class Task(contract.Task):
    """Learn the states of a teacher, or its attention, at every real token.

    The best epoch explains most of the variance of the last states on validation, whatever is learnt.

    The teacher is loaded from its folder whenever a run starts, and is in no checkpoint; it computes in the run's
    precision, without dropout and without gradients.

    Source: Romero et al. 2015, "FitNets", for a squared error of states as the loss; Zhang et al. 2024, "The
        Hedgehog & the Porcupine", for the transfer to another attention in the same model from attention weights;
        Zhang et al. 2024, "LoLCATs", for that from its outputs, with a squared error in each layer.
    """

    best: ClassVar[str] = "unexplained_variance"
    greater_is_better: ClassVar[bool] = False
    parameters: Settings

    @classmethod
    def auto_model(cls) -> str:
        """See `lib.tasks.contract.Task.auto_model`."""
        from studies.conversion.backbones.heads.imitation import Imitation

        return Imitation.auto_model

    def model(self, config: PretrainedConfig) -> PreTrainedModel:
        """See `lib.tasks.contract.Task.model`."""
        self._student = super().model(config)
        self._student.every_layer = self.parameters.layers == "all"
        self._student.match = self.parameters.match
        return self._student

    def collator(self, tokenizer: PreTrainedTokenizerBase) -> contract.Collator:
        """See `lib.tasks.contract.Task.collator`; the tokeniser also gives the teacher's vocabulary.

        Raises:
            ProjectError: the teacher cannot be built from the settings.
        """
        self._student.learn_from(self._teacher(tokenizer))
        return functools.partial(_collated, pad_token_id=tokenizer.pad_token_id)

    def _teacher(self, tokenizer: PreTrainedTokenizerBase) -> PreTrainedModel:
        settings = self.parameters
        if settings.teacher_backbone is None or settings.teacher_weights is None:
            raise RunError(
                f"task.teacher: {settings.teacher} names a model of a study, but this run holds no teacher_backbone or "
                "no teacher_weights. Expected both; copy `backbone` of the teacher's config.yaml, and name the folder "
                "of its model (--teacher)."
            )
        parameters = BACKBONES.parse(settings.teacher_backbone)
        backbone = BACKBONES.load(parameters.kind, "backbone").Backbone(parameters, seed=self.seed)
        teacher = super().model(backbone.config(tokenizer, self.model_options()))
        backbone.check(teacher)
        backbone.load_weights(teacher, settings.teacher_weights)
        return teacher

    def prediction_step(self, model: PreTrainedModel, inputs: Mapping[str, Tensor]) -> tuple[None, Tensor, Tensor]:
        """Return, instead of logits and labels, a row of sums over the batch, and its number of tokens."""
        import torch

        from studies.conversion.evaluation.agreement import agreement_sums

        with torch.no_grad():
            outputs = model(**inputs)
        real = inputs["labels"].ne(IGNORED)
        number = real.sum().view(1)
        sums = agreement_sums(outputs.last_hidden_state, outputs.teacher_state, real)
        return None, torch.cat([outputs.loss.double() * number, sums])[None], number

    def metrics(self, prediction: EvalPrediction) -> dict[str, float]:
        """Return the loss, and the scores of `agreement` for the last states."""
        from studies.conversion.evaluation.agreement import agreement

        losses, sums = prediction.predictions[:, 0], prediction.predictions[:, 1:]
        return {"loss": float(losses.sum() / prediction.label_ids.sum())} | agreement(sums)


def _collated(examples: Sequence[Mapping[str, Any]], pad_token_id: int) -> dict[str, Tensor]:
    """Return input_ids, attention_mask and labels, each [B, N]; labels are the tokens themselves."""
    from lib.tokens.batches import pad_examples

    batch = pad_examples(examples, pad_token_id)
    return batch | {"labels": batch["input_ids"].masked_fill(batch["attention_mask"].eq(0), IGNORED)}
