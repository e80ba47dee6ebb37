"""What FAVOR+ keeps of a text."""

from lib.attention.favor.parameters import Parameters


def state_size(parameters: Parameters, tokens: int, head_size: int) -> int:
    """Return the sums over the keys of M features, and of their products with values: M (d + 1); `elu` has M = d.

    Args:
        parameters: of the mechanism.
        tokens: N, real tokens of the text.
        head_size: d.
    """
    return (parameters.nb_features or head_size) * (head_size + 1)
