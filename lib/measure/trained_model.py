"""A model with its optimiser, whose training steps are measured."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from lib.attention.contract import set_kernels
from lib.attention.settings import Kernels


class TrainedModel:
    """A model in training on a device, and AdamW over those of its weights that train.

    Args:
        model: to train.
        device: `cpu` or `cuda`.
        dtype: of the forward pass, such as `float32`.
        kernels: what our attention computes with.
        fused: whether AdamW is a single kernel; None = torch chooses.
    """

    def __init__(
        self, model: nn.Module, device: str, dtype: str, kernels: Kernels = "torch", *, fused: bool | None = None
    ) -> None:
        self.model = model.to(device).train()
        set_kernels(self.model, kernels)
        self.device, self.dtype = torch.device(device), getattr(torch, dtype)
        trained = [weight for weight in self.model.parameters() if weight.requires_grad]
        self.weights = sum(weight.numel() for weight in trained)
        self.optimiser = torch.optim.AdamW(trained, lr=1e-5, fused=fused)

    def loss(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Return the loss of a batch."""
        with torch.autocast(self.device.type, self.dtype, enabled=self.dtype != torch.float32):
            return self.model(**batch).loss

    def update(self) -> None:
        """Do the optimiser's step."""
        self.optimiser.step()
        self.optimiser.zero_grad()
