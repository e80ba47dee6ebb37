"""Sentences of a text, by a rule that needs no model: a word that ends in a full stop or the like ends one.

Abbreviations end sentences, too. What uses the rule does not depend on single sentences being right.
"""

from lib.core.labels import words

_ENDS = (".", "!", "?")
_CLOSING = "\"'\u2019\u201d)]"


def ends_sentence(word: str) -> bool:
    """Return whether a word ends a sentence; quotation marks and brackets may follow the end."""
    return word.rstrip(_CLOSING).endswith(_ENDS)


def sentences(text: str) -> list[list[str]]:
    """Return the sentences of a text, each as its words; together they are `lib.core.labels.words` of the text."""
    found: list[list[str]] = []
    ended = True
    for word in words(text):
        if ended:
            found.append([])
        found[-1].append(word)
        ended = ends_sentence(word)
    return found
