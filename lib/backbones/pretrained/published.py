"""First weights from a published model of an architecture, strictly."""

import json
import logging
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM, PretrainedConfig, PreTrainedModel
from transformers.utils import CONFIG_NAME

from lib.backbones.pretrained.families import FAMILIES
from lib.core.errors import RunError, UnpicklingError

logger = logging.getLogger(__name__)

BOOKKEEPING = {
    "_name_or_path",
    "architectures",
    "bos_token_id",
    "classifier_dropout",
    "cls_token_id",
    "dtype",
    "eos_token_id",
    "id2label",
    "label2id",
    "mask_token_id",
    "num_labels",
    "pad_token_id",
    "sep_token_id",
    "torch_dtype",
    "transformers_version",
    "use_cache",
    "vocab_size",
}
"""Fields that change nothing in the states of a token."""
SHOWN = 5
"""Fields that differ, named by a message."""
TEXT_PART = {r"^language_model\.": "", r"^model\.language_model\.": "model."}
"""What the weights of a text model are called inside a model of several kinds of input, and what by itself."""


def is_published(folder: Path) -> bool:
    """Return whether `folder` holds a model of a known family as transformers saves it, and none of this project."""
    try:
        return _read_fields(folder).get("model_type") in FAMILIES
    except (OSError, ValueError):
        return False


def load_published(model: PreTrainedModel, folder: Path) -> None:
    """Replace the weights of `model` by those of a published language model of the same architecture.

    A head that predicts tokens takes over the published one if there is one like it; any other head stays as drawn.
    Tokens that the run's tokeniser has beyond the published vocabulary keep their drawn embeddings. Of a model of
    several kinds of input (Gemma 3 with images) the text model is taken.

    Args:
        model: around an architecture, with a head.
        folder: with `config.json` and files of weights.

    Raises:
        RunError: the architectures differ, or weights are missing or of another shape. `model` is unchanged.
    """
    config, family = model.config, model.config.family
    found = AutoConfig.for_model(**_read_fields(folder) | family.switches[config.direction])
    _compare(config.inner(), found, folder, {"pad_token_id"} if family.first_position is not None else set())
    auto = AutoModelForCausalLM if "causal" in family.switches else AutoModelForMaskedLM
    try:
        source, report = auto.from_pretrained(
            folder,
            config=found,
            dtype="float32",
            key_mapping=TEXT_PART,
            output_loading_info=True,
            trust_remote_code=False,
        )
    except (OSError, RuntimeError, ValueError, SafetensorError, UnpicklingError) as error:
        raise RunError(f"{folder}: cannot be loaded ({error}). Expected a complete published model.") from error
    # Encoders are often published without the head that they were trained with.
    prefix = f"{source.base_model_prefix}." if "dense" in family.head else ""
    missing = {name for name in report["missing_keys"] if name.startswith(prefix)}
    problems = sorted(missing | {str(key) for key in report["mismatched_keys"]})
    if problems:
        raise RunError(
            f"{folder}: {len(problems)} weights are missing or of another shape ({', '.join(problems[:3])}). "
            "Download it again, or correct the model's architecture."
        )
    inner, words = model.base_model.inner, source.get_input_embeddings()
    _take_over(inner.get_input_embeddings(), words)
    if (beyond := len(inner.get_input_embeddings().weight) - len(words.weight)) > 0:
        logger.info("%d tokens beyond the published vocabulary start from drawn embeddings", beyond)
    rest = {
        name: weight for name, weight in source.base_model.state_dict().items() if not name.startswith(family.words)
    }
    inner.load_state_dict(rest, strict=False)
    if model.get_output_embeddings() is None:
        return
    parts = dict(source.named_modules())
    activation = getattr(found, family.head_activation) if family.head_activation else "gelu"
    if (
        len(missing) < len(report["missing_keys"])
        or activation != "gelu"
        or not parts.keys() >= {*family.head.values()}
    ):
        logger.info("%s: holds no head like the one that predicts tokens here, which starts from drawn weights", folder)
        return
    for own, published in family.head.items():
        _take_over(model.head.get_submodule(own), parts[published])


def _read_fields(folder: Path) -> dict[str, Any]:
    """Return the fields of the configuration of a model, or of the text model in it."""
    fields: dict[str, Any] = json.loads((folder / CONFIG_NAME).read_text(encoding="utf-8"))
    return fields.get("text_config", fields)


def _compare(expected: PretrainedConfig, found: PretrainedConfig, folder: Path, counted: set[str]) -> None:
    """Check that all fields agree but those of the bookkeeping; those that are `counted` must agree, too."""
    own, theirs = expected.to_dict(), found.to_dict()
    names = sorted((own.keys() | theirs.keys()) - (BOOKKEEPING - counted))
    differing = [
        f"{name} is {own.get(name)!r}, there {theirs.get(name)!r}"
        for name in names
        if own.get(name) != theirs.get(name)
    ]
    if differing:
        more = f"; and {len(differing) - SHOWN} more" if len(differing) > SHOWN else ""
        raise RunError(
            f"{folder / CONFIG_NAME}: another architecture than the run's ({'; '.join(differing[:SHOWN])}{more}). Copy "
            "its fields into the backbone's architecture."
        )


def _take_over(own: nn.Module, published: nn.Module) -> None:
    """Copy the parameters that were published, which may be fewer, into the first rows of tables that may be longer."""
    for name, source in published.named_parameters():
        target = own.get_parameter(name)
        rows = min(len(target), len(source))
        target.data[:rows] = source.data[:rows].to(target.dtype)
