"""What exact attention keeps of a text."""

from lib.attention.sdpa.parameters import Parameters


def state_size(parameters: Parameters, tokens: int, head_size: int) -> int:
    """Return the keys and values of all tokens: 2 N d numbers.

    Args:
        parameters: of the mechanism.
        tokens: N, real tokens of the text.
        head_size: d.
    """
    return 2 * tokens * head_size
