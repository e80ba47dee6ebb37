"""What attention within a window keeps of a text for a query."""

from lib.attention.window.parameters import Parameters


def state_size(parameters: Parameters, tokens: int, head_size: int) -> int:
    """Return keys and values of the window of w + 1 tokens and of g global ones: 2 min(N, w + 1 + g) d numbers.

    Args:
        parameters: of the mechanism.
        tokens: N, real tokens of the text.
        head_size: d.
    """
    return 2 * min(tokens, parameters.width + 1 + parameters.global_tokens) * head_size
