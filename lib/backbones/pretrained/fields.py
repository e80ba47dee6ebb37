"""Which fields of a published `config.json` describe an architecture. Imports no transformers: planning asks it."""

from collections.abc import Mapping
from typing import Any

from lib.backbones.pretrained.families import FAMILIES

BYSTANDERS = frozenset(
    {
        "_name_or_path",
        "_num_labels",
        "architectures",
        "bos_token_id",
        "cache_implementation",
        "classifier_dropout",
        "cls_token_id",
        "directionality",
        "dtype",
        "eos_token_id",
        "finetuning_task",
        "gradient_checkpointing",
        "id2label",
        "label2id",
        "mask_token_id",
        "num_labels",
        "output_past",
        "pad_token_id",
        "pooler_fc_size",
        "pooler_num_attention_heads",
        "pooler_num_fc_layers",
        "pooler_size_per_head",
        "pooler_type",
        "reference_compile",
        "repad_logits_with_grad",
        "sep_token_id",
        "torch_dtype",
        "transformers_version",
        "use_cache",
        "vocab_size",
    }
)
"""Fields that change nothing in the states of a token."""
UNLESS_OTHERWISE = {"position_embedding_type": "absolute"}
"""Fields that transformers no longer has, with the value that it now takes for granted; another one is an error."""
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
"""Names that transformers still reads, and saves under others."""


def architecture_of(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a `config.json` that describe the architecture, those of the text model if it has several.

    The size of the published vocabulary stays, since its rows stay; the direction in which a model attends does not,
    since a backbone sets it itself.
    """
    fields = fields.get("text_config", fields)
    switches = {name for family in FAMILIES.values() for values in family.switches.values() for name in values}
    dropped = (BYSTANDERS - {"vocab_size"}) | switches
    return {
        name: value
        for name, value in fields.items()
        if name not in dropped and not (name in UNLESS_OTHERWISE and value == UNLESS_OTHERWISE[name])
    }
