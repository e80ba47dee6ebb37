"""What BigBird's attention keeps of a text for a query."""

from lib.attention.bigbird.parameters import Parameters


def state_size(parameters: Parameters, tokens: int, head_size: int) -> int:
    """Return keys and values of the w + g + r blocks of b tokens that a block sees: 2 min(N, b (w + g + r)) d numbers.

    Args:
        parameters: of the mechanism.
        tokens: N, real tokens of the text.
        head_size: d.
    """
    blocks = parameters.window_blocks + parameters.global_blocks + parameters.random_blocks
    return 2 * min(tokens, parameters.block_size * blocks) * head_size
