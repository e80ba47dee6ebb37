"""What Linformer keeps of a text."""

from lib.attention.linformer.parameters import Parameters


def state_size(parameters: Parameters, tokens: int, head_size: int) -> int:
    """Return the mixtures of keys and of values: 2 k d numbers, whatever the length.

    Args:
        parameters: of the mechanism.
        tokens: N, real tokens of the text.
        head_size: d.
    """
    return 2 * parameters.rank * head_size
