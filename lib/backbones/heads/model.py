"""The base of all models with a head, the losses of tasks, and the pooling of states.

No loss depends on how a batch is split. Pooling ignores padding. Shapes: B batch, N tokens, D hidden size, L labelled
tokens, C classes.
"""

import functools
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Self

import torch
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedModel
from transformers.utils.generic import ModelOutput, can_return_tuple

from lib.backbones.configuration import BackboneConfig
from lib.core.errors import ConfigError


def cross_entropy(logits: Tensor, labels: Tensor, num_items_in_batch: Tensor | int | None = None) -> Tensor:
    """Return the sum of the items' cross-entropies, divided by the number of items of the whole batch.

    So the gradients of the parts of an accumulated batch add up to those of the batch in one piece.

    Args:
        logits: [L, C].
        labels: class of each item [L]; -100 = not an item.
        num_items_in_batch: items over all parts of the batch; None = those at hand.

    Returns:
        Scalar in float32; a zero with a gradient path if there is no item.
    """
    if num_items_in_batch is None:
        num_items_in_batch = (labels != -100).sum()
    total = functional.cross_entropy(logits.float(), labels, reduction="sum")
    if isinstance(num_items_in_batch, Tensor):
        return total / num_items_in_batch.to(logits.device).clamp(min=1)
    return total / max(num_items_in_batch, 1)


class Labels(NamedTuple):
    """The labels of a batch, as a model with a head is given them."""

    values: Tensor
    """Labels of documents [B] or of tokens [B, N]; -100 = none."""
    scored: Tensor | None = None
    """Places of labels of tokens in the batch laid flat [L], see `lib.tokens.batches.known_beforehand`."""
    number: Tensor | int | None = None
    """Labels over all parts of an accumulated batch, or the sum of their weights; None = those at hand."""
    weights: Tensor | None = None
    """Weights of the labels of documents in the loss [B], or of classes where documents have several [C]; None = all
    weigh alike."""


def select(rows: Tensor, labels: Tensor, scored: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the rows of tokens that have a label [L, D], and their labels [L].

    Args:
        rows: [B, N, D].
        labels: [B, N]; -100 = none.
        scored: places of labels in the batch laid flat [L]; None = they are looked for, and a GPU is waited for.
    """
    labels = labels.flatten()
    if scored is None:
        scored = (labels != -100).nonzero().squeeze(1)
    return rows.flatten(0, 1).index_select(0, scored), labels.index_select(0, scored)


def squared_error(states: Tensor, targets: Tensor, num_items_in_batch: Tensor | int | None = None) -> Tensor:
    """Return the mean squared difference of items, such as the states of tokens; each item counts as its mean.

    Args:
        states: [L, D].
        targets: [L, D].
        num_items_in_batch: items over all parts of the batch; None = those at hand.

    Returns:
        Scalar in float32.
    """
    total = (states.float() - targets.float()).square().mean(dim=-1).sum()
    return total / (len(states) if num_items_in_batch is None else num_items_in_batch)


def pool_cls(states: Tensor, mask: Tensor) -> Tensor:
    """Return the state of the first real token (equation 2.9 of the study).

    Args:
        states: [B, N, D].
        mask: [B, N], true = real token.

    Returns:
        [B, D].
    """
    first = mask.int().argmax(dim=1)
    return states[torch.arange(len(states), device=states.device), first]


def pool_mean(states: Tensor, mask: Tensor) -> Tensor:
    """Return the mean over real tokens (equation 2.10); arguments and result as in `pool_cls`."""
    total = states.masked_fill(~mask[:, :, None], 0).sum(dim=1)
    return total / mask.sum(dim=1, keepdim=True).clamp(min=1)


def pool_max(states: Tensor, mask: Tensor) -> Tensor:
    """Return the maximum of each dimension over real tokens (equation 2.11); as in `pool_cls`."""
    return states.masked_fill(~mask[:, :, None], torch.finfo(states.dtype).min).amax(dim=1)


def pool_min(states: Tensor, mask: Tensor) -> Tensor:
    """Return the minimum of each dimension over real tokens (equation 2.11); as in `pool_cls`."""
    return -pool_max(-states, mask)


def pool_mean_step(states: Tensor, mask: Tensor, step: int) -> Tensor:
    """Return the mean over every `step`-th real token, from the first on (equation 2.12); as in `pool_cls`."""
    rank = mask.cumsum(dim=1) - 1
    return pool_mean(states, mask & (rank % step == 0))


def pooling(name: str, step: int) -> Callable[[Tensor, Tensor | None], Tensor]:
    """Return the pooling function called `name`.

    Args:
        name: `cls`, `mean`, `max`, `min` or `mean_step`.
        step: stride of `mean_step`, in tokens.

    Returns:
        Function of states [B, N, D] and mask [B, N] (1 = real token; None = all real) to [B, D].

    Raises:
        ConfigError: the pooling is unknown, or the step is below 1.
    """
    functions: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
        "cls": pool_cls,
        "mean": pool_mean,
        "max": pool_max,
        "min": pool_min,
        "mean_step": functools.partial(pool_mean_step, step=step),
    }
    if name not in functions:
        raise ConfigError(f"classifier_pooling = '{name}' is unknown. Use one of: {', '.join(functions)}.")
    if step < 1:
        raise ConfigError(f"pooling_step = {step}; expected at least 1 token.")

    def pool(states: Tensor, mask: Tensor | None) -> Tensor:
        if mask is None:
            mask = torch.ones(states.shape[:2], dtype=torch.bool, device=states.device)
        return functions[name](states, mask.bool())

    return pool


class TaskModel(PreTrainedModel):
    """Base of the models with a head.

    A head is a class derived from this one; `on` puts it on a backbone. It defines `scores` and `loss`, or a forward
    pass of its own.
    """

    auto_model: ClassVar[str]
    """The class of transformers that makes a model with this head from a configuration."""
    output: ClassVar[type[ModelOutput]]
    """What the forward pass returns: `loss`, `logits`, `hidden_states` and `attentions`."""
    labels_tokens: ClassVar[bool] = False
    """Whether labels are of tokens [B, N], so that it takes their places (`scored`)."""
    may_be_captured: ClassVar[bool] = False
    """Whether a CUDA graph can repeat its training steps: it asks the GPU for nothing."""
    backbone_class: ClassVar[type[PreTrainedModel]]
    """The model without a head; its instance stands under the name `base_model_prefix`."""
    # The losses are sums divided by num_items_in_batch, so transformers' own Trainer must not divide them again.
    accepts_loss_kwargs = True

    def __init__(self, config: BackboneConfig) -> None:
        super().__init__(config)
        setattr(self, self.base_model_prefix, self.backbone_class(config))

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        *,
        labels: Tensor | None = None,
        scored: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
        label_weights: Tensor | None = None,
        **kwargs: Any,
    ) -> ModelOutput:
        """Return scores, and the loss if there are labels.

        Args:
            input_ids: [B, N].
            attention_mask: [B, N], 1 = real token; None = all real.
            labels: see `Labels.values`.
            scored: see `Labels.scored`.
            num_items_in_batch: see `Labels.number`.
            label_weights: see `Labels.weights`.
            kwargs: further arguments of `read`.
        """
        outputs = self.read(input_ids, attention_mask, **kwargs)
        known = None if labels is None else Labels(labels, scored, num_items_in_batch, label_weights)
        logits, loss = self.predict(outputs.last_hidden_state, attention_mask, known)
        return self.output(loss=loss, logits=logits, hidden_states=outputs.hidden_states, attentions=outputs.attentions)

    def read(self, input_ids: Tensor | None, attention_mask: Tensor | None, **kwargs: Any) -> ModelOutput:
        """Return the outputs of the backbone; `kwargs` are further arguments of its forward pass."""
        return self.base_model(input_ids, attention_mask, **kwargs)

    def predict(
        self, states: Tensor, attention_mask: Tensor | None, labels: Labels | None
    ) -> tuple[Tensor | None, Tensor | None]:
        """Return the scores, and the loss if there are labels.

        Args:
            states: [B, N, D].
            attention_mask: [B, N], 1 = real token; None = all real.
            labels: None = there are none.
        """
        scores = self.scores(states, attention_mask)
        return scores, None if labels is None else self.loss(scores, labels)

    def scores(self, states: Tensor, attention_mask: Tensor | None) -> Tensor:
        """Return the scores of states; arguments as of `predict`."""
        raise NotImplementedError

    def loss(self, scores: Tensor, labels: Labels) -> Tensor:
        """Return the loss of scores: the mean cross-entropy of documents over their weights; a scalar."""
        if labels.weights is None:
            return cross_entropy(scores, labels.values, labels.number)
        total = (functional.cross_entropy(scores.float(), labels.values, reduction="none") * labels.weights).sum()
        return total / (labels.weights.sum() if labels.number is None else labels.number)

    @classmethod
    @functools.cache
    def on(cls, backbone: type[PreTrainedModel]) -> type[Self]:
        """Return the class of models with this head on a backbone: `MaskedLM.on(EncoderModel)` is `EncoderForMaskedLM`.

        Args:
            backbone: the model without a head, derived from the base of all models of that backbone.
        """
        base: type[PreTrainedModel] = backbone.__bases__[-1]  # type: ignore[assignment]  # as the argument says
        members = {"backbone_class": backbone, "__doc__": cls.__doc__, "__module__": cls.__module__}
        return type(f"{base.base_model_prefix.capitalize()}For{cls.__name__}", (cls, base), members)
