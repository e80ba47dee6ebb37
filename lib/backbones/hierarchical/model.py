"""The encoder that reads documents in segments, and the base of its models.

Shapes: B documents, N tokens, S segments of the document that has most, G segments at once, D hidden size.
"""

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput

from lib.backbones.architecture import ArchitecturePreTrainedModel
from lib.backbones.heads.text_encoding import TextEncoding
from lib.backbones.hierarchical.configuration import HierarchicalConfig
from lib.backbones.hierarchical.segments import Documents, segments_of
from lib.backbones.reading import ReadsTokens
from lib.backbones.settings import BACKBONES


class HierarchicalPreTrainedModel(ArchitecturePreTrainedModel):
    """Base of the models that read documents in segments: configuration, initial weights, saving and loading."""

    config_class = HierarchicalConfig
    base_model_prefix = "hierarchical"
    holds = "encoder"


class HierarchicalModel(ReadsTokens, HierarchicalPreTrainedModel):
    """Map documents to the vectors of their segments, each read by itself.

    Attributes:
        encoder: the encoder of the segments, as it stands by itself, with a pooling.
    """

    def __init__(self, config: HierarchicalConfig) -> None:
        super().__init__(config)
        of_tokens = BACKBONES.load(config.parameters.encoder.kind, "model").Model
        self.encoder = TextEncoding.on(of_tokens)(config.inner())
        self.post_init()

    @property
    def embeddings(self) -> nn.Module:
        """The embeddings of the encoder."""
        return self.encoder.base_model.embeddings

    @property
    def layers(self) -> nn.ModuleList:
        """The blocks of the encoder."""
        return self.encoder.base_model.layers

    def read(self, tokens: Tensor, attention_mask: Tensor | None) -> BaseModelOutput:
        """Return the vectors of the segments.

        Segments are read in groups. If a training reads several, it keeps of each nothing but the vectors, and reads it
        again when its gradients are due, with the same draws of dropout; so the activations of one group live at a
        time. Padding is ignored at any position in a row.

        Args:
            tokens: documents as the tokeniser encloses them, numbers [B, N], or word embeddings [B, N, D].
            attention_mask: [B, N], 1 = real token; None = all real.

        Returns:
            `last_hidden_state` [B, S, D]; zeros where a document has fewer segments (see `segment_counts`).

        Source:
            Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost", for the second reading.
        """
        documents = Documents(self.config, tokens, attention_mask)
        segments, size = segments_of(self.config, documents.real), self.config.group
        groups = [segments[first : first + size] for first in range(0, len(segments), size)]
        again = self.training and torch.is_grad_enabled() and len(groups) > 1
        vectors_of = self._vectors_read_again if again else self._vectors
        vectors = torch.cat([vectors_of(*documents.read(group)) for group in groups])
        rows, numbers = (
            torch.tensor([getattr(segment, name) for segment in segments], device=vectors.device)
            for name in ("document", "number")
        )
        states = vectors.new_zeros(len(tokens), 1 + max(segment.number for segment in segments), vectors.shape[1])
        return BaseModelOutput(last_hidden_state=states.index_put((rows, numbers), vectors))

    def _vectors(self, values: Tensor, mask: Tensor | None) -> Tensor:
        """Return the vectors of some segments [G, D]; arguments as `Documents.read` returns them."""
        given = {"input_ids" if values.dim() == 2 else "inputs_embeds": values}
        states = self.encoder.base_model(attention_mask=mask, **given).last_hidden_state
        return self.encoder.pool(states, mask)

    def _vectors_read_again(self, values: Tensor, mask: Tensor | None) -> Tensor:
        """Return the result of `_vectors`, which the backward pass computes again.

        A reentrant checkpoint builds no graph in the forward pass. Its small nodes would be allocated between the
        activations that are freed, so that glibc could not reuse their memory for the next group.
        """
        anchor = torch.zeros((), device=values.device, requires_grad=True)  # torch needs an input with a gradient
        return checkpoint(lambda *read: self._vectors(*read[:2]), values, mask, anchor, use_reentrant=True)


def weight_parts(backbone: PreTrainedModel) -> dict[str, list[nn.Module]]:
    """Return the modules of each part of the weights: those of the encoder of the segments."""
    kind = backbone.config.parameters.encoder.kind
    return BACKBONES.load(kind, "model").weight_parts(backbone.encoder.base_model)


Model = HierarchicalModel
