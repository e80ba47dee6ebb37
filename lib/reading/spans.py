"""Spans of a text: pairs [start, end) of characters, and what becomes of them where a text is read by tokens.

Characters are Unicode code points, as Python counts them, and as fast tokenisers count their offsets.

n characters of a text, m tokens (of one window, or of all windows of a text).
"""

import ast
import reprlib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lib.core.errors import DataError
from lib.core.labels import IGNORED

Span = tuple[int, int]


def parse_spans(value: Any) -> list[Span]:
    """Return the spans of a raw value: a list of pairs, or its text as in CSV; None and no text are none.

    Raises:
        ValueError: it is anything else.
    """
    try:
        pairs = (ast.literal_eval(value) if value.strip() else ()) if isinstance(value, str) else value
        spans = [(start, end) for start, end in ([] if pairs is None else pairs)]
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError) as error:  # of the parser of Python
        raise ValueError(f"{reprlib.repr(value)} is no list of pairs [start, end)") from error
    for span in spans:
        if not all(isinstance(place, int | np.integer) and not isinstance(place, bool) for place in span):
            raise ValueError(f"{reprlib.repr(list(span))} is no pair of whole numbers")
    return [(int(start), int(end)) for start, end in spans]


def clean_spans(spans: Iterable[Span], characters: int, where: str) -> tuple[list[Span], Counter[str]]:
    """Return spans in order, without overlaps or contacts, and how many were repaired.

    What counts is which characters lie in a span, so touching ones are united, too.

    Args:
        spans: in any order.
        characters: n, of their text.
        where: name of the document, for messages.

    Returns:
        The spans, and numbers of spans that were `clipped` at the text's end, dropped as `empty` (one that begins at
        the text's end is both), and `united` with the one before.

    Raises:
        DataError: a span is inverted, or lies outside of the text.
    """
    counts: Counter[str] = Counter(clipped=0, empty=0, united=0)
    cleaned: list[Span] = []
    for start, end in sorted(spans):
        if end < start:
            raise DataError(f"{where}: the span [{start}, {end}] ends before it begins. Expected [start, end).")
        if start < 0 or start > characters:
            raise DataError(
                f"{where}: the span [{start}, {end}] lies outside of its text, which has {characters} characters. "
                "Expected Unicode code points, counted from 0, not bytes or UTF-16 units."
            )
        counts["clipped"] += end > characters
        end = min(end, characters)
        if start == end:
            counts["empty"] += 1
        elif cleaned and start <= cleaned[-1][1]:
            counts["united"] += 1
            cleaned[-1] = cleaned[-1][0], max(cleaned[-1][1], end)
        else:
            cleaned.append((start, end))
    return cleaned, counts


def marked(spans: Iterable[Sequence[int]], characters: int) -> np.ndarray:
    """Return which characters lie in a span [n]."""
    inside = np.zeros(characters, bool)
    for start, end in spans:
        inside[start:end] = True
    return inside


def token_labels(starts: ArrayLike, ends: ArrayLike, inside: np.ndarray) -> list[int]:
    """Return the label of each token: 1 if any of its characters is inside of a span, else 0.

    So no span is lost that a token touches. A token without characters, such as [CLS], has no label (-100).

    Args:
        starts: where the tokens begin, in characters [m].
        ends: where they end [m].
        inside: which characters lie in a span [n].
    """
    before = np.concatenate([[0], np.cumsum(inside)])
    starts, ends = np.asarray(starts, int), np.asarray(ends, int)
    return np.where(starts == ends, IGNORED, before[ends] > before[starts]).tolist()
