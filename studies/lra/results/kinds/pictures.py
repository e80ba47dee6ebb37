"""What documents look like that are pictures: the first ones of each class."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Literal

import matplotlib.style
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from lib.core.errors import DataError
from lib.core.settings import Few
from lib.results.scope import Scope
from lib.results.settings import FigureSettings, Topic
from lib.results.style import STYLE, panel_grid

INCHES = (1.5, 1.6)
"""Size of a picture."""


class PicturesFigure(FigureSettings):
    """Documents that are square pictures, whose words are grey values: the first ones of the test split, by class."""

    about: ClassVar[Topic] = "texts"
    reads: ClassVar[Literal["documents"]] = "documents"

    kind: Literal["pictures"]
    examples: Few = 4
    """Pictures of each class."""

    @matplotlib.style.context(STYLE)
    def draw(self, scope: Scope) -> Figure:
        """Draw the first pictures of each class of each dataset, 0 being black and 255 white.

        Raises:
            DataError: documents are no square pictures, or a file cannot be read.
        """
        shown = [
            (f"{dataset}: {label}" if len(scope.documents) > 1 else label, picture)
            for (dataset, labels, _), file in zip(scope.documents, scope.files, strict=True)
            for label, picture in _first(file, labels, self.examples)
        ]
        figure, panels = panel_grid(len(shown), INCHES)
        for axes, (title, picture) in zip(panels, shown, strict=True):
            axes.set_title(title, fontsize=7)
            axes.imshow(picture, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
            axes.set_axis_off()
        return figure


def _first(file: str | Path, labels: Sequence[str], number: int) -> list[tuple[str, np.ndarray]]:
    try:
        documents = pd.read_parquet(file, columns=["text", "label"])
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"{file}: cannot be read ({error}). Expected prepared documents. Make it again.") from error
    first = documents.groupby("label").head(number).sort_values("label", kind="stable")
    return [(labels[label], _picture(text, file)) for text, label in zip(first["text"], first["label"], strict=True)]


def _picture(text: str, file: str | Path) -> np.ndarray:
    """Return the grey values of a document [side, side]."""
    words = text.split()
    side = math.isqrt(len(words))
    if side * side != len(words) or not all(word.isdecimal() and int(word) < 256 for word in words):
        raise DataError(
            f"{file}: '{text[:40]}' is no picture. Expected a square number of words, each a grey value from 0 to 255. "
            "Name datasets of pictures under 'datasets' of the figure."
        )
    return np.array(words, dtype=np.uint8).reshape(side, side)
