"""Settings of documents whose evidence is placed inside other texts."""

from typing import Literal

from lib.core.settings import BaseSettings, CorpusName, Seed, Size

Place = Literal["start", "middle", "end", "scattered"]


class Placement(BaseSettings):
    """Where the text of each document is inside articles of a corpus, so that its label depends on that place alone."""

    corpus: CorpusName
    """Corpus of the surrounding articles: those after its slices `short`, `long` and `held_out`, each for one document.
    """
    place: Place
    """Place of the text: `start`, `middle` or `end` of the document as a whole, or `scattered`: each of its sentences
    between two other sentences that a draw chooses, in order."""
    words: Size
    """Words of a document, as white space separates them; a document with a longer text is refused (`max_chars` drops
    such texts)."""
    seed: Seed = 0
    """Seed of the draws: which document has which articles, and the gaps of sentences."""
