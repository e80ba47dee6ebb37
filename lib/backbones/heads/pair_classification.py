"""Classification of pairs of texts, on any backbone, which reads both separately with the same weights.

Shapes: B batch, N tokens of the first texts, M of the second ones, D hidden size, C classes.
"""

from typing import Any, ClassVar

import torch
from torch import Tensor
from transformers.modeling_outputs import BaseModelOutput

from lib.backbones.configuration import BackboneConfig
from lib.backbones.heads.sequence_classification import SequenceClassification, classification_head


class PairClassification(SequenceClassification):
    """Predict the class of a pair from the vectors a and b of its texts: from a, b, a * b and a - b.

    Source: Tay et al. 2021, "Long Range Arena", section 2.2.3.
    """

    # The class of transformers for the relation of two texts, since one class has one head on a backbone.
    auto_model: ClassVar[str] = "AutoModelForNextSentencePrediction"
    # A graph is prepared for the lengths of one sequence, and a pair has two.
    may_be_captured = False

    def __init__(self, config: BackboneConfig) -> None:
        super().__init__(config)
        self.head = classification_head(config, vectors=4)
        self.post_init()

    def read(  # type: ignore[override]  # a pair has a second text
        self,
        input_ids: Tensor | None,
        attention_mask: Tensor | None,
        *,
        pair_ids: Tensor,
        pair_mask: Tensor | None = None,
        **kwargs: Any,
    ) -> BaseModelOutput:
        """Return the vectors of pairs [B, 4 D], as `last_hidden_state`.

        Args:
            input_ids: first texts [B, N].
            attention_mask: [B, N], 1 = real token; None = all real.
            pair_ids: second texts [B, M].
            pair_mask: [B, M], 1 = real token; None = all real.
            kwargs: further arguments of the backbone's forward pass.
        """
        first, second = (
            self.pool(self.base_model(ids, mask, **kwargs).last_hidden_state, mask)
            for ids, mask in ((input_ids, attention_mask), (pair_ids, pair_mask))
        )
        return BaseModelOutput(last_hidden_state=torch.cat([first, second, first * second, first - second], dim=-1))

    def scores(self, states: Tensor, attention_mask: Tensor | None) -> Tensor:
        """Return class scores [B, C] of the vectors of pairs."""
        return self.head(states)


Head = PairClassification
