"""First weights of a run from the model that another run left, strictly."""

import json
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor
from transformers.utils import CONFIG_NAME, SAFE_WEIGHTS_NAME

from lib.backbones.encoder.configuration import EncoderConfig
from lib.backbones.encoder.model import EncoderPreTrainedModel
from lib.core.errors import ConfigError, RunError
from lib.core.kinds import MECHANISMS

SHOWN = 3
"""Mismatched weights that a message names."""


def load_weights(model: EncoderPreTrainedModel, folder: str | Path) -> None:
    """Replace the weights of `model` by those saved in `folder`; the model's configuration stays.

    Every weight of the encoder must be there with the same shape, and none may be left over. The head's weights are
    taken if `folder` holds a model with the same task, and then as strictly; otherwise the new head stays. Random
    features go along only if the mechanism is the same in every parameter; otherwise they stay as drawn for `model`.

    Args:
        model: with a head, its weights initialised.
        folder: of a finished run's model or a working checkpoint.

    Raises:
        RunError: there is no such model, or its architecture, mechanism or shapes do not fit. `model` is unchanged.
    """
    folder = Path(folder)
    source = _read_config(folder)
    _compare(model.config, source, folder)
    saved = _read_weights(folder)
    prefix = f"{model.base_model_prefix}."
    same_task = type(model).__name__ in (source.architectures or [])
    same_mechanism = MECHANISMS.parse(source.mechanism) == MECHANISMS.parse(model.config.mechanism)

    def concerned(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        return {
            name: tensor
            for name, tensor in tensors.items()
            if (same_task or name.startswith(prefix)) and (same_mechanism or ".mechanism." not in name)
        }

    # A tied weight is saved once, under the name of what it is tied to.
    own = {name: tensor for name, tensor in model.state_dict().items() if name not in model.all_tied_weights_keys}
    expected, offered = concerned(own), concerned(saved)
    problems = [
        f"{name}: expected {_shape(expected.get(name))}, found {_shape(offered.get(name))}"
        for name in sorted(expected.keys() | offered.keys())
        if _shape(expected.get(name)) != _shape(offered.get(name))
    ]
    if problems:
        more = f"; and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
        raise RunError(
            f"{folder}: {len(problems)} weights do not fit ({'; '.join(problems[:SHOWN])}{more}). Expected mechanism "
            f"{model.config.mechanism}, found {source.mechanism}. Start from a run with the same encoder settings."
        )
    model.load_state_dict(offered, strict=False)


def _read_config(folder: Path) -> EncoderConfig:
    path = folder / CONFIG_NAME
    try:
        values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(
            f"{path}: cannot be read ({error}). Expected the model folder of a finished run; let that run finish, or "
            "fix the path."
        ) from error
    if values.get("model_type") != EncoderConfig.model_type:
        raise RunError(
            f"{path}: model_type is {values.get('model_type')!r}; expected '{EncoderConfig.model_type}'. Start from a "
            "model that this project trained."
        )
    try:
        return EncoderConfig.from_dict(values)
    except (ConfigError, ValueError) as error:
        raise RunError(f"{path}: not a configuration of this version ({error}). Run the stage again.") from error


def _read_weights(folder: Path) -> dict[str, Tensor]:
    path = folder / SAFE_WEIGHTS_NAME
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise RunError(
            f"{path}: cannot be read ({error}). Expected the weights of a finished run; run its stage again."
        ) from error


def _compare(config: EncoderConfig, source: EncoderConfig, folder: Path) -> None:
    """Refuse what equal shapes would hide, and what a list of shapes would explain badly."""
    expected, found = (MECHANISMS.parse(each.mechanism) for each in (config, source))
    if expected.shares_query_and_key != found.shares_query_and_key:
        raise RunError(
            f"{folder}: its mechanism is {found.name()}, expected one whose weights {expected.name()} can take over. "
            "Only one of the two shares queries and keys, so their projections differ. Start from a model that was "
            "trained with a mechanism of the same kind of projections."
        )
    fields = ("num_attention_heads", "num_hidden_layers", "position_embedding_type", "vocab_size")
    problems = [
        f"{field}: expected {getattr(config, field)}, found {getattr(source, field)}"
        for field in fields
        if getattr(config, field) != getattr(source, field)
    ]
    if problems:
        raise RunError(
            f"{folder}: a model of another architecture ({'; '.join(problems)}). Expected mechanism "
            f"{expected.name()}, found {found.name()}. Start from a run with the same encoder settings."
        )


def _shape(tensor: Tensor | None) -> list[int] | None:
    return None if tensor is None else list(tensor.shape)
