"""Trivial baseline: marks every character."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from lib.backbones import contract


class Backbone(contract.SpanFinder):
    """Finds one span in every text: all of it."""

    def fit(self, texts: pd.Series, inside: Sequence[np.ndarray]) -> None:
        """See `lib.backbones.contract.SpanFinder.fit`: there is nothing to learn."""

    def pieces(self, texts: pd.Series) -> list[contract.Pieces]:
        """See `lib.backbones.contract.SpanFinder.pieces`."""
        return [contract.Pieces([0], [len(text)], [1.0]) for text in texts]

    @property
    def weights(self) -> int:
        """See `lib.backbones.contract.TextBackbone.weights`."""
        return 0
