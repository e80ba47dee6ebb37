"""What the state-space encoder keeps of a text."""

from lib.backbones.ssm.parameters import Parameters


def state_size(parameters: Parameters, tokens: int) -> int:
    """Return the numbers of the states of all layers, the same at every length, and what their convolutions see.

    Each direction has a state for each channel of the inner size. The convolution sees other tokens, too, at the width
    of inputs and of four directions (write and read, forwards and backwards).

    Args:
        parameters: of the encoder.
        tokens: real tokens of the text.
    """
    states = 2 * parameters.inner_size * parameters.state_size
    beside = (parameters.convolution - 1) * (parameters.inner_size + 4 * parameters.state_size)
    return parameters.num_hidden_layers * (states + beside)
