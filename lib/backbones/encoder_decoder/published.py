"""First weights from a published encoder-decoder, strictly."""

import json
import logging
from pathlib import Path

import torch
from safetensors import SafetensorError
from torch import Tensor
from transformers import AutoConfig, AutoModelForSeq2SeqLM, PreTrainedModel
from transformers.utils import CONFIG_NAME

from lib.backbones.encoder_decoder.parameters import ARCHITECTURES
from lib.core.errors import RunError, UnpicklingError

logger = logging.getLogger(__name__)

DECISIVE = (
    "model_type",
    "d_model",
    "d_kv",
    "d_ff",
    "num_layers",
    "num_decoder_layers",
    "num_heads",
    "relative_attention_num_buckets",
    "relative_attention_max_distance",
    "feed_forward_proj",
    "layer_norm_epsilon",
    "scale_decoder_outputs",
)
"""Fields by which the same weights give other states and scores. The last one goes with `tie_word_embeddings`."""


def is_published(folder: Path) -> bool:
    """Return whether `folder` holds a known encoder-decoder as transformers saves it, and none of this project."""
    try:
        return json.loads((folder / CONFIG_NAME).read_text(encoding="utf-8")).get("model_type") in ARCHITECTURES
    except (OSError, ValueError):
        return False


def load_published(model: PreTrainedModel, folder: Path) -> None:
    """Replace the weights of `model` by those of a published one of the same architecture.

    Tokens that the run's tokeniser has beyond the published vocabulary keep their drawn embeddings.

    Args:
        model: around an encoder-decoder.
        folder: with `config.json` and files of weights.

    Raises:
        RunError: the architectures differ, or weights are missing, left over or of another shape. `model` is unchanged.
    """
    fields = json.loads((folder / CONFIG_NAME).read_text(encoding="utf-8"))
    found = AutoConfig.for_model(**fields)
    _compare(model, found, folder)
    try:
        source, report = AutoModelForSeq2SeqLM.from_pretrained(
            folder, config=found, dtype="float32", output_loading_info=True, trust_remote_code=False
        )
    except (OSError, RuntimeError, ValueError, SafetensorError, UnpicklingError) as error:
        raise RunError(f"{folder}: cannot be loaded ({error}). Expected a complete published model.") from error
    problems = sorted(
        {str(key) for kind in ("missing_keys", "unexpected_keys", "mismatched_keys") for key in report[kind]}
    )
    if problems:
        raise RunError(
            f"{folder}: {len(problems)} weights are missing, left over or of another shape "
            f"({', '.join(problems[:3])}). Download it again, or correct the model's architecture."
        )
    backbone, words, scores = model.base_model, source.get_input_embeddings().weight, source.lm_head.weight
    if backbone.lm_head is None and not torch.equal(words, scores):
        raise RunError(
            f"{folder}: its lm_head differs from its embeddings, but the run's model has none of its own. Set "
            "tie_word_embeddings: false in the backbone's architecture."
        )
    _take_over(backbone.embeddings.weight, words)
    if backbone.lm_head is not None:
        _take_over(backbone.lm_head.weight, scores)
    if (beyond := len(backbone.embeddings.weight) - len(words)) > 0:
        logger.info("%d tokens beyond the published vocabulary start from drawn embeddings", beyond)
    for part in ("encoder", "decoder"):
        state = source.get_submodule(part).state_dict()
        backbone.inner.get_submodule(part).load_state_dict(
            {name: weight for name, weight in state.items() if name != "embed_tokens.weight"}, strict=False
        )


def _compare(model: PreTrainedModel, found: object, folder: Path) -> None:
    """Check that what decides agrees."""
    own = model.config.inner()
    pairs = {name: (getattr(own, name), getattr(found, name)) for name in DECISIVE}
    if (start := getattr(found, "decoder_start_token_id", None)) is not None:
        pairs["decoder_start_token_id"] = (model.config.start_token_id, start)
    differing = [f"{name} is {ours!r}, there {theirs!r}" for name, (ours, theirs) in pairs.items() if ours != theirs]
    if differing:
        raise RunError(
            f"{folder / CONFIG_NAME}: another architecture than the run's ({'; '.join(differing)}). Copy its fields "
            "into the backbone's architecture."
        )


def _take_over(own: Tensor, published: Tensor) -> None:
    """Copy published rows, which may be fewer or more."""
    rows = min(len(own), len(published))
    own.data[:rows] = published.data[:rows]
