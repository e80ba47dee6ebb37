"""The two senses of a word: every text has `bank` once, at a river (0) or for money (1).

For contextual embeddings: the word itself is the same in both senses, and so are the patterns of the sentences, the
places of `bank` in them and all other words but two, which tell the sense. No vector that belongs to a word
can hold what `bank` means; a state that has taken in its context can. To name the sense of a text is easy on purpose:
one of the two words is enough, wherever it stands, so a bag of words does it, too.
"""

import random

from lib.preparing import toys
from lib.preparing.english import COMMON, Lists, words

FILES = toys.FILES

WORD = "bank"

_FINANCE = ["loan", "account", "credit", "cheque", "mortgage", "savings", "cashier", "deposit", "salary", "interest"]
SENSES: dict[str, Lists] = {
    "river": {
        "THING": ["water", "mud", "fish", "boat", "flood", "reeds", "willow", "otter", "ferry", "current"],
        "DEED": ["fished", "swam", "rowed", "paddled", "waded", "camped", "drifted"],
    },
    "money": {
        "THING": _FINANCE,
        "DEED": ["paid", "borrowed", "saved", "queued", "signed", "invested", "withdrew"],
    },
}
"""Words that decide the meaning of "bank"."""

_PATTERNS = (
    "in TIME NAME and NAME DEED at the bank near the ADJ NOUN because of the THING",
    "the THING was ADJ when NAME came to the bank in PLACE and DEED",
    "NAME VERBED the ADJ NOUN behind the bank and wrote to NAME about the THING and the THING",
    "people from PLACE DEED until the bank was quiet and nobody talked about the THING in TIME",
    "the bank by the ADJ NOUN was known for its THING and NAME and NAME DEED there for NUMBER years",
    "NAME thought of the THING and the THING while NAME VERBED a NOUN close to the bank",
)
# Nothing that has to do with water or money.
_NEUTRAL = COMMON | {"NOUN": ("village", "garden", "station", "school", "road", "house", "castle", "church", "museum")}


class Options(toys.ToyOptions):
    """Sentences with `bank` in one of two senses."""


def make(documents: int, rng: random.Random, options: Options) -> dict[str, dict[str, list]]:
    """Return the tables of the three splits, `text` (lower-case words, no punctuation) and `label`."""
    senses = list(SENSES.values())
    sizes = options.sizes(documents)
    rows: list[toys.Row] = []
    for sense in toys.evenly(range(len(senses)), sizes, rng):
        rows.append((" ".join(words(rng, rng.choice(_PATTERNS), _NEUTRAL | senses[sense])), sense))
    return toys.tables(rows, sizes)
