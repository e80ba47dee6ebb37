"""What LSH attention keeps of a text for a query."""

from lib.attention.lsh.parameters import Parameters


def state_size(parameters: Parameters, tokens: int, head_size: int) -> int:
    """Return keys and values of a query's windows, in R rounds three chunks of C tokens: 2 min(N, 3 R C) d numbers.

    Args:
        parameters: of the mechanism.
        tokens: N, real tokens of the text.
        head_size: d.
    """
    return 2 * min(tokens, parameters.num_hashes * 3 * parameters.chunk_size) * head_size
