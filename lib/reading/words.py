"""The words of a text in any script, and how much of it tells its language."""

import regex

IDENTIFIED_BY = 1_000
"""Most characters of a text that identify its language."""
UNSURE = 0.05
"""Confidence below which a text's language is undetermined (`und`): no more than a text without words has."""
_ENDS = (".", "!", "?")
_CLOSING = "\"'\u2019\u201d)]"
_SIGN = r"[[\p{Han}\p{Hiragana}\p{Katakana}\p{Line_Break=CJ}\p{Line_Break=SA}]--\p{M}]\p{M}*"
_UNSPACED = regex.compile(_SIGN, regex.VERSION1)
_WORD = regex.compile(rf"{_SIGN}|(?:(?!{_SIGN}).)+", regex.VERSION1)


def words_of(text: str) -> list[str]:
    """Return the words of a text: runs between white space, or single signs in scripts without spaces.

    These are Chinese, Japanese, and those of South-East Asia such as Thai, Lao, Khmer and Burmese; a sign includes the
    marks on it. They are also counted so by convention where no dictionary is at hand.
    """
    if _UNSPACED.search(text) is None:
        return text.split()
    return [word for run in text.split() for word in _WORD.findall(run)]


def ends_sentence(word: str) -> bool:
    """Return whether a word ends a sentence: by a full stop or the like, which quotation marks and brackets may follow.

    Abbreviations end sentences, too. What uses the rule does not depend on single sentences being right.
    """
    return word.rstrip(_CLOSING).endswith(_ENDS)
