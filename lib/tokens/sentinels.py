"""Sentinel tokens, which replace removed spans of a text."""


def sentinel(number: int) -> str:
    """Return the sentinel token of a number, counted from 0, as T5's vocabulary spells it."""
    return f"<extra_id_{number}>"
