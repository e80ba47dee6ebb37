"""Imitation of another model's states, on any backbone. The caller loads that model.

Shapes: B batch, N tokens, D hidden size, L labelled tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput
from transformers.utils.generic import ModelOutput, can_return_tuple

from lib.backbones.configuration import BackboneConfig
from lib.backbones.heads.loss import select, squared_error
from lib.backbones.heads.model import TaskModel
from lib.core.errors import RunError


@dataclass
class ImitationOutput(ModelOutput):
    """Outputs of a model and its teacher."""

    loss: Tensor | None = None
    last_hidden_state: Tensor | None = None
    teacher_state: Tensor | None = None
    """The teacher's `last_hidden_state`, if there are labels."""
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[Tensor, ...] | None = None


class Imitation(TaskModel):
    """Output the states of another model, the teacher. The head has no weights.

    The teacher is not part of the model: it is neither saved nor trained, and has no dropout.

    Attributes:
        every_layer: whether the states of all layers are learnt, not only those of the last one.
    """

    auto_model: ClassVar[str] = "AutoModelForPreTraining"

    def __init__(self, config: BackboneConfig) -> None:
        super().__init__(config)
        self.every_layer = False
        self._teacher: tuple[PreTrainedModel, ...] = ()  # in a tuple, since a module's attribute would be a part of it
        self.post_init()

    def learn_from(self, teacher: PreTrainedModel) -> None:
        """Set the teacher, which never changes.

        Args:
            teacher: teacher with its weights; only its `base_model` is used.

        Raises:
            RunError: its states have another width, or the number of learnt layers differs.
        """
        for name in ("hidden_size", *["num_hidden_layers"] * self.every_layer):
            own, other = getattr(self.config, name), getattr(teacher.config, name)
            if own != other:
                raise RunError(
                    f"task.teacher: its {name} is {other}, but that of the model which learns from it is {own}. "
                    f"Expected the same{' for task.layers: all' * self.every_layer}; name another teacher."
                )
        self._teacher = (teacher.base_model.eval().requires_grad_(False),)

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        *,
        labels: Tensor | None = None,
        scored: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
        **kwargs: Any,
    ) -> ImitationOutput:
        """Return the states, and their distance from the teacher's.

        Args:
            input_ids: [B, N].
            attention_mask: [B, N], 1 = real token; None = all real.
            labels: tokens whose states are learnt [B, N], -100 = none; None = no loss, and no teacher is needed.
            scored: places of labels in the batch laid flat [L], see `lib.data.padding.known_beforehand`.
            num_items_in_batch: labelled tokens over all parts of an accumulated batch; None = those at hand.
            kwargs: further arguments of the backbone's forward pass.

        Returns:
            `last_hidden_state` [B, N, D] and, with labels, `teacher_state` [B, N, D] and `loss`, see `squared_error`;
            of all layers, its mean over them.

        Raises:
            ValueError: there are labels, but no teacher.
        """
        kwargs |= {"output_hidden_states": True} if self.every_layer else {}
        outputs = self.base_model(input_ids, attention_mask, **kwargs)
        loss, taught = None, None
        if labels is not None:
            taught = self._taught(input_ids, attention_mask)
            errors = [
                squared_error(select(own, labels, scored)[0], select(other, labels, scored)[0], num_items_in_batch)
                for own, other in zip(self._learnt(outputs), self._learnt(taught), strict=True)
            ]
            loss = torch.stack(errors).mean()
        return ImitationOutput(
            loss=loss,
            last_hidden_state=outputs.last_hidden_state,
            teacher_state=taught and taught.last_hidden_state,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
        )

    @torch.no_grad()
    def _taught(self, input_ids: Tensor | None, attention_mask: Tensor | None) -> BaseModelOutput:
        """Return the outputs of the teacher."""
        if not self._teacher:
            raise ValueError("labels were passed, but there is no teacher. Call learn_from, or leave labels out.")
        (teacher,) = self._teacher
        if input_ids is not None and teacher.device != input_ids.device:
            teacher.to(input_ids.device)
        return teacher(input_ids, attention_mask, **({"output_hidden_states": True} if self.every_layer else {}))

    def _learnt(self, outputs: BaseModelOutput) -> Sequence[Tensor]:
        """Return the states that are learnt, each [B, N, D]."""
        return outputs.hidden_states[1:] if self.every_layer else [outputs.last_hidden_state]


Head = Imitation
