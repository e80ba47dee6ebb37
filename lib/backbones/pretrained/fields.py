"""Fields of a published `config.json` that describe an architecture, and their names. Imports no transformers."""

from collections.abc import Mapping
from typing import Any

from lib.backbones.pretrained.families import FAMILIES, Family

BYSTANDERS = frozenset(
    {
        "_name_or_path",
        "_num_labels",
        "architectures",
        "bos_token",
        "bos_token_id",
        "cache_implementation",
        "classifier_dropout",
        "classifier_pooling",
        "clf_pooling",  # of EuroBERT's classifier
        "cls_token_id",
        "directionality",
        "dtype",
        "eos_token",
        "eos_token_id",
        "finetuning_task",
        "gradient_checkpointing",
        "id2label",
        "label2id",
        "mask_token",
        "mask_token_id",
        "n_ctx",  # GPT-2 has `n_positions`
        "num_labels",
        "onnx_export",  # of Longformer, for another format of files
        "output_past",
        "pad_token",
        "pad_token_id",
        "pooler_fc_size",
        "pooler_num_attention_heads",
        "pooler_num_fc_layers",
        "pooler_size_per_head",
        "pooler_type",
        "qa_dropout",  # of DistilBERT's heads
        "reference_compile",
        "repad_logits_with_grad",
        "sep_token_id",
        "seq_classif_dropout",  # of DistilBERT's heads
        "summary_activation",
        "summary_first_dropout",
        "summary_last_dropout",
        "summary_proj_to_labels",
        "summary_type",
        "summary_use_proj",
        "task_specific_params",
        "torch_dtype",
        "transformers_version",
        "use_cache",
        "vocab_size",
    }
)
"""Fields that change nothing in the states of a token."""
UNLESS_OTHERWISE = {
    "attention_mode": "longformer",  # Longformer's own code also had attention that is not sliding
    "hidden_dropout": 0.0,  # EuroBERT's own code had one, which its models never used
    "ignore_attention_mask": False,  # of Longformer
    "position_embedding_type": "absolute",
    "tie_weights_": True,  # DistilBERT's embeddings and head share their weights, today by `tie_word_embeddings`
}
"""Fields that transformers no longer has, with the only value that it now supports."""
RENAMED = frozenset(
    {
        "global_attn_every_n_layers",
        "global_rope_theta",
        "local_rope_theta",
        "partial_rotary_factor",
        "rope_local_base_freq",
        "rope_scaling",
        "rope_theta",
        "sliding_window_pattern",
    }
)
"""Old names of fields, which transformers reads and saves under new ones."""


def config_error(fields: Any) -> str | None:
    """Return why the content of a `config.json` describes no architecture of a known family; None if it does."""
    if not isinstance(fields, dict):
        return f"holds {type(fields).__name__}, no fields of a model"
    text = _of_text(fields)
    kind = text.get("model_type", fields.get("model_type"))
    if kind is None:
        return "names no model_type, so it is not a model of transformers"
    if isinstance(kind, str) and kind in FAMILIES:
        return None
    hint = " An encoder-decoder is a backbone of kind encoder_decoder." if text.get("is_encoder_decoder") else ""
    return (
        f"says model_type = {kind!r}, which is no encoder or decoder that this project knows. Name a model of one of "
        f"these types: {', '.join(FAMILIES)}.{hint} docs/add_family.md says how to add a family"
    )


def in_shared_names(architecture: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an architecture by the names that families share.

    A field that is there by both names, with different values, stays as it is.
    """
    family = _family(architecture)
    if family is None:
        return dict(architecture)
    shared = {own: name for name, own in family.names.items()}
    fields: dict[str, Any] = {}
    for name, value in architecture.items():
        known = shared.get(name, name)
        fields[known if architecture.get(known, value) == value else name] = value
    width = fields.get("hidden_size")
    if family.widening is not None and fields.get("intermediate_size") is None and isinstance(width, int):
        fields["intermediate_size"] = family.widening * width
    return fields


def in_own_names(architecture: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an architecture by its own names, as transformers takes them."""
    family = _family(architecture)
    names = family.names if family is not None else {}
    return {names.get(name, name): value for name, value in architecture.items()}


def _family(architecture: Mapping[str, Any]) -> Family | None:
    kind = architecture.get("model_type")
    return FAMILIES.get(kind) if isinstance(kind, str) else None


def _of_text(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields of the text model, if there are several models."""
    text = fields.get("text_config")
    return text if isinstance(text, dict) else fields


def architecture_of(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a `config.json` that describe the architecture, those of the text model if it has several.

    The size of the published vocabulary stays, since its rows stay; the direction of attention does not,
    since a backbone sets it itself.
    """
    fields = _of_text(fields)
    family = _family(fields)
    switches = {name for family in FAMILIES.values() for values in family.switches.values() for name in values}
    dropped = (BYSTANDERS - {"vocab_size"}) | switches | (family.bystanders if family else frozenset())
    return {
        name: value
        for name, value in fields.items()
        if name not in dropped and not (name in UNLESS_OTHERWISE and value == UNLESS_OTHERWISE[name])
    }
