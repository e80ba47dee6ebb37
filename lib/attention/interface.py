"""Use of the mechanisms in other models, by the attention interface of transformers.

It neither loads nor trains a model. Requests of a model that a mechanism does not support are refused, with one
exception: windowed layers keep the attention of the model, see `lib.attention.windowed_layers`.

Shapes: B batch, H heads, N tokens, d head width.
"""

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import torch
import transformers
from torch import Tensor, nn
from torch.nn.modules.module import register_module_module_registration_hook
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface, bidirectional_mask_function, flash_attention_mask

from lib.attention.contract import Attention, build, for_every_head, without_padding
from lib.attention.settings import Kernels, MechanismSettings, each_of, kinds_of, parse_mechanisms
from lib.attention.windowed_layers import attend_in_layer, mask_of_layers, with_scaling
from lib.core.errors import ConfigError

FAVOR = {"favor": {"kind": "favor", "nb_features": 256}}

BEYOND_PADDING = (
    "block_indices", "cache", "cu_seq_lens_k", "cu_seq_lens_q", "indices", "output_attentions", "position_bias",
    "s_aux", "sinks", "softcap",
)  # fmt: skip
"""Arguments of transformers' models for attention functions beyond scaled scores and padding."""

ANOTHER = "Take another architecture (BERT, RoBERTa, ModernBERT, DistilBERT)."
EXACT = 'Load the model with attn_implementation="sdpa" or "eager".'

HELD = "held-mechanism"
"""Value of `attn_implementation`: every module that attends holds a mechanism as `mechanism`, or stays exact."""

WINDOWS = "sdpa-windows"
"""Value of `attn_implementation`: the attention of the model, with its windowed layers in linear time."""


class _Entry(NamedTuple):
    """A mechanism under its name in transformers, or several that repeat over the layers."""

    name: str
    mechanisms: list[MechanismSettings]
    seed: int
    """Seed of the draws."""
    kernels: Kernels
    """Its implementation."""


_registered: dict[str, _Entry] = {}


def register_attention(
    mechanisms: Mapping[str, Mapping[str, Any] | Sequence[Mapping[str, Any]]] = FAVOR,
    *,
    seed: int = 0,
    kernels: Kernels = "auto",
) -> None:
    """Register `mechanisms` with transformers as values of `attn_implementation`.

    From then on, in this process, `AutoModel.from_pretrained(..., attn_implementation="favor")`, `from_config` and
    `model.set_attn_implementation("favor")` swap the attention of a bidirectional encoder, its weights untouched.
    The draws are a function of (seed, layer) and part of no checkpoint, nor does a saved model name its attention:
    to load it, register the same parameters and seed under the same name. A mechanism that counts
    positions takes the padding of keys for that of queries, and is refused in modules named as cross-attention.
    transformers would accept and ignore the names for an architecture with attention of its own (DeBERTa) or without
    any (FNet). To build one with such a name is an error here. `set_attn_implementation` leaves one as it is;
    transformers then warns.

    Args:
        mechanisms: parameters by name, `kind` included, or a list of them that repeats over the layers without a window
            of their own, no longer than their number; layers that share their weights are one. A name is the kind
            (`favor`), or the grid's spelling of the parameters (`favor-m64`), which may have a suffix
            (`favor-m64-relu`); that of a list has each once (`window+sdpa`).
        seed: seed of the draws.
        kernels: their implementation; `auto` takes Triton kernels on a GPU in half precision.

    Raises:
        ConfigError: a mechanism shares queries and keys, has weights to be trained, redraws its features, or has a name
            that is taken or contradicts its parameters, or a list is empty; none is registered then.
        pydantic.ValidationError: a parameter is unknown, missing or out of range.
    """
    entries = []
    for name, values in mechanisms.items():
        given = dict(values) if isinstance(values, Mapping) else [dict(each) for each in values]
        entries.append(_Entry(name, each_of(parse_mechanisms(given)), seed, kernels))
        _check(entries[-1])
    if not _registered:
        register_module_module_registration_hook(_refuse_own_attention)
    for entry in entries:
        _registered[entry.name] = entry
        AttentionInterface.register(entry.name, partial(_attend, entry))
        # Without an entry here, transformers hands over no mask at all.
        AttentionMaskInterface.register(entry.name, _mask)


def number_layers(model: nn.Module) -> None:
    """Give every attention module of `model` that has no `layer_idx` its position among all of them.

    For the architectures that do not number their layers (DistilBERT, ALBERT, ESM); once, after loading.

    Raises:
        ConfigError: no module of `model` looks up its attention function in transformers' interface.
    """
    attending = [module for module in model.modules() if _looks_up_attention(type(module).forward)]
    if not attending:
        raise ConfigError(f"{type(model).__name__}: no module looks up its attention in the interface. {ANOTHER}")
    module: Any
    for position, module in enumerate(attending):
        if getattr(module, "layer_idx", None) is None:
            module.layer_idx = position
            module.numbered_layers = len(attending)


def _looks_up_attention(forward: Callable[..., Any]) -> bool:
    code = getattr(inspect.unwrap(forward), "__code__", None)
    return code is not None and "ALL_ATTENTION_FUNCTIONS" in code.co_names


def _check(entry: _Entry) -> None:
    """Raise a ConfigError if mechanisms cannot be registered under their name."""
    name, held, seed, _ = entry
    for parameters in held:
        problem = f"{name}: {parameters.kind} has"
        if parameters.shares_query_and_key:
            raise ConfigError(f"{problem} one projection for queries and keys, a published model two.")
        if parameters.is_learned or parameters.reads() != "heads":
            raise ConfigError(f"{problem} weights of its own, which would never be trained.")
        if interval := getattr(parameters, "redraw_interval", 0):
            raise ConfigError(f"{name}: redraw_interval = {interval}, but a foreign model tells no step. Set it to 0.")
    kind, canonical = kinds_of(held), "+".join(dict.fromkeys(parameters.name() for parameters in held))
    if name not in _registered and (name == "eager" or name in AttentionInterface()):
        raise ConfigError(f"{name}: transformers has an attention of that name. Call this one '{canonical}-grid'.")
    if name not in (kind, canonical) and not name.startswith(f"{canonical}-"):
        raise ConfigError(f"{name}: contradicts the parameters. Call it {canonical}, {canonical}-<suffix> or {kind}.")
    before = _registered.get(name, entry)
    if (before.mechanisms, before.seed) != (held, seed):
        raise ConfigError(f"{name}: registered with other parameters. Choose a name such as '{canonical}-seed{seed}'.")


def _mask(*, mask_function: Callable[..., Any], local_size: int | None = None, **arguments: Any) -> Tensor | None:
    """Return the padding mask [B, N], None if all tokens are real; for windowed layers, that of `mask_of_layers`.

    Raises:
        ConfigError: the model hides tokens from each other by more than padding and a window, or has attention of its
            own.
    """
    config = arguments["config"]
    where = f'attn_implementation="{config._attn_implementation}"'
    # By attribute: to import the name runs the hook of `lib`, which imports what imports this module.
    model = transformers.MODEL_MAPPING.get(type(config), None)
    if isinstance(model, type) and _keeps_attention(model):  # the name was set in the configuration of a finished model
        raise ConfigError(f"{where}: {config.model_type} models keep an attention of their own. {ANOTHER}")
    if local_size is not None:
        return mask_of_layers(mask_function=mask_function, local_size=local_size, **arguments)
    if mask_function is not bidirectional_mask_function:
        raise ConfigError(f"{where}: only padding can be hidden, not {mask_function.__qualname__}. {EXACT}")
    return flash_attention_mask(mask_function=mask_function, **arguments)


def _refuse_own_attention(module: nn.Module, name: str, part: nn.Module | None) -> None:
    """Raise a ConfigError if a model that is being built was asked for a mechanism, but keeps attention of its own.

    torch calls this whenever a module gets a part, so it depends on no code of the model.
    """
    if not isinstance(module, transformers.PreTrainedModel):
        return
    asked = getattr(getattr(module, "config", None), "_attn_implementation", None)
    if asked in _registered and _keeps_attention(type(module)):
        where = f'attn_implementation="{asked}": {type(module).__name__}'
        raise ConfigError(f"{where} keeps an attention of its own, or has none. {ANOTHER}")


# Here and below: compiled code ignores the cache, and would check, or draw, at every call.
@torch.compiler.disable
@cache
def _keeps_attention(model: type) -> bool:
    """Whether no attention module of a model gets its function from transformers' interface."""
    if not model._can_set_attn_implementation():  # type: ignore[attr-defined]  # of every PreTrainedModel
        return True
    if not model.__module__.startswith("transformers.models."):
        return False
    code = inspect.getsource(sys.modules[model.__module__])
    return "ALL_ATTENTION_FUNCTIONS" not in code and "AutoModel" not in code  # a model of several has them inside


def _attend(
    entry: _Entry, module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **asked: Any
) -> tuple[Tensor, None]:
    """Compute attention in place of one of transformers' attention functions.

    Args:
        entry: the registered mechanism.
        module: the attention module of the model.
        query: [B, H, N, d].
        key: as `query`; heads may be fewer, each then serves several of the query's.
        value: as `key`.
        attention_mask: what `_mask` returned.
        asked: what the model asks for beyond that: `dropout`, the probability of dropping an attention weight, 0 in
            evaluation; `scaling` of the scores, 1/sqrt(d) without it; `is_causal`, whether tokens see only those before
            them; `sliding_window`, the width of the window of a windowed layer; and arguments of other functions.

    Returns:
        Output [B, N, H, d], and no weights.

    Raises:
        ConfigError: the model needs a feature that the mechanism lacks, or does not number its layers.
    """
    where = f'attn_implementation="{entry.name}", {type(module).__name__}'
    _refuse_beyond_padding(where, entry.name, module, asked)
    if asked.get("sliding_window") is not None:
        return _attend_exactly(module, query, key, value, attention_mask, asked)
    layer = getattr(module, "layer_idx", None)
    if layer is None:
        raise ConfigError(f"{where}: has no `layer_idx`. Call lib.attention.number_layers(model) once, after loading.")
    if (entries := len(entry.mechanisms)) > 1:  # layers that share weights count once
        layers = _attending_before(module, getattr(module, "numbered_layers", module.config.num_hidden_layers))
        if entries > layers:
            raise ConfigError(f"{where}: {entries} entries for {layers} layers without a window. Shorten the list.")
    parameters = entry.mechanisms[_attending_before(module, layer) % entries]
    if parameters.depends_on_positions and "Cross" in type(module).__name__:
        raise ConfigError(f"{where}: {parameters.kind} needs the padding of queries, not given here. {EXACT}")
    query, key, value = _rows(where, entry.name, query, key, value, attention_mask, asked.get("scaling"))
    real = None
    if attention_mask is not None:
        real = attention_mask.bool()
        key, value = (without_padding(rows, real) for rows in (key, value))
    shape = {"num_heads": query.shape[1], "head_size": query.shape[3], "dropout": asked.get("dropout", 0.0)}
    # Not `forward`, which takes the padding of keys for that of queries: in cross-attention, they differ.
    mechanism = _built(parameters, entry.kernels, query.device, seed=entry.seed, layer=layer, **shape)
    mechanism.check_length(max(query.shape[2], key.shape[2]))
    output = mechanism.attend(query, key, value, real)
    return output.to(value.dtype).transpose(1, 2).contiguous(), None


def _attend_by_held(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **asked: Any
) -> tuple[Tensor, None]:
    """Attend by the mechanism that `module` holds, exactly if it holds none; see `_attend`.

    Dropout is the mechanism's own. One that shares queries and keys never looks at `key`.
    """
    mechanism = getattr(module, "mechanism", None)
    if mechanism is None:
        return _attend_exactly(module, query, key, value, attention_mask, asked)
    where, name = type(module).__name__, mechanism.settings.name()
    _refuse_beyond_padding(where, name, module, asked)
    query, key, value = _rows(where, name, query, key, value, attention_mask, asked.get("scaling"))
    seen = {} if mechanism.settings.reads() == "heads" else {"states": module.__dict__.pop("states")}
    output = mechanism(query, query if mechanism.settings.shares_query_and_key else key, value, attention_mask, **seen)
    return output.transpose(1, 2).contiguous(), None


AttentionInterface.register(HELD, _attend_by_held)
AttentionMaskInterface.register(HELD, _mask)
AttentionInterface.register(WINDOWS, attend_in_layer)
AttentionMaskInterface.register(WINDOWS, mask_of_layers)


def _attend_exactly(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, asked: Mapping[str, Any]
) -> tuple[Tensor, None]:
    """Attend as the model itself does; arguments as of `_attend`."""
    known = {name: asked[name] for name in ("dropout", "scaling") if name in asked}
    return attend_in_layer(module, query, key, value, mask, **known, is_causal=False)


def _refuse_beyond_padding(where: str, name: str, module: nn.Module, asked: Mapping[str, Any]) -> None:
    """Raise a ConfigError if a layer hides tokens to come, or asks for more than scaled scores and padding."""
    causal = asked.get("is_causal")
    # Where neither tells, transformers' own functions take the module to be causal.
    causal = getattr(module, "is_causal", True) if causal is None else causal
    if causal:
        raise ConfigError(f"{where}: is causal or not `is_causal = False`, but {name} sees the tokens to come. {EXACT}")
    given = {argument: asked.get(argument) for argument in BEYOND_PADDING}
    if beyond := [argument for argument, value in given.items() if value is not None and value is not False]:
        raise ConfigError(f"{where}: cannot honour {', '.join(beyond)}. Leave it out, or: {EXACT}")


def _rows(
    where: str, name: str, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scaling: float | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries, keys and values as a mechanism takes them.

    Raises:
        ConfigError: they are not of one shape [B, H, N, d], or the mask is not [B, N].
    """
    key, value = for_every_head(query, key), for_every_head(query, value)
    if not query.shape == key.shape == value.shape:
        shapes = ", ".join(str(tuple(rows.shape)) for rows in (query, key, value))
        raise ConfigError(f"{where}: queries, keys and values: {shapes}. {name} takes no other length. {EXACT}")
    expected = (query.shape[0], query.shape[2])
    if mask is not None and mask.shape != expected:
        raise ConfigError(f"{where}: attention_mask has shape {tuple(mask.shape)}, expected [B, N]. {EXACT}")
    return with_scaling(query, scaling), key, value


def _attending_before(module: nn.Module, layer: int) -> int:
    """Return the number of layers before a layer, without those that have a window of their own."""
    kinds = getattr(getattr(module, "config", None), "layer_types", None) or ["full_attention"] * layer
    return sum(kind != "sliding_attention" for kind in kinds[:layer])


@torch.compiler.disable
@cache
def _built(parameters: MechanismSettings, kernels: Kernels, device: torch.device, **others: Any) -> Attention:
    """Return the mechanism of a layer; transformers' attention functions have no state of their own.

    It stays in training mode: `dropout`, one of the `others` that `build` takes, is 0 whenever the model is not.
    """
    # Tensors built in inference mode cannot be used in training.
    with torch.inference_mode(False):
        mechanism = build(parameters, **others)
        mechanism.kernels, mechanism.pads_queries = kernels, False
        return mechanism.to(device)
