"""Low-rank adapters in the linear layers of a backbone, by peft: they train, and all other weights are frozen.

During training a model has peft's own layers (`peft.tuners.lora.LoraLayer`, adapter `default`) in place of its linear
ones. The saved model has none: the adapters are added to the weights.

Saving is our own code for two reasons. peft's `merge_and_unload` writes the same bytes, but it takes the adapters out
of the model, and a run that keeps its best and its last model loads the other adapters afterwards. peft's
`save_pretrained` writes a head only from its wrapper `PeftModel`, which copies the head and renames its weights.

Source: Hu et al. 2022, "LoRA: Low-Rank Adaptation of Large Language Models".
"""

import copy
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, inject_adapter_in_model
from peft.tuners.lora import LoraLayer
from peft.utils import SAFETENSORS_WEIGHTS_NAME
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import PreTrainedModel

from lib.backbones.settings import Lora
from lib.core.errors import RunError
from lib.core.randomness import derive_seed
from lib.core.record import ADAPTER

NAME = "default"
"""Name of the adapters in peft."""


class Adapters:
    """The adapters of a model. They are inserted when this object is created, and change no output at first.

    Args:
        model: model with its task's head and initial weights; it stays the same object. Its backbone is frozen, except
            the adapters; the head trains.
        settings: settings of the adapters.
        seed: seed of the run.
        start: source of the initial weights, noted with the adapters; None = they are random.

    Raises:
        RunError: a target is no linear layer of the backbone, or there is none.
    """

    def __init__(self, model: PreTrainedModel, settings: Lora, *, seed: int, start: str | None) -> None:
        self.model = model
        self.settings = settings
        self.seed = seed
        prefix = model.base_model_prefix
        names = targets(model, settings)
        self.config = LoraConfig(
            r=settings.r,
            lora_alpha=settings.alpha,  # type: ignore[arg-type]  # a fraction does as well
            lora_dropout=settings.dropout,
            target_modules=rf"{prefix}\.(.+\.)?({'|'.join(map(re.escape, names))})",
            base_model_name_or_path=start,
        )
        inject_adapter_in_model(self.config, model, NAME)
        for name, parameter in model.named_parameters():
            if not name.startswith(f"{prefix}."):
                parameter.requires_grad_(True)
        for name, layer in self._layers():
            draws = torch.Generator().manual_seed(derive_seed("adapter", seed, name))
            nn.init.kaiming_uniform_(layer.lora_A[NAME].weight, a=math.sqrt(5), generator=draws)  # as peft does

    def save(self, folder: Path) -> None:
        """Save the model with merged adapters, if the settings merge them, and the adapters separately.

        Args:
            folder: of the model; the adapters go to `ADAPTER` inside it, together with the head.
        """
        if self.settings.merge:
            self.model.save_pretrained(folder, state_dict=self._merged())
        else:
            config = copy.deepcopy(self.model.config)
            config.run_seed = self.seed  # draws the weights that the start lacks
            config.save_pretrained(folder)
        self._save_alone(folder / ADAPTER)

    def merge(self) -> None:
        """Add the adapters to the weights, if the settings merge them: the model is then the saved one."""
        if self.settings.merge:
            for _, layer in self._layers():
                layer.merge()

    def _layers(self) -> Iterator[tuple[str, Any]]:
        """Yield peft's layers with their names."""
        for name, module in self.model.named_modules():
            if isinstance(module, LoraLayer):
                yield name, module

    def _merged(self) -> dict[str, Tensor]:
        """Return the weights with the adapters added, by the names that they have without adapters."""
        weights = {
            name.replace(".base_layer.", "."): tensor
            for name, tensor in self.model.state_dict().items()
            if ".lora_" not in name
        }
        for name, layer in self._layers():
            weights[f"{name}.weight"] = (weights[f"{name}.weight"] + layer.get_delta_weight(NAME)).cpu()
        return weights

    def _save_alone(self, folder: Path) -> None:
        """Save adapters and head in peft's own layout, which fits the model that the run started from."""
        own = [name for name, parameter in self.model.named_parameters() if parameter.requires_grad]
        owners = {name.rpartition(".")[0] for name in own if ".lora_" not in name}
        # Peft cannot put back a module inside another one that it puts back, as in an attention module of torch.
        head = sorted(name for name in owners if not any(name.startswith(f"{other}.") for other in owners))
        state = {name: self.model.get_parameter(name).detach() for name in own if ".lora_" in name}
        for owner in head:  # peft asks for all weights of a module, tied ones too
            weights = self.model.get_submodule(owner).state_dict()
            state |= {f"{owner}.{name}": tensor.clone() for name, tensor in weights.items()}
        folder.mkdir()
        named = {f"base_model.model.{name.replace(f'.{NAME}.', '.')}": tensor for name, tensor in state.items()}
        save_file(named, folder / SAFETENSORS_WEIGHTS_NAME, metadata={"format": "pt"})
        config = copy.copy(self.config)
        config.modules_to_save, config.inference_mode = head or None, True
        config.save_pretrained(str(folder))


def targets(model: PreTrainedModel, settings: Lora) -> list[str]:
    """Return the last parts of the names of the linear layers that get adapters.

    Raises:
        RunError: a target is no linear layer of the backbone, or there is none.
    """
    named = model.base_model.named_modules()
    layers = sorted({name.rpartition(".")[2] for name, module in named if isinstance(module, nn.Linear)})
    if problem := settings.error(layers):
        raise RunError(f"recipe.lora: {type(model.base_model).__name__} {problem}.")
    return settings.targets or layers
