"""Trivial baseline: marks every character."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from studies.decoders.backbones.span_finder import Pieces, SpanFinder


class Backbone(SpanFinder):
    """Finds one span in every text: all of it."""

    def fit(self, texts: pd.Series, inside: Sequence[np.ndarray]) -> None:
        """See `SpanFinder.fit`: there is nothing to learn."""

    def pieces(self, texts: pd.Series) -> list[Pieces]:
        """See `SpanFinder.pieces`."""
        return [Pieces([0], [len(text)], [1.0]) for text in texts]

    @property
    def weights(self) -> int:
        """See `lib.backbones.contract.TextBackbone.weights`."""
        return 0

    def save(self, folder: Path) -> None:
        """See `lib.backbones.contract.TextBackbone.save`: there is nothing to keep."""

    def load(self, folder: Path) -> None:
        """See `lib.backbones.contract.TextBackbone.load`."""
