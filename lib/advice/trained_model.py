"""A model in training, as programs that measure its steps have it."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from transformers import BertPreTrainedModel

from lib.attention.kernels import set_kernels
from lib.attention.settings import Kernels
from lib.backbones.faster import Graphs, compile_blocks


class TrainedModel:
    """A model in training on a device, and AdamW over those of its weights that train.

    Args:
        model: to train.
        device: `cpu` or `cuda`.
        dtype: of the forward pass, such as `float32`.
        kernels: what our attention computes with.
        fused: whether AdamW is a single kernel; None = torch chooses.
        compiled: whether torch compiles the blocks.
    """

    def __init__(
        self,
        model: nn.Module,
        device: str,
        dtype: str,
        kernels: Kernels = "torch",
        *,
        fused: bool | None = None,
        compiled: bool = False,
    ) -> None:
        self.model = model.to(device).train()
        set_kernels(self.model, kernels)
        self.graphs = None
        if compiled:
            compile_blocks(self.model)
            if device == "cuda" and not isinstance(model, BertPreTrainedModel):
                self.graphs = Graphs(model, self._add_gradients)  # as the Trainer has them
        self.device, self.dtype = torch.device(device), getattr(torch, dtype)
        trained = [weight for weight in self.model.parameters() if weight.requires_grad]
        self.weights = sum(weight.numel() for weight in trained)
        self.optimiser = torch.optim.AdamW(trained, lr=1e-5, fused=fused)

    def loss(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Return the loss of a batch."""
        with torch.autocast(self.device.type, self.dtype, enabled=self.dtype != torch.float32):
            return self.model(**batch).loss

    def gradients(self, batch: dict[str, Tensor]) -> None:
        """Add the gradients of a batch."""
        (self.graphs or self._add_gradients)(batch)

    def update(self) -> None:
        """Do the optimiser's step."""
        self.optimiser.step()
        self.drop_gradients()

    def drop_gradients(self) -> None:
        """Let the next gradients be the first."""
        self.optimiser.zero_grad(set_to_none=self.graphs is None)

    def _add_gradients(self, batch: dict[str, Tensor]) -> Tensor:
        loss = self.loss(batch)
        loss.backward()
        return loss.detach()
