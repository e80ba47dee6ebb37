"""Fields of a published `config.json` that describe an architecture, and their names. Imports no transformers."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from lib.backbones.pretrained import declared
from lib.backbones.pretrained.families import FAMILIES, Family
from lib.core.errors import MOST_OF_VALUE, cut

_BYSTANDERS = re.compile(
    r"architectures|chunk_size_feed_forward|classifier_dropout|classifier_pooling|dtype|id2label|label2id|num_labels"
    r"|onnx_export|output_attentions|output_hidden_states|problem_type|qa_dropout|reference_compile|return_dict"
    r"|seq_classif_dropout|transformers_version|use_cache|vocab_size|summary_.*|(bos|cls|eos|mask|pad|sep)_token_id"
)
"""Fields that transformers reads, but that change nothing in the states of a token: those of heads, special tokens,
other formats of files, and what a run decides itself."""
SUPPORTED: dict[str, Any] = {
    "attention_mode": "longformer",  # Longformer's own code also had attention that is not sliding
    "attn_logit_softcapping": None,
    "compression_config": None,
    "position_embedding_type": "absolute",
    "quantization_config": None,
    "relative_attention_max_distance": 128,  # MPNet
}
"""Fields that change states if the code of a model reads them, each with the only value that transformers computes for
a family whose code does not read it; null is this value, too. Fields that give a model other weights (gates, ALiBi,
attention to an encoder) are not here: weights are compared by name and shape."""
_ROTARY = frozenset({"rope", "rotary", "sans_pos"})
"""Values of `position_embedding_type` that fit a family without a table of positions: rotary embeddings and no others.
Ettin and mmBERT have `sans_pos`."""
_MAY_BE_SILENT = ("intermediate_size", "num_attention_heads")
"""Sizes that transformers leaves out of a `text_config` if they are the defaults of its type, as in Gemma 3 with 4
billion weights."""


def config_error(fields: Any) -> str | None:
    """Return why the content of a `config.json` describes no architecture of a known family; None if it does."""
    if not isinstance(fields, dict):
        return f"holds {type(fields).__name__}, no fields of a model"
    text = _of_text(fields)
    kind = text.get("model_type", fields.get("model_type"))
    if kind is None:
        return "names no model_type. If it is an early file of BERT, add model_type: bert in a local folder"
    if isinstance(kind, str) and kind in FAMILIES:
        merged = {**fields, **text, "model_type": kind}
        problems = [*field_errors(merged), *_direction_errors(merged)]
        return f"cannot be followed: {'. '.join(problems)}" if problems else None
    hint = " An encoder-decoder is a backbone of kind encoder_decoder." if text.get("is_encoder_decoder") else ""
    if "auto_map" in fields:
        hint += " Code in its repository (auto_map) is never run."
    known = f"Expected one of {', '.join(FAMILIES)}"
    return f"says model_type = {kind!r}, which is not known. {known}.{hint} docs/add_family.md says how to add one"


def field_errors(fields: Mapping[str, Any]) -> Iterator[str]:
    """Yield which fields change the states of a model of a known family in a way that transformers does not follow."""
    kind = fields["model_type"]
    read = declared.fields(kind)
    for name, supported in SUPPORTED.items():
        value = fields.get(name)
        if value is None or value == supported or name in read:
            continue
        if name == "position_embedding_type" and value in _ROTARY and FAMILIES[kind].positions is None:
            continue
        remedy = f"Name a model whose {name} is {json.dumps(supported)}"
        yield f"{name} = {cut(repr(value), MOST_OF_VALUE)}: transformers does not follow it for {kind}. {remedy}"
    models = _own_models(fields.get("auto_map"))
    if models and not declared.classes(kind) & set(models):
        remedy = "If that code computes the same as transformers, remove auto_map in a local folder"
        yield f"auto_map = {', '.join(models)}: no class of {kind}, but own code, which is never run. {remedy}"


def _direction_errors(fields: Mapping[str, Any]) -> Iterator[str]:
    """Yield which fields make a decoder of a model whose family is read in both directions alone."""
    kind = fields["model_type"]
    switches = FAMILIES[kind].switches
    if "causal" in switches:
        return
    for name, value in switches["bidirectional"].items():
        if fields.get(name) not in (None, value):
            remedy = f"Name another model, or set {name}: {json.dumps(value)} in a local folder"
            yield f"{name} = {cut(repr(fields[name]), MOST_OF_VALUE)}: {kind} is read in both directions here. {remedy}"


def _own_models(auto_map: Any) -> list[str]:
    """Return the names of the classes of models that a repository has code for."""
    found = auto_map.items() if isinstance(auto_map, dict) else ()
    return [str(place).rpartition(".")[2] for name, place in found if str(name).startswith("AutoModel")]


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
    since a backbone sets it itself. Fields that the code of the family does not mention are left out.
    """
    whole, fields = fields, _of_text(fields)
    if _family(fields) is None:
        return dict(fields)
    switches = {name for family in FAMILIES.values() for values in family.switches.values() for name in values}
    names = declared.fields(fields["model_type"]) - switches
    silent = {} if fields is whole else declared.sizes(fields["model_type"])
    sizes = {name: silent[name] for name in _MAY_BE_SILENT if name in silent and name not in fields}
    kept = {name for name in names if name == "vocab_size" or not (name.startswith("_") or is_bystander(name))}
    return sizes | {name: value for name, value in fields.items() if name in kept}


def is_bystander(name: str) -> bool:
    """Whether a field that transformers reads changes nothing in the states of a token."""
    return _BYSTANDERS.fullmatch(name) is not None
