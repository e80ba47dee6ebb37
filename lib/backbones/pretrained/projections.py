"""The query and key projections of an architecture, and its attention maps; see `lib.backbones.projections`."""

from torch import Tensor
from transformers import PreTrainedModel

from lib.backbones.pretrained.mechanisms import shares_query_and_key
from lib.backbones.projections import AttentionLayer


def attention_layers(model: PreTrainedModel) -> list[AttentionLayer]:
    """Return the attention layers of a model, from the lowest."""
    config, inner = model.config, model.base_model.inner
    family, width = config.family, config.head_size
    kinds, rotary = getattr(inner.config, "layer_types", None), getattr(inner, "rotary_emb", None)
    layers = []
    for number, block in enumerate(model.base_model.layers):
        attends = block.get_submodule(family.attends)
        # Gemma 3 turns layers with a window by other frequencies than those without.
        name = f"{kinds[number]}_inv_freq" if kinds else "inv_freq"
        frequencies = getattr(rotary, name) if hasattr(rotary, name) else getattr(rotary, "inv_freq", None)
        turned = getattr(attends, "use_rope", True)  # SmolLM3 turns only some layers
        layers.append(
            AttentionLayer(
                attends.get_submodule(family.queries),
                None if shares_query_and_key(attends) else attends.get_submodule(family.keys),
                width,
                frequencies if turned else None,
                norms=(attends.q_norm, attends.k_norm) if hasattr(attends, "q_norm") else None,
            )
        )
    return layers


def attention_maps(model: PreTrainedModel, ids: Tensor) -> list[Tensor | None]:
    """Return the attention weights of each layer [H, N, N] on one document [1, N]; None of one without a mechanism.

    Without a mechanism, only eager attention forms them, so the model attends eagerly meanwhile.
    """
    inner = model.base_model.inner
    usual = inner.config._attn_implementation
    if model.config.mechanism is None:
        inner.set_attn_implementation("eager")
    try:
        maps = model.base_model(input_ids=ids, output_attentions=True).attentions
        return [None if each is None else each[0] for each in maps]
    finally:
        inner.set_attn_implementation(usual)
