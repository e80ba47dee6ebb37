"""First weights from a published model of an architecture, strictly."""

import json
import logging
from pathlib import Path

from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, PretrainedConfig, PreTrainedModel
from transformers.utils import CONFIG_NAME

from lib.backbones.pretrained.families import FAMILIES
from lib.core.errors import RunError

logger = logging.getLogger(__name__)

BOOKKEEPING = {
    "_name_or_path",
    "architectures",
    "bos_token_id",
    "dtype",
    "eos_token_id",
    "id2label",
    "label2id",
    "num_labels",
    "pad_token_id",
    "torch_dtype",
    "transformers_version",
    "use_cache",
    "vocab_size",
}
"""Fields that change nothing in the states of a token."""
SHOWN = 5
"""Fields that differ, named by a message."""


def is_published(folder: Path) -> bool:
    """Return whether `folder` holds a model of a known family as transformers saves it, and none of this project."""
    try:
        kind = json.loads((folder / CONFIG_NAME).read_text(encoding="utf-8")).get("model_type")
    except (OSError, ValueError):
        return False
    return kind in FAMILIES


def load_published(model: PreTrainedModel, folder: Path) -> None:
    """Replace the weights of `model` by those of a published causal language model of the same architecture.

    A head that predicts tokens takes over the published one; any other head stays as drawn. Tokens that the run's
    tokeniser has beyond the published vocabulary keep their drawn embeddings.

    Args:
        model: around an architecture, with a head.
        folder: with `config.json` and safetensors files.

    Raises:
        RunError: the architectures differ, or weights are missing or of another shape. `model` is unchanged.
    """
    config = model.config
    values = json.loads((folder / CONFIG_NAME).read_text(encoding="utf-8"))
    switches = FAMILIES[config.architecture["model_type"]].switches[config.direction]
    found = AutoConfig.for_model(**values | switches)
    _compare(config.inner(), found, folder)
    try:
        source, report = AutoModelForCausalLM.from_pretrained(
            folder, config=found, dtype="float32", output_loading_info=True
        )
    except (OSError, RuntimeError, ValueError) as error:
        raise RunError(f"{folder}: cannot be loaded ({error}). Expected a complete published model.") from error
    problems = [*report["missing_keys"], *report["mismatched_keys"]]
    if problems:
        raise RunError(
            f"{folder}: {len(problems)} weights are missing or of another shape ({', '.join(map(str, problems[:3]))}). "
            "Download it again, or correct the model's architecture."
        )
    inner = model.base_model.inner
    _take_over(inner.get_input_embeddings(), source.get_input_embeddings())
    embeddings = {id(weight) for weight in source.get_input_embeddings().parameters()}
    rest = {name: weight.data for name, weight in source.base_model.named_parameters() if id(weight) not in embeddings}
    inner.load_state_dict(rest, strict=False)
    head: nn.Module | None = model.get_output_embeddings()
    if head is not None and not config.tie_word_embeddings:
        _take_over(head, source.get_output_embeddings())


def _compare(expected: PretrainedConfig, found: PretrainedConfig, folder: Path) -> None:
    own, theirs = expected.to_dict(), found.to_dict()
    names = sorted((own.keys() | theirs.keys()) - BOOKKEEPING)
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
    """Copy the rows that were published into the first of a table that may be longer."""
    target, source = own.get_parameter("weight"), published.get_parameter("weight")
    rows = min(len(target), len(source))
    if rows < len(target):
        logger.info("%d tokens beyond the published vocabulary start from drawn embeddings", len(target) - rows)
    target.data[:rows] = source.data[:rows].to(target.dtype)
