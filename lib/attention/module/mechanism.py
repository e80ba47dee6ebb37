"""A torch module in place of attention, exact about padding whatever the module does about it.

Shapes: B batch, H heads, N tokens, d head width, D width of the states.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from lib.attention.contract import Attention
from lib.attention.module.adapter import apart, caller, made, mask_of
from lib.attention.module.settings import Settings
from lib.core.errors import ConfigError
from lib.core.randomness import derive_seed

TOLERANCE = 1e-3
"""Largest difference of outputs, relative to the largest one, if a mask hides padding."""


class Mechanism(Attention):
    """A module of another package, or two of them if one reads from each end.

    Its first weights are those that its constructor draws, with a seed of (seed, layer). Before the first batch, it is
    looked at once: a causal module is refused unless two of them read, and one whose mask lets padding through, too.
    """

    settings: Settings

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.modules_of_directions = nn.ModuleList(self._made())
        # transformers asks for first weights only where a module itself holds a tensor that no file has.
        self.register_buffer("unsaved", torch.empty(0), persistent=False)
        self._calls = [caller(self.settings, module) for module in self.modules_of_directions]
        self._is_looked_at = False

    def described(self) -> str:
        """Return the arguments that the constructor of the module got, and its mask, as a phrase."""
        mask, means = mask_of(self.settings, self.modules_of_directions[0])
        given = ", ".join(f"{name} = {value}" for name, value in self.arguments.items() if name != "config")
        return f"{given or 'no arguments'}; {f'{mask} ({means})' if mask else 'no mask'}"

    def _made(self) -> list[nn.Module]:
        width = self.width or self.num_heads * self.head_size
        if self.settings.takes == "states" and width != self.num_heads * self.head_size:
            raise ConfigError(f"takes: states are {width} wide, heads {self.head_size}. Let heads divide the width.")
        sizes = {"width": width, "heads": self.num_heads, "head_size": self.head_size, "layer": self.layer}
        found = []
        for direction in range(2 if self.settings.two_directions else 1):
            with torch.random.fork_rng(devices=[]), torch.device("cpu"):
                torch.manual_seed(derive_seed("module", self.seed, self.layer, direction))
                module, self.arguments = made(self.settings, **sizes)
            found.append(module)
        return found

    @torch.no_grad()
    def reset_features(self) -> None:
        """Set all weights and buffers as the constructor of the module does, except those that were loaded."""
        for own, new in zip(self.modules_of_directions, self._made(), strict=True):
            drawn = dict([*new.named_parameters(), *new.named_buffers()])
            for name, tensor in [*own.named_parameters(), *own.named_buffers()]:
                if not getattr(tensor, "_is_hf_initialized", False):
                    tensor.copy_(drawn[name])

    def attend(self, query: Tensor, key: Tensor, value: Tensor, real: Tensor | None, *states: Tensor) -> Tensor:
        """See `Attention.attend`; in the type of the module's weights.

        Raises:
            ConfigError: the module is causal, padding reaches real tokens, or it fails.
        """
        weight = next(self.modules_of_directions.parameters(), query)
        rows = tuple(each.to(weight.dtype) for each in (states or (query, key, value)))
        if not self._is_looked_at:
            self._look(rows)
            self._is_looked_at = True
        output = self.read(rows, real)
        return output.unflatten(2, (self.num_heads, -1)).transpose(1, 2) if states else output

    def read(self, rows: Sequence[Tensor], real: Tensor | None, padding: str | None = None) -> Tensor:
        """Return the sum of the outputs of all directions, in the shape of the first of `rows`.

        Args:
            rows: states [B, N, D], or queries, keys and values [B, H, N, d], in the type of the weights.
            real: [B, N], true at real tokens; None = all real.
            padding: as in the settings; None = as they say. A module that takes no mask gets none.
        """
        masked = (padding or self.settings.padding) == "mask"
        if masked and real is not None:
            real = real | ~real.any(-1, keepdim=True)  # a row of padding alone sees it: no softmax over nothing
        found = []
        for direction, call in enumerate(self._calls):
            turned = tuple(each.flip(-2) for each in rows) if direction else rows
            seen = real.flip(1) if direction and real is not None else real
            output = call(turned, seen) if masked else apart(call, turned, seen)
            found.append(output.flip(-2) if direction else output)
        return sum(found[1:], found[0])

    @torch.no_grad()
    def _look(self, rows: tuple[Tensor, ...]) -> None:
        """Refuse a causal module, and one that lets padding through, by a text of 32 tokens and one of 20."""
        name, training = self.settings.class_name, self.training
        with torch.random.fork_rng():
            torch.manual_seed(0)
            drawn = tuple(torch.randn(2, *each.shape[1:-2], 32, each.shape[-1]).to(each) for each in rows)
            self.eval()
            whole = self.read(drawn, None)
            if not self.settings.two_directions and is_causal(lambda given: self.read(given, None), drawn):
                raise ConfigError(f"class: {name} is causal: no token sees a later one. Set two_directions: true.")
            if self.settings.padding == "mask":
                real = torch.arange(32, device=whole.device) < torch.tensor([[32], [20]], device=whole.device)
                masked, exact = (self.read(drawn, real, padding)[..., :20, :] for padding in ("mask", "apart"))
                if (error := ((masked - exact).abs().max() / exact.abs().max()).item()) > TOLERANCE:
                    raise ConfigError(f"padding: mask: {name} lets padding through ({error:.1g}). Set padding: apart.")
            self.train(training)


def is_causal(read: Any, rows: tuple[Tensor, ...]) -> bool:
    """Whether a change of the last token reaches no other, while a change of the first one does."""
    whole = read(rows)
    reached = []
    for place, others in ((-1, slice(None, -1)), (0, slice(1, None))):
        changed = tuple(each.clone() for each in rows)
        for each in changed:
            each[..., place, :] += 1
        reached.append(not torch.equal(read(changed)[..., others, :], whole[..., others, :]))
    return reached == [False, True]
