"""Imitation of another model's states or attention, on any backbone. The caller loads that model.

Shapes: B batch, N tokens, D hidden size, L labelled tokens, H heads, d head width.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput
from transformers.utils.generic import ModelOutput, can_return_tuple

from lib.attention.contract import Attention
from lib.backbones.configuration import BackboneConfig
from lib.backbones.heads.model import Labels, TaskModel, select, squared_error
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


class Attended(NamedTuple):
    """The inputs and the output of an attention mechanism."""

    query: Tensor
    """[B, H, N, d]; likewise `key`, `value` and `output`."""
    key: Tensor
    value: Tensor
    mask: Tensor | None
    """[B, N], 1 = real token; None = all real."""
    output: Tensor


class Imitation(TaskModel):
    """Output the states of another model, the teacher. The head has no weights.

    The teacher is not part of the model: it is neither saved nor trained, and has no dropout.

    Attributes:
        every_layer: whether the states of all layers are learnt, not only those of the last one.
        match: target of the loss: `states`; or, learnt by the weights of mechanisms alone, the `outputs` or the
            `weights` of the teacher's attention in each layer, given the teacher's queries, keys and values.
    """

    auto_model: ClassVar[str] = "AutoModelForPreTraining"
    labels_tokens = True

    def __init__(self, config: BackboneConfig) -> None:
        super().__init__(config)
        self.every_layer = False
        self.match: Literal["states", "outputs", "weights"] = "states"
        self._teacher: tuple[PreTrainedModel, ...] = ()  # in a tuple, since a module's attribute would be a part of it
        self.post_init()

    def learn_from(self, teacher: PreTrainedModel) -> None:
        """Set the teacher, which never changes.

        Args:
            teacher: teacher with its weights; only its `base_model` is used.

        Raises:
            RunError: its states have another width, the number of learnt layers differs, or attention is matched and
                has no weights to learn, another shape, or none like it in the teacher.
        """
        for name in ("hidden_size", *["num_hidden_layers"] * self.every_layer):
            own, other = getattr(self.config, name), getattr(teacher.config, name)
            if own != other:
                raise RunError(
                    f"task.teacher: its {name} is {other}, but that of the model which learns from it is {own}. "
                    f"Expected the same{' for task.layers: all' * self.every_layer}; name another teacher."
                )
        self._teacher = (teacher.base_model.eval().requires_grad_(False),)
        if self.match != "states":
            self._learn_attention_alone()

    def _learn_attention_alone(self) -> None:
        """Freeze all weights but those of mechanisms, which must fit those of the teacher."""
        learners, taught = _learners(self.base_model), _mechanisms(self._teacher[0])
        if not learners:
            raise RunError(
                f"task.match: {self.match} trains the weights of attention mechanisms, but the model has none. Choose "
                "a mechanism with weights of its own (hedgehog, lolcats), or match: states."
            )
        for name, own in learners.items():
            other = taught.get(name)
            if other is None or other.settings.kind != "sdpa" or other.slopes(torch.device("cpu")) is not None:
                raise RunError(
                    f"task.teacher: its layer {name} has no exact attention without ALiBi, which task.match: "
                    f"{self.match} needs. Name a teacher with the mechanism sdpa in all layers, or set match: states."
                )
            shapes = [(each.num_heads, each.head_size) for each in (own, other)]
            if shapes[0] != shapes[1]:
                raise RunError(
                    f"task.teacher: its layer {name} has {shapes[1][0]} heads {shapes[1][1]} wide, but that of the "
                    f"model which learns from it {shapes[0][0]} heads {shapes[0][1]} wide. Expected the same for "
                    f"task.match: {self.match}; name another teacher."
                )
        self.requires_grad_(False)
        for mechanism in learners.values():
            mechanism.requires_grad_(True)

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        **kwargs: Any,
    ) -> ImitationOutput:
        """Return the states, and their distance from the teacher's.

        Args:
            input_ids: [B, N].
            attention_mask: [B, N], 1 = real token; None = all real.
            labels: tokens whose states are learnt [B, N], -100 = none; None = no loss, and no teacher is needed.
            kwargs: `scored` and `num_items_in_batch`, see `Labels`; and further arguments of the backbone's forward
                pass.

        Returns:
            `last_hidden_state` [B, N, D] and, with labels, `teacher_state` [B, N, D] and `loss`, see `squared_error`
            and, for weights of attention, `cross_entropy_of_weights`; of several layers, the mean over them. A training
            that matches attention needs no states of its own, so there are none.

        Raises:
            ValueError: there are labels, but no teacher.
        """
        scored, number = (kwargs.pop(name, None) for name in ("scored", "num_items_in_batch"))
        kwargs |= {"output_hidden_states": True} if self.every_layer else {}
        by_attention = self.match != "states"
        if by_attention and self.training:
            outputs = BaseModelOutput()
        else:
            outputs = self.base_model(input_ids, attention_mask, **kwargs)
        loss, taught = None, None
        if labels is not None:
            if by_attention:
                with _recorded(self._teacher[0], _learners(self.base_model)) as attended:
                    taught = self._taught(input_ids, attention_mask)
                errors = list(self._attention_errors(attended, Labels(labels, scored, number)))
            else:
                taught = self._taught(input_ids, attention_mask)
                errors = [
                    squared_error(select(own, labels, scored)[0], select(other, labels, scored)[0], number)
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

    def _attention_errors(self, attended: Mapping[str, Sequence[Attended]], labels: Labels) -> Iterator[Tensor]:
        """Yield the loss of each layer whose mechanism learns."""
        items = (labels.values != -100).sum() if labels.number is None else labels.number
        for name, mechanism in _learners(self.base_model).items():
            for layer in attended[name]:
                if self.match == "outputs":
                    output = mechanism(layer.query, layer.key, layer.value, layer.mask)
                    own, other = (
                        select(rows.transpose(1, 2).flatten(2), labels.values, labels.scored)[0]
                        for rows in (output, layer.output)
                    )
                    yield squared_error(own, other, items)
                else:
                    yield torch.stack(list(_weight_errors(mechanism, layer, labels.values))).sum() / items


def cross_entropy_of_weights(weights: Tensor, targets: Tensor) -> Tensor:
    """Return the cross-entropy of each query's attention weights with the targets, as the mean over heads.

    Args:
        weights: weights of the model [B, H, N, M], in float32 at least; one that is 0 counts as the smallest normal
            number, without a gradient.
        targets: as `weights`; each query's add up to 1.

    Returns:
        [B, N], in nats.

    Source:
        Zhang et al. 2024, "The Hedgehog & the Porcupine": its distillation of attention weights.
    """
    logarithms = weights.clamp(min=torch.finfo(weights.dtype).tiny).log()
    return -(targets * logarithms).sum(-1).mean(1)


def _weight_errors(mechanism: Attention, layer: Attended, labels: Tensor) -> Iterator[Tensor]:
    """Yield the loss of each text, summed over its labelled tokens, from the weights of its real tokens.

    The backward pass computes the weights again, so that only those of one text are in memory, H N^2 numbers.
    """
    for row, wanted in enumerate(labels != -100):
        real = torch.ones_like(wanted) if layer.mask is None else layer.mask[row].bool()
        query, key = (rows[row : row + 1, :, real] for rows in (layer.query, layer.key))
        arguments = (mechanism, query, key, wanted[real])
        yield checkpoint(_weight_error, *arguments, use_reentrant=False, preserve_rng_state=False)


def _weight_error(mechanism: Attention, query: Tensor, key: Tensor, wanted: Tensor) -> Tensor:
    """Return the loss of a text; `query` and `key` [1, H, N, d], tokens that count [N]."""
    precision = torch.promote_types(query.dtype, torch.float32)
    with torch.autocast(query.device.type, enabled=False):
        exact = (query.to(precision) @ key.to(precision).mT * query.shape[-1] ** -0.5).softmax(-1)
    return cross_entropy_of_weights(mechanism.weights(query, key), exact)[0, wanted].sum()


@contextmanager
def _recorded(backbone: PreTrainedModel, names: Iterable[str]) -> Iterator[dict[str, list[Attended]]]:
    """Record inputs and outputs of the named mechanisms in this context; layers that share one call it in turn."""
    attended: dict[str, list[Attended]] = {name: [] for name in names}

    def record(name: str, _: nn.Module, arguments: tuple[Any, ...], output: Tensor) -> None:
        query, key, value, mask = arguments
        attended[name].append(Attended(query, key, value, mask, output))

    with ExitStack() as hooks:
        for name in attended:
            hook = backbone.get_submodule(name).register_forward_hook(partial(record, name))
            hooks.callback(hook.remove)
        yield attended


def _mechanisms(backbone: PreTrainedModel) -> dict[str, Attention]:
    """Return the attention mechanisms of a model, by the name of their module."""
    return {name: module for name, module in backbone.named_modules() if isinstance(module, Attention)}


def _learners(backbone: PreTrainedModel) -> dict[str, Attention]:
    """Return the attention mechanisms of a model that have weights of their own."""
    return {name: each for name, each in _mechanisms(backbone).items() if each.settings.is_learned}


Head = Imitation
