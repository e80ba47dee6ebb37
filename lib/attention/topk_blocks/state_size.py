"""What top-k attention by blocks keeps of a text for a query."""

from lib.attention.topk_blocks.parameters import Parameters


def state_size(parameters: Parameters, tokens: int, head_size: int) -> int:
    """Return keys and values of 2 w + 1 + k blocks of b tokens, and if there are more blocks, the mean key of each.

    That is 2 min(N, b (2 w + 1 + k)) d numbers, and d for each of ceil(N / b) blocks.

    Args:
        parameters: of the mechanism.
        tokens: N, real tokens of the text.
        head_size: d.
    """
    seen, blocks = 2 * parameters.window + 1 + parameters.blocks, -(-tokens // parameters.block_size)
    means = blocks if blocks > seen else 0
    return (2 * min(tokens, seen * parameters.block_size) + means) * head_size
