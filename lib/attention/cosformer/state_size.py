"""What cosFormer keeps of a text."""

from lib.attention.cosformer.parameters import Parameters


def state_size(parameters: Parameters, tokens: int, head_size: int) -> int:
    """Return the sums over the keys of 2 d features, and of their products with values: 2 d (d + 1) numbers.

    Args:
        parameters: of the mechanism.
        tokens: N, real tokens of the text.
        head_size: d.
    """
    return 2 * head_size * (head_size + 1)
