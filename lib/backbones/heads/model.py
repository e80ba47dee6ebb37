"""What every model with a head has in common, whatever its backbone and task."""

from typing import ClassVar

from transformers import PreTrainedModel

from lib.backbones.configuration import BackboneConfig


class TaskModel(PreTrainedModel):
    """Base of the models with a head; the base of the backbone's own models comes after it.

    A class made of both names `backbone_class`, whose instance stands under the name `base_model_prefix`. Its forward
    pass takes `input_ids`, `attention_mask` and what else the task hands on, and returns `last_hidden_state`,
    `hidden_states` and `attentions`.
    """

    backbone_class: ClassVar[type[PreTrainedModel]]
    # The losses are sums divided by num_items_in_batch, so transformers' own Trainer must not divide them again.
    accepts_loss_kwargs = True

    def __init__(self, config: BackboneConfig) -> None:
        super().__init__(config)
        setattr(self, self.base_model_prefix, self.backbone_class(config))
