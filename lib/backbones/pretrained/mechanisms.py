"""Replace an architecture's own attention by an attention mechanism.

Every module that attends holds its mechanism as a submodule, so that draws are saved with the weights, and reaches it
by the attention interface of transformers; see `lib.attention.interface`.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from lib.attention.contract import Attention, build, mechanisms
from lib.backbones.pretrained.configuration import PretrainedBackboneConfig
from lib.core.errors import ConfigError


class NoKeys(nn.Module):
    """Replace the projection of keys, for mechanisms that do not use them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def forward(self, states: Tensor) -> Tensor:
        """Return zeros [B, N, width] for `states` [B, N, D], which take no memory."""
        return states.new_zeros(1).expand(*states.shape[:-1], self.width)


def hold_mechanisms(inner: PreTrainedModel, config: PretrainedBackboneConfig) -> None:
    """Set the mechanism of every layer of `inner`, except layers with a window, which stay exact.

    Several mechanisms repeat over the layers that hold one.

    Raises:
        ConfigError: there are more mechanisms than such layers.
    """
    family, parameters = config.family, config.parameters
    held, layers = parameters.held_mechanisms, 0
    heads, width, dropout = config.num_attention_heads, config.head_size, parameters.dropout_of_weights()
    for layer, block in enumerate(inner.get_submodule(family.blocks).children()):
        attends = block.get_submodule(family.attends)
        if getattr(attends, "sliding_window", None) is not None:
            continue
        mechanism = held[layers % len(held)]
        layers += 1
        shape = {"num_heads": heads, "head_size": width, "width": config.hidden_size}
        attends.mechanism = build(mechanism, layer=layer, seed=config.feature_seed, dropout=dropout, **shape)
        if mechanism.reads() != "heads":
            attends.register_forward_pre_hook(_keep_states, with_kwargs=True)
        if mechanism.shares_query_and_key:
            assert family.keys is not None  # the parameters were checked
            setattr(attends, family.keys, NoKeys(heads * width))
    if len(held) > layers:
        names = ", ".join(mechanism.name() for mechanism in held)
        raise ConfigError(f"mechanism = [{names}]: more entries than the {layers} layers without a window. Shorten it.")


def _keep_states(attends: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
    """Keep the input of a layer [B, N, D] for its mechanism, as an attention function does not get it."""
    attends.states = arguments[0] if arguments else named["hidden_states"]


def with_shared_projections(
    weights: Mapping[str, Tensor], inner: PreTrainedModel, config: PretrainedBackboneConfig
) -> dict[str, Tensor]:
    """Return weights with one projection, by `shared_projection`, where layers share that of queries and keys.

    Args:
        weights: weights of the published base model, by name.
        inner: the model whose mechanisms were set.
        config: its config.

    Returns:
        All weights by name. In the layers whose mechanism shares queries and keys, the projection of queries is the
        shared one, and there is none of keys.
    """
    family, found = config.family, dict(weights)
    for layer, block in enumerate(inner.get_submodule(family.blocks).children()):
        if not shares_query_and_key(block.get_submodule(family.attends)):
            continue
        attends = f"{family.blocks}.{layer}.{family.attends}"
        for kind in ("weight", "bias"):
            query, key = (f"{attends}.{name}.{kind}" for name in (family.queries, family.keys))
            if query in weights:
                taken = {"queries": [query], "keys": [key], "mean": [query, key]}[config.shared_projection]
                found[query] = torch.stack([weights[name] for name in taken]).mean(dim=0)
                del found[key]
    return found


def shares_query_and_key(attends: nn.Module) -> bool:
    """Whether an attention module holds a mechanism with one projection for queries and keys."""
    mechanism = getattr(attends, "mechanism", None)
    return mechanism is not None and mechanism.settings.shares_query_and_key


@contextmanager
def attention_maps(inner: PreTrainedModel) -> Iterator[list[Tensor | None]]:
    """Collect the attention weights of a pass in this context; the list is filled at its end.

    Yields:
        The weights of each layer [B, H, N, N]; None of a layer without a mechanism.
    """
    found: list[tuple[int, Tensor]] = []
    maps: list[Tensor | None] = []

    def before(mechanism: Attention, arguments: tuple[Any, ...]) -> None:
        query, key, _, mask = arguments
        found.append((mechanism.layer, mechanism.weights(query, key, mask)))

    held = list(mechanisms(inner))
    with ExitStack() as hooks:
        for mechanism in held:
            hooks.callback(mechanism.register_forward_pre_hook(before).remove)
        yield maps
    if len(found) > len(held):  # layers share their weights, and one mechanism computes in several
        maps += [weights for _, weights in found]
    else:
        by_layer = dict(found)
        maps += [by_layer.get(layer) for layer in range(inner.config.num_hidden_layers)]
