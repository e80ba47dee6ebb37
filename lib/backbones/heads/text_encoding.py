"""One vector for a whole document, on any backbone.

Shapes: B batch, N tokens, D hidden size.
"""

from typing import Any, ClassVar

from torch import Tensor
from torch.nn import functional
from transformers.modeling_outputs import BaseModelOutputWithPooling
from transformers.utils.generic import can_return_tuple

from lib.backbones.configuration import BackboneConfig
from lib.backbones.heads.model import TaskModel, pooling


class TextEncoding(TaskModel):
    """Map documents to vectors of length 1, whose products are cosines. The head has no weights.

    Raises:
        ConfigError: the pooling is not available.
    """

    auto_model: ClassVar[str] = "AutoModelForTextEncoding"

    def __init__(self, config: BackboneConfig) -> None:
        super().__init__(config)
        self.pool = pooling(config.classifier_pooling, config.pooling_step)
        self.post_init()

    @can_return_tuple
    def forward(
        self, input_ids: Tensor | None = None, attention_mask: Tensor | None = None, **kwargs: Any
    ) -> BaseModelOutputWithPooling:
        """Return the states of the tokens, and `pooler_output`, the vectors of the documents [B, D].

        Args:
            input_ids: [B, N].
            attention_mask: [B, N], 1 = real token; None = all real.
            kwargs: further arguments of the backbone's forward pass.
        """
        outputs = self.base_model(input_ids, attention_mask, **kwargs)
        states = outputs.last_hidden_state
        return BaseModelOutputWithPooling(
            last_hidden_state=states,
            pooler_output=functional.normalize(self.pool(states, attention_mask), dim=-1),
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
        )


Head = TextEncoding
