"""Values of raw files that name something: a document, or the fold that it is in."""

import math
from typing import Any


def named(value: Any) -> str | None:
    """Return the name that a value of a file gives; None if it is neither a text nor a number.

    JSON and Parquet also hold lists, mappings, truth values, NaN and bytes, and Python spells these its own way. JSON
    can spell half a character, which no other file holds.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    name = str(value)
    return name if name.isascii() or not any("\ud800" <= character <= "\udfff" for character in name) else None
