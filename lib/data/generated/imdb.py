"""Reviews whose label is who said it: the author's opinion, among opinions of others that are always opposite.

Each review has as many sentences of the author as of others, so good and bad words are equally frequent in both
classes. Between a speaker and an opinion stand at least two words, on either side, so no two neighbouring words tell
the classes apart.
"""

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from lib.core.generated import RAW_FILES
from lib.data.generated.language import COMMON, FILM, sentence, sentences

_OPENINGS = (
    "NAME and NAME saw this on a quiet evening in PLACE",
    "this was shown in PLACE last TIME",
    "the NOUN in PLACE looked ADJ in this one",
)
_OPINIONS = (
    "SPEAKER found the ASPECT OPINION from the first MOMENT",
    "SPEAKER called the ASPECT OPINION after the last MOMENT",
    "SPEAKER thought it was OPINION in the second MOMENT",
)
_PAIRS = 3


def review(rng: random.Random, label: int) -> str:
    """Return a review by an author who liked (1) or disliked (0) the film."""
    lists = COMMON | FILM
    opinions = {"i": ("BAD", "GOOD")[label], "they": ("GOOD", "BAD")[label]}
    said = [
        sentence(rng, rng.choice(_OPINIONS), lists | {"SPEAKER": (speaker,), "OPINION": FILM[opinion]})
        for speaker, opinion in opinions.items()
        for _ in range(_PAIRS)
    ]
    rng.shuffle(said)
    halves = sentences(rng, _OPENINGS, lists, 1) + said[:_PAIRS], said[_PAIRS:]
    return "<br /><br />".join(" ".join(half) for half in halves)


def write(documents: int, rng: random.Random, folder: Path) -> None:
    """Write the two Parquet files, `text` and `label`, half of the documents each."""
    labels = [number % 2 for number in range(documents)]
    rng.shuffle(labels)
    texts = [review(rng, label) for label in labels]
    half = documents // 2
    for (name,), part in zip(RAW_FILES["imdb"]["files"].values(), (slice(half), slice(half, None)), strict=True):
        pq.write_table(pa.table({"text": texts[part], "label": pa.array(labels[part], pa.int64())}), folder / name)
