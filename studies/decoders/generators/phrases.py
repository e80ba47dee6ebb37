"""Posts with planted phrases, which are the spans: loaded words, and the words between them.

A phrase begins and ends with a loaded word, and no other words are loaded. Those between them also occur outside, and
only their neighbours tell that they are inside. About a third of the posts has no phrase. Emoji stand between
sentences, so that characters are neither bytes nor UTF-16 units.
"""

import random

from lib.preparing import toys
from lib.preparing.english import COMMON, POLITICS, sentence, words

FILES = toys.FILES

_LISTS = COMMON | POLITICS
_NEUTRAL = (
    "NAME VERBED the ADJ NOUN in PLACE",
    "the ADJ NOUN in PLACE was quiet this TIME",
    "the OFFICE in PLACE talked about ISSUE for NUMBER hours",
    "people VERBED a NOUN near the NOUN",
)
_PHRASES = (
    "LOADED about the ADJ NOUN LOADED",
    "LOADED OFFICE and ISSUE LOADED",
    "LOADED in PLACE this TIME LOADED",
    "LOADED LOADED",
)
_SIGNS = ("", "", "\N{FIRE} ", "\N{WARNING SIGN}\N{VARIATION SELECTOR-16} ", "\U0001f1fa\U0001f1e6 ")


class Options(toys.ToyOptions):
    """Posts, some of them with loaded phrases."""


def post(rng: random.Random, phrases: int) -> tuple[str, list[list[int]]]:
    """Return a post with this number of phrases, and their places: pairs [start, end) of characters."""
    planted = [True] * phrases + [False] * rng.randint(1, 3)
    rng.shuffle(planted)
    text, spans = "", []
    for is_planted in planted:
        text += rng.choice(_SIGNS) + sentence(rng, rng.choice(_NEUTRAL), _LISTS)
        if is_planted:
            phrase = " ".join(words(rng, rng.choice(_PHRASES), _LISTS))
            text = f"{text[:-1]}, {phrase}!"
            spans.append([len(text) - len(phrase) - 1, len(text) - 1])
        text += " "
    return text[:-1], spans


def make(documents: int, rng: random.Random, options: Options) -> dict[str, dict[str, list]]:
    """Return the tables of the three splits, `text` and `label`, the spans of the phrases."""
    sizes = options.sizes(documents)
    return toys.tables([post(rng, phrases) for phrases in toys.evenly([0, 1, 2], sizes, rng)], sizes)
