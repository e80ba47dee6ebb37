"""Values of cells, read alike in every format: CSV has the text `1`, pandas may have written 1.0, JSON has 1."""

import re
import unicodedata
from decimal import Decimal
from typing import Any

MISSING = ""
"""Text of a cell without a value: null, NaN, or nothing but white space."""

HALF = re.compile("[\ud800-\udfff]")
"""Half of a surrogate pair, which no file can hold; also marks a byte that is not of the file's encoding."""

_WHOLE = re.compile(r"(-?[0-9]+)\.0*")


def cell_text(value: Any) -> str | None:
    """Return the text of a label, group or fold; None if the value is neither a text nor a number.

    1, 1.0, "1" and " 1.0 " are the same, and so are true, "True" and "TRUE". White space around a text does not count,
    and composed and decomposed accents are equal.
    """
    if value is None or value != value:  # NaN
        return MISSING
    if not isinstance(value, str | int | float | Decimal) or value in (float("inf"), float("-inf")):
        return None
    text = unicodedata.normalize("NFC", str(value)).strip()
    if whole := _WHOLE.fullmatch(text):
        text = whole[1]
    if text.lower() in ("true", "false"):
        text = text.lower()
    return None if HALF.search(text) else text


def half_found(value: str, encoding: str) -> str:
    """Return a sentence about the first half of a character in a text, and the encoding that was expected.

    Args:
        value: a text with such a half.
        encoding: of its file.
    """
    half = HALF.search(value)
    assert half is not None  # the caller checks this
    code = ord(half[0])
    is_byte = 0xDC80 <= code <= 0xDCFF
    what = f"the byte 0x{code - 0xDC00:02X}" if is_byte else f"half of a surrogate pair (U+{code:04X})"
    return f"has at character {half.start() + 1} {what}, which is not {encoding}. Name its own in 'dialect.encoding'"


def whole_number(text: str) -> int | None:
    """Return the whole number that a cell's text spells, if 64 bits hold it."""
    if not re.fullmatch("-?[0-9]{1,19}", text):
        return None
    return number if abs(number := int(text)) < 2**63 else None
