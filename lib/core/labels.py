"""Forms of labels, and the words that may bear one."""

import re
from typing import Literal

LabelForm = Literal["class", "number", "set", "word", "span"]
"""Form of a document's label: one class, a number, a set of classes, a class of each word, or spans."""

IGNORED = -100
"""Label of a word or token that has none; cross-entropy leaves it out."""
UNKNOWN = -1
"""Label of a word or token that is predicted in a test split without labels."""

# White space as Unicode has it, and as the tokenisers split at it: Python counts U+001C to U+001F among it, too.
_WORD = re.compile(r"[\S\x1c-\x1f]+")


def words(text: str) -> list[str]:
    """Return the words of a text, as white space separates them."""
    return _WORD.findall(text)


def word_spans(text: str) -> list[tuple[int, int]]:
    """Return where each word of a text begins and ends, in characters."""
    return [word.span() for word in _WORD.finditer(text)]
