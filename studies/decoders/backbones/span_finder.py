"""Interface of the backbones that find spans in texts without a training loop (ability `character_probabilities`)."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from lib.backbones.contract import TextBackbone


class Pieces(NamedTuple):
    """Pieces of a text, such as words or tokens [m]. Characters between them belong to none."""

    starts: ArrayLike
    """First character of each [m]."""
    ends: ArrayLike
    """Character after its last one [m]."""
    probabilities: ArrayLike
    """Probability that its characters are in a span [m]."""


class SpanFinder(TextBackbone):
    """Finds spans in texts."""

    @abstractmethod
    def fit(self, texts: pd.Series, inside: Sequence[np.ndarray]) -> None:
        """Fit to texts and the characters of each that are in a span.

        Raises:
            DataError: nothing can be learnt from them.
        """

    @abstractmethod
    def pieces(self, texts: pd.Series) -> list[Pieces]:
        """Return the pieces of each text, with the probability that each is in a span."""
