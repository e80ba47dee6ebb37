"""Which mechanism of a list that repeats over the layers each of them has.

Apart from the settings, which do not count in digests of code: another rule is another model.
"""

from collections.abc import Sequence
from typing import TypeVar

Entry = TypeVar("Entry")


def of_layer(held: Sequence[Entry], layer: int) -> Entry:
    """Return the entry that a layer has; layers that attend count from 0, the lowest."""
    return held[layer % len(held)]
