"""What the recurrent encoder keeps of a text."""

from lib.backbones.recurrent.parameters import Parameters


def state_size(parameters: Parameters, tokens: int) -> int:
    """Return the numbers of the states of all layers, the same at every length.

    Both directions together have the hidden size. LSTM has a cell state beside the hidden one.

    Args:
        parameters: of the encoder.
        tokens: real tokens of the text.
    """
    return parameters.num_hidden_layers * parameters.hidden_size * (2 if parameters.cell == "lstm" else 1)
