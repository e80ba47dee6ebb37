"""Initial weights from a published encoder-decoder; every difference is an error."""

from pathlib import Path

import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForSeq2SeqLM, PreTrainedModel
from transformers.utils import CONFIG_NAME

from lib.backbones.architecture import compare, take_over, take_over_words, text_fields
from lib.backbones.stored import load_source, refuse
from lib.core.errors import RunError

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
"""Fields that change states and scores of the same weights. The last one goes with `tie_word_embeddings`."""


def load_published(model: PreTrainedModel, folder: Path) -> None:
    """Replace the weights of `model` by those of a published one of the same architecture.

    Tokens that the run's tokeniser has beyond the published vocabulary keep their random embeddings.

    Args:
        model: around an encoder-decoder.
        folder: folder with `config.json` and files of weights.

    Raises:
        RunError: the architectures differ, or weights are missing, left over or of another shape. `model` is unchanged.
    """
    found, own = AutoConfig.for_model(**text_fields(folder)), model.config.inner()
    pairs = {name: (getattr(own, name), getattr(found, name)) for name in DECISIVE}
    if (start := getattr(found, "decoder_start_token_id", None)) is not None:
        pairs["decoder_start_token_id"] = (model.config.start_token_id, start)
    compare(pairs, folder)
    source, report = load_source(AutoModelForSeq2SeqLM, folder, found)
    refuse({*report["missing_keys"], *report["unexpected_keys"]}, folder)
    backbone, words, scores = model.base_model, source.get_input_embeddings(), source.lm_head
    if backbone.lm_head is None and not torch.equal(words.weight, scores.weight):
        raise RunError(
            f"{folder}: its lm_head differs from its embeddings, but the run's model has none of its own. Set "
            f"tie_word_embeddings: false in {CONFIG_NAME} of a local folder and in the backbone's architecture."
        )
    parts = {part: _without_words(source, part) for part in ("encoder", "decoder")}
    for part, weights in parts.items():
        refuse(_without_words(backbone.inner, part).keys() ^ weights.keys(), folder)
    take_over_words(backbone.embeddings, words)
    if backbone.lm_head is not None:
        take_over(backbone.lm_head, scores)
    for part, weights in parts.items():
        backbone.inner.get_submodule(part).load_state_dict(weights, strict=False)


def _without_words(model: PreTrainedModel, part: str) -> dict[str, Tensor]:
    """Return the weights of a part of an encoder-decoder, by name, except the word embeddings, which both share."""
    weights = model.get_submodule(part).state_dict()
    return {name: weight for name, weight in weights.items() if name != "embed_tokens.weight"}
