"""First weights of a run from the model that another run left, strictly."""

from pathlib import Path

from torch import Tensor
from transformers import PreTrainedModel
from transformers.utils import CONFIG_NAME

from lib.backbones.configuration import BackboneConfig
from lib.backbones.stored import SHOWN, read_weights
from lib.core.errors import RunError
from lib.core.model_folder import read_fields


def load_weights(model: PreTrainedModel, folder: str | Path, *, with_head: bool = False) -> None:
    """Replace the weights of `model` by those saved in `folder`; the model's configuration stays.

    Every weight of the backbone must be there with the same shape, and none may be left over. The head's weights are
    taken if `folder` holds a model with the same task, and then as strictly; otherwise the new head stays. Random
    features go along only if the mechanism is the same in every parameter; otherwise they stay as drawn for `model`.

    Args:
        model: with a head, its weights initialised; its configuration is a `BackboneConfig`.
        folder: of a finished run's model or a working checkpoint.
        with_head: `folder` must hold a model with the same task.

    Raises:
        RunError: the model is missing, or its settings, task or shapes do not fit. `model` is unchanged.
    """
    folder = Path(folder)
    source = _read_config(folder, type(model.config))
    expected, found = model.config.parameters, source.parameters
    if obstacles := list(expected.obstacles(found)):
        raise RunError(
            f"{folder}: its weights do not fit ({'; '.join(obstacles)}). Start from a run with the same settings of "
            f"the backbone {expected.kind}."
        )
    task, tasks = type(model).__name__, source.architectures or []
    if with_head and task not in tasks:
        raise RunError(
            f"{folder}: holds {', '.join(tasks) or 'no head'}; expected {task}, since its head is taken as it is. Give "
            "a model that was trained on the same task, or train with a recipe."
        )
    saved = read_weights(folder)
    prefix = f"{model.base_model_prefix}."
    same_mechanism = expected.held_mechanism == found.held_mechanism

    def concerned(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        return {
            name: tensor
            for name, tensor in tensors.items()
            if (task in tasks or name.startswith(prefix)) and (same_mechanism or ".mechanism." not in name)
        }

    # A tied weight is saved once, under the name of its original.
    own = {name: tensor for name, tensor in model.state_dict().items() if name not in model.all_tied_weights_keys}
    wanted, offered = concerned(own), concerned(saved)
    problems = [
        f"{name}: expected {_shape(wanted.get(name))}, found {_shape(offered.get(name))}"
        for name in sorted(wanted.keys() | offered.keys())
        if _shape(wanted.get(name)) != _shape(offered.get(name))
    ]
    if problems:
        more = f"; and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
        raise RunError(
            f"{folder}: {len(problems)} weights do not fit ({'; '.join(problems[:SHOWN])}{more}). Start from a run "
            f"with the same tokeniser, labels and settings of the backbone {expected.kind}."
        )
    model.load_state_dict(offered, strict=False)


def _read_config(folder: Path, kind: type[BackboneConfig]) -> BackboneConfig:
    path, values = folder / CONFIG_NAME, read_fields(folder)
    if values.get("model_type") != kind.model_type:
        raise RunError(
            f"{path}: model_type is {values.get('model_type')!r}; expected '{kind.model_type}'. Start from a model "
            "that this project trained with the same kind of backbone."
        )
    try:
        return kind.from_dict(values)
    except Exception as error:  # each architecture checks its fields in its own way
        raise RunError(f"{path}: not a configuration of this version ({error}). Run the stage again.") from error


def _shape(tensor: Tensor | None) -> list[int] | None:
    return None if tensor is None else list(tensor.shape)
