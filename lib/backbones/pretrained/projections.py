"""Where an architecture's queries and keys are, and its attention maps; see `lib.backbones.projections`."""

from torch import Tensor
from transformers import PreTrainedModel

from lib.backbones.projections import AttentionLayer


def attention_layers(model: PreTrainedModel) -> list[AttentionLayer]:
    """Return the layers of a live model, from the lowest."""
    inner = model.base_model.inner
    kinds = getattr(inner.config, "layer_types", None)
    layers = []
    for number, block in enumerate(inner.layers):
        attends, rotary = block.self_attn, inner.rotary_emb
        # Gemma 3 turns layers with a window by other frequencies than those without.
        name = f"{kinds[number]}_inv_freq" if kinds else "inv_freq"
        frequencies = getattr(rotary, name) if hasattr(rotary, name) else rotary.inv_freq
        turned = getattr(attends, "use_rope", True)  # SmolLM3 turns only some layers
        norms = (attends.q_norm, attends.k_norm) if hasattr(attends, "q_norm") else None
        layers.append(
            AttentionLayer(
                attends.q_proj, attends.k_proj, attends.head_dim, frequencies if turned else None, norms=norms
            )
        )
    return layers


def attention_maps(model: PreTrainedModel, ids: Tensor) -> list[Tensor]:
    """Return the attention weights of each layer [H, N, N] on one document [1, N].

    Only eager attention forms them, so the model attends eagerly meanwhile.
    """
    inner = model.base_model.inner
    usual = inner.config._attn_implementation
    inner.set_attn_implementation("eager")
    try:
        return [maps[0] for maps in model.base_model(input_ids=ids, output_attentions=True).attentions]
    finally:
        inner.set_attn_implementation(usual)
