"""Which words of a text may be replaced, and how a new one takes an old one's place."""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from lib.core.labels import word_spans

WORD = r"[^\W\d_]+(?:['\u2019-][^\W\d_]+)*"
"""Letters of any script, with apostrophes and hyphens between them."""

# Alone between white space and punctuation, so that names of users, tags, numbers and addresses stay as they are.
_REPLACEABLE = re.compile(rf"(?<!\S)[\"'\u201c\u2018«(\[]*({WORD})(?=[\"'\u201d\u2019»)\].,;:!?…]*(?!\S))")

Place = tuple[int, int]
"""Where a word begins and ends, in characters."""


class Request(NamedTuple):
    """A text to be rewritten."""

    text: str
    draws: np.random.Generator
    """What decides which words are replaced, and by what."""


class Rewriter(Protocol):
    """One way of rewriting texts."""

    def rewrite(self, requests: Sequence[Request]) -> list[str | None]:
        """Return each text with some words replaced; None if no word can be replaced."""


def replaceable(text: str) -> list[Place]:
    """Return the places of the words that may be replaced, in order."""
    return [match.span(1) for match in _REPLACEABLE.finditer(text)]


def chosen(request: Request, places: Sequence[Place], share: float) -> list[Place]:
    """Return the places to be replaced, drawn from `places`, in order.

    Args:
        request: the text.
        places: of the words that can be replaced, at least one.
        share: of all words of the text; one is drawn at least, and no more than there are places.
    """
    wanted = max(1, round(share * len(word_spans(request.text))))
    numbers = request.draws.choice(len(places), size=min(wanted, len(places)), replace=False)
    return [places[number] for number in sorted(numbers)]


def replaced(text: str, words: Mapping[Place, str]) -> str:
    """Return `text` with these words in these places, as they are."""
    for (start, end), word in sorted(words.items(), reverse=True):
        text = text[:start] + word + text[end:]
    return text


def cased(word: str, like: str) -> str:
    """Return `word` in capitals, or with a capital first letter, if `like` is so; else as it is."""
    if len(like) > 1 and like.isupper():
        return word.upper()
    return word[:1].upper() + word[1:] if like[:1].isupper() else word
