"""Selective copying as MAD publishes it: a text scatters some symbols among blanks, and asks for them in their order.

After the sign `>` come as many question marks as there are symbols; the label of the first question mark is the first
symbol, and so on. A model must count the symbols and not the words. The symbols stand nowhere behind the sign, so
reading in both directions reveals nothing.

Source:
    M. Poli et al. 2024, "Mechanistic Design and Scaling of Hybrid Architectures", section 3, and
    `generate_copying_instance` of github.com/athms/mad-lab (`mad/data/instances.py`), whose blanks are inserted before
    a symbol, never behind the last. Its slots for the answers are blanks, too; here they are question marks.
"""

import random
from collections.abc import Iterator

from pydantic import Field

from lib.core.labels import IGNORED
from lib.core.settings import Size, check
from lib.preparing import toys

FILES = toys.FILES

BLANK, COPY, ASKED = "b", ">", "?"


class Options(toys.ToyOptions):
    """Symbols among blanks, and slots for them."""

    symbols: Size = Field(14, ge=2)
    """Different symbols (s0, s1 and so on), which are the classes."""
    copied: Size = 16
    """Symbols of a text, drawn with repetition."""
    length: Size = 256
    """Words of a text."""

    @check
    def _everything_has_room(self) -> Iterator[str]:
        if (needed := 2 * self.copied + 1) > self.length:
            yield f"length = {self.length}, but {self.copied} symbols, the sign and the slots need {needed}. Raise it"


def make(documents: int, rng: random.Random, options: Options) -> dict[str, dict[str, list]]:
    """Return the tables of the three splits: `text`, and `label` per word."""
    return toys.tables([_row(rng, options) for _ in range(documents)], options.sizes(documents))


def _row(rng: random.Random, options: Options) -> toys.Row:
    """Return one text and its labels."""
    drawn = [rng.randrange(options.symbols) for _ in range(options.copied)]
    blanks = options.length - 2 * options.copied - 1
    before = [rng.randrange(options.copied) for _ in range(blanks)]  # the symbol that each blank precedes
    words = [word for place, symbol in enumerate(drawn) for word in (*[BLANK] * before.count(place), f"s{symbol}")]
    labels = [IGNORED] * (len(words) + 1) + drawn
    return " ".join([*words, COPY, *[ASKED] * options.copied]), labels
