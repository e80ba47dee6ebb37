"""Pathfinder: are two markers in a picture joined by one dashed contour? A document is a picture of 32 x 32 pixels.

Its words are the grey values from 0 to 255, row by row: 1,024 of them. `label` is 1 if the markers are joined; both
answers are equally frequent in every split. Two long contours, which may cross, and short ones that distract are drawn
by `studies.lra.contours`. Nothing but the whole way from one marker to the other tells the answer.

Source: D. Linsley et al. (2018), "Learning long-range spatial dependencies with horizontal gated recurrent units"; as
the task `Path` of Y. Tay et al. (2021), "Long Range Arena: A Benchmark for Efficient Transformers". That has a fixed
set of pictures, whose labels were drawn by chance; here other ones are drawn.
"""

import random
from typing import Literal

from lib.preparing import toys

FILES = toys.FILES

_DISTRACTING = 20
"""Dashes of all distractors of a picture, at most."""


class Options(toys.ToyOptions):
    """Pictures of dashed contours."""

    dashes: Literal[6, 9, 14] = 14
    """Dashes of each of the two long contours: 6, 9 or 14, which Long Range Arena calls easy, intermediate and hard. A
    distractor has a third as many."""


def make(documents: int, rng: random.Random, options: Options) -> dict[str, dict[str, list]]:
    """Return the tables of the three splits: `text`, the grey values as words, and `label`."""
    from studies.lra.contours import picture  # numpy, scipy and Pillow, which a plan of a study needs not

    short = options.dashes // 3
    sizes = options.sizes(documents)
    rows: list[toys.Row] = []
    for label in toys.evenly([0, 1], sizes, rng):
        values = picture(rng, label == 1, options.dashes, _DISTRACTING // short, short).values
        rows.append((" ".join(map(str, values.ravel().tolist())), label))
    return toys.tables(rows, sizes)
