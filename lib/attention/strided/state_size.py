"""What strided attention keeps of a text for a query."""

from lib.attention.strided.parameters import Parameters


def state_size(parameters: Parameters, tokens: int, head_size: int) -> int:
    """Return keys and values of the 2 s - 1 tokens nearby and of every s-th other one: 2 min(N, 2 s - 1 + N / s) d.

    Args:
        parameters: of the mechanism.
        tokens: N, real tokens of the text.
        head_size: d.
    """
    beyond = (tokens - 1) // parameters.stride
    return 2 * min(tokens, 2 * parameters.stride - 1 + beyond) * head_size
