"""The base of all models with a head."""

from functools import cache
from typing import ClassVar, Self

from transformers import PreTrainedModel

from lib.backbones.configuration import BackboneConfig


class TaskModel(PreTrainedModel):
    """Base of the models with a head.

    A head is a class derived from this one; `on` puts it on a backbone. Its forward pass takes `input_ids`,
    `attention_mask` and other inputs of the task, and calls `base_model`, which returns `last_hidden_state`,
    `hidden_states` and `attentions`.
    """

    auto_model: ClassVar[str]
    """The class of transformers that makes a model with this head from a configuration."""
    may_be_captured: ClassVar[bool] = False
    """Whether a CUDA graph can repeat its training steps: it asks the GPU for nothing."""
    backbone_class: ClassVar[type[PreTrainedModel]]
    """The model without a head; its instance stands under the name `base_model_prefix`."""
    # The losses are sums divided by num_items_in_batch, so transformers' own Trainer must not divide them again.
    accepts_loss_kwargs = True

    def __init__(self, config: BackboneConfig) -> None:
        super().__init__(config)
        setattr(self, self.base_model_prefix, self.backbone_class(config))

    @classmethod
    @cache
    def on(cls, backbone: type[PreTrainedModel]) -> type[Self]:
        """Return the class of models with this head on a backbone: `MaskedLM.on(EncoderModel)` is `EncoderForMaskedLM`.

        Args:
            backbone: the model without a head, derived from the base of all models of that backbone.
        """
        base: type[PreTrainedModel] = backbone.__bases__[0]  # type: ignore[assignment]  # as the argument says
        name = f"{base.base_model_prefix.capitalize()}For{cls.__name__}"
        members = {"backbone_class": backbone, "__doc__": cls.__doc__, "__module__": cls.__module__}
        return type(name, (cls, base), members)
