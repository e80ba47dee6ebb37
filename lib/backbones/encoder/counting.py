"""Numbers of weights, for run records and for the fairness of the comparison."""

from lib.backbones.encoder.model import EncoderPreTrainedModel


def count_parameters(model: EncoderPreTrainedModel) -> dict[str, int]:
    """Return the numbers of trainable weights of `model`, frozen ones included, buffers not.

    Args:
        model: with or without a head, on any device (also `meta`).

    Returns:
        `total`, `encoder` (embeddings and blocks) and `head` (the rest). A tied decoder's weight counts once, as part
        of the encoder.
    """
    total = sum(parameter.numel() for parameter in model.parameters())
    encoder = sum(parameter.numel() for parameter in model.base_model.parameters())
    return {"total": total, "encoder": encoder, "head": total - encoder}
