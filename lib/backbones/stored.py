"""Loading of model folders, with a check that all weights are there, finite, and as configured.

transformers initialises a missing weight at random, and scores of NaN still have a largest class. So all models are
loaded by this module.
"""

import itertools
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
from transformers.utils import CONFIG_NAME

from lib.backbones.configuration import BackboneConfig
from lib.core.errors import ProjectError, RunError, first
from lib.core.extensions import shipped, use
from lib.core.files import read_mapping
from lib.core.model_folder import FIELDS, WEIGHTS, in_time, read_fields, require_whole, unreadable
from lib.core.record import ADAPTER, CONFIG, RUN
from lib.core.settings import sentences

SHOWN = 3
"""Most weights that a message names."""
MECHANISM = ".mechanism"
"""How the name of a mechanism in a model ends."""


def read_weights(folder: Path, name: str = WEIGHTS) -> dict[str, Tensor]:
    """Return the weights that a run left in its model folder.

    Args:
        folder: folder of the model.
        name: name of the file in it.

    Raises:
        RunError: there are none, they cannot be read, or one holds NaN or inf.
    """
    if _only_adapters(folder):
        raise RunError(f"{folder}: holds adapters without the weights of their model. Set recipe.lora.merge: true.")
    try:
        weights = load_file(folder / name)
    except (OSError, SafetensorError) as error:
        raise unreadable(folder / name, error) from error
    require_finite(weights, folder)
    return weights


def _only_adapters(folder: Path) -> bool:
    return (folder / ADAPTER).is_dir() and not (folder / WEIGHTS).exists()


def require_finite(weights: Mapping[str, Tensor], folder: Path) -> None:
    """Refuse weights that hold NaN or inf.

    Raises:
        RunError: some do.
    """
    fractions = {name: weight for name, weight in weights.items() if weight.is_floating_point()}
    refuse((name for name, weight in fractions.items() if not weight.isfinite().all()), folder, "are NaN or inf")


def refuse(
    problems: Iterable[Any],
    folder: Path,
    what: str = "are missing or left over",
    remedy: str = f"Expected all weights that {FIELDS} describes. Run the stage again, download the model again, or "
    "correct its architecture.",
) -> None:
    """Raise a RunError if there are wrong weights in a model; `what` says how they are wrong."""
    if named := sorted(map(str, problems)):
        raise RunError(f"{folder}: {len(named)} weights {what} ({', '.join(first(named, SHOWN))}). {remedy}")


def load_source(auto: Any, folder: Path, config: PretrainedConfig, **options: Any) -> tuple[Any, dict[str, Any]]:
    """Return a model in float32 with finite weights, and what transformers reports of the others.

    Args:
        auto: class of transformers that loads it.
        folder: folder with `config.json` and files of weights.
        config: config of the model.
        options: further arguments of `from_pretrained`.

    Raises:
        RunError: as `require_whole` raises it; or it cannot be loaded, or a weight has another shape or holds NaN or
            inf.
    """
    require_whole(folder)
    safe = {"output_loading_info": True, "trust_remote_code": False, "local_files_only": True}
    safe["ignore_mismatched_sizes"] = True  # to name them in an error of ours
    # It calls a model without its head corrupted. The caller names the missing weights.
    theirs = logging.getLogger("transformers")
    level = theirs.level
    theirs.setLevel(logging.ERROR)
    try:
        with in_time(folder):
            model, report = auto.from_pretrained(folder, config=config, dtype="float32", **safe, **options)
    except ProjectError:
        raise
    except Exception as error:  # damaged files raise errors of many kinds
        problem = f"cannot be loaded ({type(error).__name__}: {error})"
        raise RunError(f"{folder}: {problem}. Download it again, or run its stage again.") from error
    finally:
        theirs.setLevel(level)
    others = (f"{name}: {[*found]}, expected {[*expected]}" for name, found, expected in report["mismatched_keys"])
    remedy = f"Correct vocab_size, type_vocab_size or max_position_embeddings of {FIELDS}, in a local folder."
    refuse(others, folder, f"have another shape than {FIELDS} gives them", remedy)
    require_finite(model.state_dict(), folder)
    return model, report


def open_config(folder: Path) -> PretrainedConfig:
    """Return the configuration in the folder of a model; of a run's, with the shipped extensions that the run had.

    Raises:
        RunError: it cannot be read, or does not fit the weights.
    """
    read_fields(folder)
    for run in folder.resolve().parents[:2]:  # of other extensions, a stranger's file could name any code
        if (run / RUN).is_file() and (run / CONFIG).is_file():
            named = read_mapping(run / CONFIG).get("extensions")
            use(name for name in shipped() if isinstance(named, list) and name in named)
    try:
        return AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    except Exception as error:  # each architecture checks its fields in its own way
        raise _unusable(folder, error) from error


def _unusable(folder: Path, error: Exception) -> RunError:
    problem = str(error)
    if isinstance(error, ValidationError):
        problem = "; ".join(f"{'.'.join(place)} {sentence}" for place, sentence in sentences(error))
    return RunError(f"{folder / FIELDS}: transformers cannot make a model of it ({problem}). Make or fetch it again.")


def open_model(auto: Any, folder: Path, **options: Any) -> PreTrainedModel:
    """Return the model in a folder, all of whose weights are there, its head included.

    Adapters that were not merged are put on the weights that their run started from.

    Args:
        auto: class of transformers that loads it.
        folder: folder of a run's model, or of a published one.
        options: further arguments of `from_pretrained`.

    Raises:
        RunError: it cannot be read, or weights are missing, of another shape, NaN or inf; of a run's model, also if
            there are others than it needs.
    """
    config = open_config(folder)
    if isinstance(config, BackboneConfig) and _only_adapters(folder):
        from lib.backbones.adapted import open_adapted  # peft takes seconds to import

        return open_adapted(auto, folder, config)
    _require_room(auto, config, folder)
    model, report = load_source(auto, folder, config, **options)
    problems = {*report["missing_keys"]}
    if isinstance(config, BackboneConfig) and type(model).__name__ in (config.architectures or []):
        problems |= set(report["unexpected_keys"])
    refuse(problems, folder)
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
            problem = f"a model of more than {asked:,} weights, but the files of weights have {stored:,} bytes"
            raise RunError(f"{folder / FIELDS}: describes {problem}. Copy both from where it was trained.")

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


def load_weights(model: PreTrainedModel, folder: str | Path, *, with_head: bool = False) -> None:
    """Replace the weights of `model` by those saved in `folder`; the model's configuration stays.

    Every weight of the backbone must be there with the same shape, and none may be left over. The head's weights are
    taken if `folder` holds a model with the same task, and then as strictly; otherwise the new head stays. Random
    features go along only where the mechanism of a layer is the same in every parameter; otherwise they stay as drawn
    for `model`.

    Args:
        model: model with a head, its weights initialised; its configuration is a `BackboneConfig`.
        folder: folder of a finished run's model or a working checkpoint.
        with_head: `folder` must hold a model with the same task.

    Raises:
        RunError: the model is missing, or its settings, task or shapes do not fit. `model` is unchanged.
    """
    folder = Path(folder)
    source = _read_config(folder, type(model.config))
    expected, found = model.config.parameters, source.parameters
    if reasons := list(expected.takeover_errors(found)):
        raise RunError(f"{folder}: its weights do not fit ({'; '.join(reasons)}). Start from a run with the same ones.")
    task, tasks = type(model).__name__, source.architectures or []
    if with_head and task not in tasks:
        found_head = ", ".join(tasks) or "no head"
        raise RunError(f"{folder}: holds {found_head}; expected {task}. Give such a model, or train with a recipe.")
    saved = read_weights(folder)
    prefix = f"{model.base_model_prefix}."
    places = [name for name, _ in model.named_modules() if name.endswith(MECHANISM)]
    held = zip(places, itertools.cycle(expected.held_mechanisms), itertools.cycle(found.held_mechanisms), strict=False)
    kept = tuple(f"{name}." for name, own, theirs in held if own == theirs)

    def concerned(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        return {
            name: tensor
            for name, tensor in tensors.items()
            if (task in tasks or name.startswith(prefix)) and (f"{MECHANISM}." not in name or name.startswith(kept))
        }

    # A tied weight is saved once, under the name of its original.
    own = {name: tensor for name, tensor in model.state_dict().items() if name not in model.all_tied_weights_keys}
    wanted, offered = concerned(own), concerned(saved)
    here, there = ({name: [*tensor.shape] for name, tensor in each.items()} for each in (wanted, offered))
    wrong = [name for name in here.keys() | there.keys() if here.get(name) != there.get(name)]
    shapes = (f"{name}: expected {here.get(name)}, found {there.get(name)}" for name in wrong)
    remedy = f"Start from a run with the same tokeniser, labels and settings of the backbone {expected.kind}."
    refuse(shapes, folder, "do not fit", remedy)
    model.load_state_dict(offered, strict=False)


def _read_config(folder: Path, kind: type[BackboneConfig]) -> BackboneConfig:
    path, values = folder / CONFIG_NAME, read_fields(folder)
    if values.get("model_type") != kind.model_type:
        raise RunError(f"{path}: model_type is {values.get('model_type')!r}; expected '{kind.model_type}'.")
    try:
        return kind.from_dict(values)
    except Exception as error:  # each architecture checks its fields in its own way
        raise RunError(f"{path}: not a configuration of this version ({error}). Run the stage again.") from error
