"""What the encoder keeps of a text."""

from lib.backbones.encoder.parameters import Parameters
from lib.backbones.state_size import per_head


def state_size(parameters: Parameters, tokens: int) -> int:
    """Return the numbers that the mechanism keeps in all layers and heads of keys.

    Keys and values that are projected from a latent (`kv_rank`) count as such, and not as the latent.

    Args:
        parameters: of the encoder, with a mechanism.
        tokens: real tokens of the text.
    """
    assert parameters.mechanism is not None  # the study was checked
    heads = parameters.num_key_value_heads or parameters.num_attention_heads
    return parameters.num_hidden_layers * heads * per_head(parameters.mechanism, tokens, parameters.head_size)
