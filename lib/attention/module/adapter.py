"""Modules of other packages: how their arguments are found, made and called, by the names that are in use.

Shapes: B batch, H heads, N tokens, d head width, D width of the states.
"""

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import transformers
from torch import Tensor, nn

from lib.attention.module.settings import Settings
from lib.core.errors import ConfigError

NAMES = {
    "width": ["dim", "d_model", "hidden_size", "embed_dim", "embedding_dim", "model_dim"],
    "heads": ["heads", "num_heads", "n_heads", "n_head", "nhead", "num_attention_heads"],
    "head_size": ["dim_head", "dim_heads", "head_dim", "head_size", "d_head"],
    "layer": ["layer_idx", "layer_id"],
}
"""Names of constructors' arguments, by the size of the encoder that they get."""
FIXED = {"causal": False, "is_causal": False, "batch_first": True, "need_weights": False}
"""Arguments of constructors and calls that must have this value wherever there are some of this name."""
MASKS = {**dict.fromkeys(["attention_mask", "mask", "input_mask", "key_mask"], "real"), "key_padding_mask": "padding"}
"""Names of masks [B, N], and their meanings."""


def found(settings: Settings) -> type[nn.Module]:
    """Import and return the class.

    Raises:
        ConfigError: it cannot be imported, or is no torch module.
    """
    module, _, name = settings.class_name.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, SyntaxError, OSError) as error:
        raise ConfigError(
            f"class: {settings.class_name}: {error}. Correct the name, or install its package."
        ) from error
    if not (isinstance(found, type) and issubclass(found, nn.Module)):
        raise ConfigError(f"class: {settings.class_name} is no class of torch modules. Name one.")
    return found


def made(settings: Settings, *, width: int, heads: int, head_size: int, layer: int) -> tuple[nn.Module, dict[str, Any]]:
    """Return the module, built for an encoder's sizes, and the arguments that its constructor got.

    Args:
        settings: of the mechanism.
        width: D; a module that takes heads gets d wherever it asks for a width.
        heads: H.
        head_size: d.
        layer: index of the layer.

    Raises:
        ConfigError: its constructor wants arguments that neither the sizes nor `options` give, or refuses them.
    """
    made_of = found(settings)
    wanted = inspect.signature(made_of).parameters
    sizes = {"width": width if settings.takes == "states" else head_size, "heads": heads, "head_size": head_size}
    values = {name: value for size, value in {**sizes, "layer": layer}.items() for name in NAMES[size]}
    given = {name: value for name, value in {**values, **FIXED}.items() if name in wanted} | settings.options
    if "config" in wanted and isinstance(fields := given.get("config", {}), Mapping):
        given["config"] = _config(made_of, {**values, **fields})
    named = [each.name for each in wanted.values() if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
    needed = [name for name in named if wanted[name].default is inspect.Parameter.empty and name not in given]
    if needed:
        raise ConfigError(f"options: {settings.class_name} needs {', '.join(needed)}. Add a value of each.")
    try:
        return made_of(**given), given
    except Exception as error:
        raise ConfigError(f"options: {settings.class_name}({given}): {error}. Correct `options`.") from error


def _config(made_of: type[nn.Module], values: Mapping[str, Any]) -> Any:
    """Return the configuration that a layer of transformers takes, the one that its module imports."""
    own = vars(importlib.import_module(made_of.__module__)).values()
    kinds = [each for each in own if isinstance(each, type) and issubclass(each, transformers.PreTrainedConfig)]
    kind = next((each for each in kinds if each is not transformers.PreTrainedConfig), None)
    if kind is None:
        raise ConfigError(f"options.config: {made_of.__module__} imports none. Wrap the class in one without it.")
    known = inspect.signature(kind).parameters
    return kind(**{name: value for name, value in values.items() if name in known})


def mask_of(settings: Settings, module: nn.Module) -> tuple[str | None, str]:
    """Return the name of a module's mask, None if it takes none, and its meaning (`Settings.mask`)."""
    wanted = inspect.signature(module.forward).parameters
    mask = next((name for name in MASKS if name in wanted), "mask" if settings.mask else None)
    return mask, settings.mask or MASKS.get(mask or "", "real")


def caller(settings: Settings, module: nn.Module) -> Callable[..., Tensor]:
    """Return a function of states [B, N, D], or queries, keys and values [B, H, N, d], and of the real tokens [B, N].

    It returns the output in the shape of the first. With real tokens None, the module gets no mask unless the settings
    say which.

    Raises:
        ConfigError: the module wants other arguments, or takes no mask that it needs; and when it is called, it fails
            or returns another shape.
    """
    wanted = inspect.signature(module.forward).parameters
    number = 3 if settings.takes == "heads" or {name[0] for name in list(wanted)[:3]} == {"q", "k", "v"} else 1
    mask, means = mask_of(settings, module)
    fixed = {name: value for name, value in FIXED.items() if name in wanted}
    variable = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    others = [name for name, each in wanted.items() if each.default is each.empty and each.kind not in variable]
    if missing := [name for name in others[number:] if name not in {*fixed, mask}]:
        raise ConfigError(f"class: {settings.class_name}.forward needs {', '.join(missing)}, too. Wrap it in a module.")
    if settings.padding == "mask" and mask is None:
        raise ConfigError(f"padding: {settings.class_name} takes none of {', '.join(MASKS)}. Set padding: apart.")

    def call(rows: Sequence[Tensor], real: Tensor | None) -> Tensor:
        first, given = rows[0], dict[str, Any](fixed)
        if real is None and settings.mask:
            real = torch.ones(first.shape[0], first.shape[-2], dtype=torch.bool, device=first.device)
        if real is not None and mask is not None:
            given[mask] = _spelled(real, means, first.dtype)
        shape = tuple(first.shape)
        try:
            output = module(*[*rows] * (number // len(rows)), **given)
        except Exception as error:
            said = f"{settings.class_name} fails on {list(shape)}: {type(error).__name__}: {error}"
            raise ConfigError(f"class: {said}. A layer must take any length; other arguments are `options`.") from error
        output = output[0] if isinstance(output, tuple | transformers.utils.ModelOutput) else output
        if tuple(output.shape) != shape:
            maps = f"{settings.class_name} maps {list(shape)} to {list(output.shape)}"
            raise ConfigError(f"class: {maps}. Wrap it in a module that keeps the shape.")
        return output

    return call


def _spelled(real: Tensor, means: str, dtype: torch.dtype) -> Tensor:
    """Return the mask [B, N] of real tokens in a module's own way, or [B, 1, 1, N] to be added to scores."""
    if means == "added":
        return torch.zeros(real.shape, dtype=dtype, device=real.device).masked_fill(~real, -1e30)[:, None, None]
    return real if means == "real" else ~real


def apart(call: Callable[..., Tensor], rows: Sequence[Tensor], real: Tensor | None) -> Tensor:
    """Return a call's output where texts of one length are computed at a time, without padding; zeros at padding.

    Args:
        call: as of `caller`.
        rows: states [B, N, D], or queries, keys and values [B, H, N, d].
        real: [B, N], true at real tokens; None = all real.
    """
    if real is None:
        return call(rows, None)
    first = rows[0]
    output = first.new_zeros(first.shape).movedim(-2, 1)  # tokens next to texts
    lengths = real.sum(1)
    for length in lengths.unique().tolist():
        texts = (lengths == length).nonzero().flatten()
        places = real[texts].nonzero(as_tuple=True)[1].view(len(texts), length)
        if length:
            taken = tuple(each.movedim(-2, 1)[texts[:, None], places].movedim(1, -2) for each in rows)
            output = output.index_put((texts[:, None], places), call(taken, None).movedim(-2, 1).to(output.dtype))
    return output.movedim(1, -2)
