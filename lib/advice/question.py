"""What a user asks."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Question:
    """A question about own texts.

    Args:
        study: file of the study whose encoder and recipes are estimated.
        texts: files, or patterns of files.
        column: of the text.
        label: column of the label; None = there are none.
        labels: names of the classes, in the order of their numbers.
        device: `auto`, `cpu` or `cuda`.
        vocabulary: a vocab.txt in place of the study's vocabulary.
        limits: tokens that documents may be cut to; None = the usual ones, up to the first that loses nothing.
        sample: documents whose tokens are counted, at most.
        points: macro-F1, in per cent, by which a model may lie below the best one.
        seconds: about as long as the answer may take.
        encoder: folder of a published encoder to start from; None = one of the hub, if one is advised.
        weights: folder of a pretrained model, which spares the pretraining; None = there is none.
    """

    study: str
    texts: Sequence[str]
    column: str = "text"
    label: str | None = None
    labels: Sequence[str] = ()
    device: str = "auto"
    vocabulary: str | None = None
    limits: Sequence[int] | None = None
    sample: int = 1000
    points: float = 1.0
    seconds: float = 90.0
    encoder: str | None = None
    weights: str | None = None
