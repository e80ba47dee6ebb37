"""What Nyström attention keeps of a text."""

from lib.attention.nystrom.parameters import Parameters


def state_size(parameters: Parameters, tokens: int, head_size: int) -> int:
    """Return the landmarks of keys, and for each what a query reads there: 2 min(M, N) d numbers.

    Args:
        parameters: of the mechanism.
        tokens: N, real tokens of the text.
        head_size: d.
    """
    return 2 * min(parameters.landmarks, tokens) * head_size
