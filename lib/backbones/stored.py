"""A model folder, checked before it is used: all weights are there, finite, and as the configuration says.

transformers draws a weight that a file lacks, and scores of NaN have a class, too. So every model that is used is read
by this module.
"""

import logging
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor
from torch.nn.modules.module import register_module_parameter_registration_hook
from transformers import AutoConfig, PretrainedConfig, PreTrainedModel

from lib.backbones.configuration import BackboneConfig
from lib.core.errors import RunError, UnpicklingError
from lib.core.model_folder import FIELDS, WEIGHTS, read_fields, unreadable
from lib.core.record import ADAPTER
from lib.core.settings import sentences

SHOWN = 3
"""Weights that a message names."""


def read_weights(folder: Path, name: str = WEIGHTS) -> dict[str, Tensor]:
    """Return the weights that a run left in its model folder.

    Args:
        folder: of the model.
        name: of the file in it.

    Raises:
        RunError: there are none, they cannot be read, or one holds NaN or inf.
    """
    _require_weights(folder)
    try:
        weights = load_file(folder / name)
    except (OSError, SafetensorError) as error:
        raise unreadable(folder / name, error) from error
    require_finite(weights, folder)
    return weights


def _require_weights(folder: Path) -> None:
    if (folder / ADAPTER).is_dir() and not (folder / WEIGHTS).exists():
        raise RunError(
            f"{folder}: holds adapters without the weights of their model. Expected a whole model; train with "
            "recipe.lora.merge: true."
        )


def require_finite(weights: Mapping[str, Tensor], folder: Path) -> None:
    """Refuse weights that hold NaN or inf.

    Raises:
        RunError: some do.
    """
    refuse(
        (name for name, weight in weights.items() if weight.is_floating_point() and not weight.isfinite().all()),
        folder,
        "NaN or inf",
    )


def refuse(problems: Iterable[Any], folder: Path, what: str) -> None:
    """Raise a RunError that names the weights of a model that are `what` they should not be."""
    if names := sorted(map(str, problems)):
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        raise RunError(
            f"{folder}: {len(names)} weights are {what} ({', '.join(names[:SHOWN])}{more}). Expected all weights that "
            f"{FIELDS} describes. Run the stage again, download the model again, or correct its architecture."
        )


def load_source(auto: Any, folder: Path, config: PretrainedConfig, **options: Any) -> tuple[Any, dict[str, Any]]:
    """Return a model in float32 with finite weights, and what transformers reports of the others.

    Args:
        auto: class of transformers that loads it.
        folder: with `config.json` and files of weights.
        config: of the model.
        options: further arguments of `from_pretrained`.

    Raises:
        RunError: it cannot be loaded, or a weight holds NaN or inf.
    """
    safe = {"output_loading_info": True, "trust_remote_code": False, "local_files_only": True}
    # It calls a model without its head corrupted. The caller names the missing weights.
    theirs = logging.getLogger("transformers")
    level = theirs.level
    theirs.setLevel(logging.ERROR)
    try:
        model, report = auto.from_pretrained(folder, config=config, dtype="float32", **safe, **options)
    except (OSError, RuntimeError, ValueError, SafetensorError, UnpicklingError) as error:
        raise RunError(
            f"{folder}: cannot be loaded ({error}). Expected a complete published model, or that of a finished run. "
            "Download it again, or run its stage again."
        ) from error
    finally:
        theirs.setLevel(level)
    require_finite(model.state_dict(), folder)
    return model, report


def open_config(folder: Path) -> PretrainedConfig:
    """Return the configuration in the folder of a model.

    Raises:
        RunError: it cannot be read, or does not fit the weights.
    """
    read_fields(folder)
    try:
        return AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    except Exception as error:  # each architecture checks its fields in its own way
        raise _unusable(folder, error) from error


def _unusable(folder: Path, error: Exception) -> RunError:
    problem = str(error)
    if isinstance(error, ValidationError):
        problem = "; ".join(f"{'.'.join(place)} {sentence}" for place, sentence in sentences(error))
    return RunError(
        f"{folder / FIELDS}: transformers cannot make a model of it ({problem}). Expected the configuration that "
        "was saved with the weights; run the stage again, or download the model again."
    )


def open_model(auto: Any, folder: Path, **options: Any) -> PreTrainedModel:
    """Return the model in a folder, all of whose weights are there, its head included.

    Args:
        auto: class of transformers that loads it.
        folder: of a run's model, or of a published one.
        options: further arguments of `from_pretrained`.

    Raises:
        RunError: it cannot be read, or weights are missing, of another shape, NaN or inf; of a run's model, also if
            there are others than it needs.
    """
    config = open_config(folder)
    _require_weights(folder)
    _require_room(auto, config, folder)
    model, report = load_source(auto, folder, config, **options)
    problems = {*report["missing_keys"], *(name for name, *_ in report["mismatched_keys"])}
    if isinstance(config, BackboneConfig) and type(model).__name__ in (config.architectures or []):
        problems |= set(report["unexpected_keys"])
    refuse(problems, folder, "missing, left over or of another shape")
    return model


def _require_room(auto: Any, config: PretrainedConfig, folder: Path) -> None:
    """Refuse a configuration of more weights than the files in its folder have bytes, before memory is taken for them.

    Raises:
        RunError: there are more.
    """
    stored = sum(path.stat().st_size for kind in ("*.safetensors", "*.bin") for path in folder.glob(kind))
    asked = 0

    def count(module: torch.nn.Module, name: str, weight: torch.nn.Parameter | None) -> None:
        nonlocal asked
        asked += 0 if weight is None else math.prod(weight.shape)
        if asked > stored:
            raise RunError(
                f"{folder / FIELDS}: describes a model of more than {asked:,} weights, but the files of weights "
                f"in its folder have {stored:,} bytes. Expected configuration and weights of the same model; copy both "
                "from where the model was trained."
            )

    hook = register_module_parameter_registration_hook(count)
    try:
        with torch.device("meta"):
            auto.from_config(config)
    except RunError:
        raise
    except Exception as error:
        raise _unusable(folder, error) from error
    finally:
        hook.remove()
