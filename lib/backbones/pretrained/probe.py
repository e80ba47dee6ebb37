"""Check that a model's attention sees exactly the tokens that its configuration says.

A release of transformers can change the effect of a switch, and a model that stays causal still trains. So every layer
of every model is looked at by itself: what enters its attention is exchanged at one position, and wherever what leaves
it changes, that position was seen.

Shapes: N tokens, D hidden size.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PretrainedConfig, PreTrainedModel

from lib.backbones.pretrained.alone import settle
from lib.backbones.pretrained.families import FAMILIES, Direction
from lib.core.errors import ConfigError

BEYOND = 3
"""Tokens of a probe beyond the widest window, on either side."""
QUIET = 0.01
"""Size of all states except the exchanged ones. Small queries give all keys similar weights, so that none vanishes."""


def probe(model: PreTrainedModel, attention: Direction) -> None:
    """Check each layer of a model at every distance up to its window and beyond, with and without padding.

    A family whose documents are read alone never meets padding; it is looked at without any. BigBird is looked at by a
    text that is so short that it attends to all of it: its blocks of longer texts are not checked here. Longformer is
    looked at without a global token.

    Args:
        model: base model of transformers, of a known family. It stays as it is.
        attention: the expected attention.

    Raises:
        ConfigError: a layer differs; the message names it and the distance.
    """
    reaches = [_reach(model.config, layer, attention) for layer in range(model.config.num_hidden_layers)]
    length = 2 * (max(reach or 0 for reach in reaches) + BEYOND) + 1
    alone = FAMILIES[model.config.model_type].read_alone
    was_training = model.training
    model.eval()
    settle(model, length)
    try:
        for mask in (None,) if alone else (None, torch.ones(1, length, dtype=torch.long)):
            for layer, seen in enumerate(_seen(model, [length // 2], length, mask)):
                _compare(model, attention, layer, reaches[layer], seen)
        if alone:
            return
        for side, padding in (("left", range(BEYOND)), ("right", range(length - BEYOND, length))):
            mask = torch.ones(1, length, dtype=torch.long)
            mask[:, list(padding)] = 0
            for layer, seen in enumerate(_seen(model, padding, length, mask)):
                if seen[mask[0].bool()].any():
                    problem = f"real tokens see padding on the {side}. Use another attn_implementation"
                    raise ConfigError(f"layers.{layer} of {type(model).__name__}: {problem}.")
    finally:
        model.train(was_training)


def _reach(config: PretrainedConfig, layer: int, attention: Direction) -> int | None:
    """Return the first distance that a layer does not see; None = it sees everything."""
    if (windows := getattr(config, "attention_window", None)) is not None:  # of Longformer, both sides together
        return windows[layer] // 2 + 1
    kinds = getattr(config, "layer_types", None)
    window = getattr(config, "sliding_window", None)
    if window is None or (kinds is not None and kinds[layer] != "sliding_attention"):
        return None
    opened = attention == "bidirectional" and FAMILIES[config.model_type].includes_width
    return int(window) + opened


def _compare(model: PreTrainedModel, attention: Direction, layer: int, reach: int | None, seen: Tensor) -> None:
    """Raise an error unless exactly the expected tokens see the one in the middle [N]."""
    ahead = len(seen) // 2 - torch.arange(len(seen))  # how far before the middle a token stands
    expected = (ahead <= 0) | torch.tensor(attention == "bidirectional")
    if reach is not None:
        expected &= ahead.abs() < reach
    wrong = (seen != expected).nonzero().flatten().tolist()
    if not wrong:
        return
    place = min(wrong, key=lambda place: abs(int(ahead[place])))
    distance = int(ahead[place])
    sees, side = "sees" if seen[place] else "does not see", "after" if distance > 0 else "before"
    wanted = f"{attention}{'' if reach is None else f' within {reach - 1} tokens'}"
    problem = f"a token {sees} the one {abs(distance)} {side} it, but its attention should be {wanted}"
    raise ConfigError(f"layers.{layer} of {type(model).__name__}: {problem}. See lib/backbones/pretrained/families.py.")


def _seen(model: PreTrainedModel, places: Sequence[int], length: int, mask: Tensor | None) -> list[Tensor]:
    """Return for each layer which tokens see the `places` [N].

    The two texts are read one after the other. As rows of one batch, equal tokens could differ by rounding.
    """
    one, other = torch.randn(2, model.config.hidden_size, generator=torch.Generator().manual_seed(0))
    states = torch.stack([one * QUIET] * length)
    exchanged = states.clone()
    exchanged[list(places)] = other
    pairs = zip(_attended(model, states, mask), _attended(model, exchanged, mask), strict=True)
    return [(before != after).any(dim=-1) for before, after in pairs]


def _attended(model: PreTrainedModel, states: Tensor, mask: Tensor | None) -> list[Tensor]:
    """Return the output [N, D] of the attention of each layer when its input is `states` [N, D]."""
    words, length, family = model.get_input_embeddings().weight, len(states), FAMILIES[model.config.model_type]
    found: list[Tensor] = []

    def before(module: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        given = named["hidden_states"] if "hidden_states" in named else arguments[0]
        exchanged = functional.pad(states.to(given.device, given.dtype), (0, 0, 0, given.shape[1] - length))[None]
        if "hidden_states" in named:
            return arguments, named | {"hidden_states": exchanged}
        return (exchanged, *arguments[1:]), named

    def after(module: nn.Module, arguments: Any, output: Any) -> None:
        left = output[0] if isinstance(output, tuple) else output
        found.append(left[0, :length].cpu())

    with ExitStack() as hooks, torch.no_grad():
        for block in model.get_submodule(family.blocks).children():
            attends = block.get_submodule(family.attends)
            hooks.callback(attends.register_forward_pre_hook(before, with_kwargs=True).remove)
            hooks.callback(attends.register_forward_hook(after).remove)
        entering = words.new_zeros(1, length, words.shape[1])
        row = None if mask is None else mask.to(words.device)
        positions = None if row is None else (row.cumsum(dim=1) - 1).clamp(min=0)
        model(inputs_embeds=entering, attention_mask=row, position_ids=positions, use_cache=False)
    if len(found) != (layers := model.config.num_hidden_layers):
        problem = f"{len(found)} of {layers} layers attend by their part '{family.attends}'"
        raise ConfigError(f"{type(model).__name__}: {problem}. Correct lib/backbones/pretrained/families.py.")
    return found
