"""Reviews whose label is who said it: the author's opinion, among opinions of others that are always opposite.

In some reviews the author and others have equally many sentences, so good and bad words are equally frequent in both
classes. In the rest, others have one only, which frequencies tell. Between a speaker and an opinion are at least two
words, on either side, so no two neighbouring words tell the classes apart. The sentences of a speaker stand together,
in either order, so that a mechanism with smooth weights can learn in seconds to look around an opinion for whose it is.
"""

import random

from lib.preparing.english import COMMON, FILM, sentences
from lib.preparing.generators import GeneratorOptions

FILES = {"test": ["test.parquet"], "train": ["train.parquet"]}

_OPENINGS = ("NAME and NAME saw this in PLACE", "the NOUN in PLACE looked ADJ")
_SPEAKERS = {
    "author": ("i myself found", "i myself thought", "i myself considered"),
    "others": ("they themselves called", "they themselves believed", "they themselves named"),
}
_OPINIONS = (
    "SPEAKER the ASPECT OPINION in the MOMENT",
    "SPEAKER the ASPECT OPINION after the MOMENT",
    "SPEAKER the ASPECT OPINION for a MOMENT",
)
_PAIRS = 3
_ONE_SHARE = 0.6
"""Share of the reviews in which others have one sentence only."""


def opinions(rng: random.Random, label: int, pairs: int) -> list[str]:
    """Return sentences of opinions: `pairs` of the author (1 = liked, 0 = disliked), 1 or `pairs` of others."""
    numbers = {"author": pairs, "others": 1 if rng.random() < _ONE_SHARE else pairs}
    tones = {"author": ("BAD", "GOOD")[label], "others": ("GOOD", "BAD")[label]}
    speakers = list(tones)
    rng.shuffle(speakers)
    said = []
    for speaker in speakers:
        lists = FILM | {"SPEAKER": _SPEAKERS[speaker], "OPINION": FILM[tones[speaker]]}
        said += sentences(rng, _OPINIONS, lists, numbers[speaker])
    return said


def review(rng: random.Random, label: int) -> str:
    """Return a review by an author who liked (1) or disliked (0) the film."""
    said = opinions(rng, label, _PAIRS)
    halves = sentences(rng, _OPENINGS, COMMON, rng.randint(0, 1)) + said[: len(said) // 2], said[len(said) // 2 :]
    return "<br /><br />".join(" ".join(half) for half in halves)


def make(documents: int, rng: random.Random, options: GeneratorOptions) -> dict[str, dict[str, list]]:
    """Return the tables of the two parts, `text` and `label`, half of the documents each."""
    labels = [number % 2 for number in range(documents)]
    rng.shuffle(labels)
    texts = [review(rng, label) for label in labels]
    parts = {"test": slice(documents // 2), "train": slice(documents // 2, None)}
    return {name: {"text": texts[parts[part]], "label": labels[parts[part]]} for part, (name,) in FILES.items()}
