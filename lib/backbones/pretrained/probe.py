"""Whether a model's attention really sees what its configuration says: no more, and no less.

A release of transformers can change what a switch does, and a model that stays causal still trains. So every layer of
every model is looked at by itself: what enters its attention is changed at one position, and what leaves it is compared
at another.

Shapes: R rows, N tokens, D hidden size.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel

from lib.backbones.pretrained.families import FAMILIES, Direction
from lib.core.errors import ConfigError

LONGEST = 4096
"""Tokens of a probe at most; windows beyond that are not reached."""


def probe(model: PreTrainedModel, attention: Direction) -> None:
    """Check each layer of a model at distances below, at and beyond its window, with and without padding.

    Args:
        model: base model of transformers; its blocks are `layers`, each with `self_attn`. Its weights stay as they are.
        attention: what it is meant to be.

    Raises:
        ConfigError: a layer is not; it is named, with the distance at which it failed.
    """
    reaches = [_reach(model.config, number, attention) for number in range(len(_blocks(model)))]
    windows = {reach for reach in reaches if reach is not None}
    distances = sorted({1, 2, *(each for reach in windows for each in (reach - 1, reach, reach + 1) if each > 0)})
    distances = [distance for distance in distances if distance < LONGEST // 2]
    length = 2 * max(distances) + 1
    middle = length // 2
    was_training = model.training
    model.eval()
    try:
        for masked in (False, True):
            _look(model, attention, reaches, distances, length, middle, masked=masked)
        for left in (False, True):
            _look_at_padding(model, length, left=left)
    finally:
        model.train(was_training)


def _blocks(model: PreTrainedModel) -> list[nn.Module]:
    return list(model.get_submodule("layers").children())


def _reach(config: PretrainedConfig, layer: int, attention: Direction) -> int | None:
    """Return at which distance a layer sees nothing any more; None = it sees everything."""
    kinds = getattr(config, "layer_types", None)
    window = getattr(config, "sliding_window", None)
    if window is None or (kinds is not None and kinds[layer] != "sliding_attention"):
        return None
    opened = attention == "bidirectional" and FAMILIES[config.model_type].includes_width
    return int(window) + opened


def _look(
    model: PreTrainedModel,
    attention: Direction,
    reaches: list[int | None],
    distances: list[int],
    length: int,
    middle: int,
    *,
    masked: bool,
) -> None:
    """Compare what each layer sees of a token with what it should see."""
    places = [middle + sign * distance for distance in distances for sign in (1, -1)]
    mask = torch.ones(len(places) + 1, length, dtype=torch.long) if masked else None
    for layer, changed in _changes(model, places, length, mask):
        for place, seen in zip(places, changed[:, middle].tolist(), strict=True):
            distance, reach = abs(place - middle), reaches[layer]
            expected = (attention == "bidirectional" or place < middle) and (reach is None or distance < reach)
            if seen != expected:
                raise ConfigError(
                    f"layers.{layer} of {type(model).__name__}: a token {'sees' if seen else 'does not see'} the one "
                    f"{distance} {'after' if place > middle else 'before'} it, but its attention should be {attention}"
                    f"{'' if reach is None else f' within {reach - 1} tokens'} (attention mask: "
                    f"{'all real' if masked else 'none'}). This release of transformers switches "
                    f"{model.config.model_type} in another way; see lib/backbones/pretrained/families.py."
                )


def _look_at_padding(model: PreTrainedModel, length: int, *, left: bool) -> None:
    """Check that no layer sees padding."""
    padding = list(range(length // 3)) if left else list(range(length - length // 3, length))
    mask = torch.ones(len(padding) + 1, length, dtype=torch.long)
    mask[:, padding] = 0
    for layer, changed in _changes(model, padding, length, mask):
        if changed[:, mask[0].bool()].any():
            raise ConfigError(
                f"layers.{layer} of {type(model).__name__}: real tokens see padding on the "
                f"{'left' if left else 'right'} by {model.config._attn_implementation} attention. Use another."
            )


def _changes(
    model: PreTrainedModel, places: list[int], length: int, mask: Tensor | None
) -> Iterator[tuple[int, Tensor]]:
    """Yield for each layer where its attention's output changes if its input changes at one of `places` [R, N]."""
    rows = len(places) + 1
    weight = next(model.parameters())
    ids = torch.arange(length, device=weight.device).remainder(model.config.vocab_size).expand(rows, length)
    noise = torch.randn(model.config.hidden_size, generator=torch.Generator().manual_seed(0))
    found: list[Tensor] = []

    def before(module: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        # All rows are the first one again, each with one state exchanged.
        states = named["hidden_states"] if "hidden_states" in named else arguments[0]
        states = states[:1].repeat(rows, 1, 1)
        size = states[0].float().norm(dim=-1).mean() / noise.norm()
        states[torch.arange(1, rows), places] = (noise.to(states.device) * size).to(states.dtype)
        if "hidden_states" in named:
            return arguments, named | {"hidden_states": states}
        return (states, *arguments[1:]), named

    def after(module: nn.Module, arguments: Any, output: Any) -> None:
        states = output[0] if isinstance(output, tuple) else output
        found.append((states[1:] != states[:1]).any(dim=-1).cpu())

    with ExitStack() as hooks, torch.no_grad():
        for block in _blocks(model):
            hooks.callback(block.get_submodule("self_attn").register_forward_pre_hook(before, with_kwargs=True).remove)
            hooks.callback(block.get_submodule("self_attn").register_forward_hook(after).remove)
        positions = None if mask is None else (mask.cumsum(dim=1) - 1).clamp(min=0).to(weight.device)
        model(
            input_ids=ids,
            attention_mask=None if mask is None else mask.to(weight.device),
            position_ids=positions,
            use_cache=False,
        )
    yield from enumerate(found)
