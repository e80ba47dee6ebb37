"""Long papers of eleven classes, which differ in their topic words; every paper also draws on a second class."""

import random

from lib.preparing.english import COMMON, TOPICS, sentences
from lib.preparing.generators import GeneratorOptions

FILES = {part: [f"{part}.parquet"] for part in ("test", "train", "validation")}

_CLASSES = tuple(TOPICS)
_PATTERNS = (
    "we show that the TERM of the TERM is ADJ in NUMBER cases",
    "the TERM was described by NAME for a ADJ TERM",
    "let the TERM be ADJ and let the TERM have NUMBER parts",
    "section NUMBER compares the TERM with the TERM of NAME",
    "our result on the TERM holds for NUMBER of the TERM examples",
    "it follows that the TERM and the TERM are ADJ",
)
_SENTENCES = (28, 38)
_SECOND_SHARE = (0.2, 0.5)
"""Least and greatest share of sentences that draw on the second class."""


def paper(rng: random.Random, label: int) -> str:
    """Return a paper of class number `label`."""
    second = rng.choice([name for number, name in enumerate(_CLASSES) if number != label])
    share = rng.uniform(*_SECOND_SHARE)
    made = []
    for _ in range(rng.randint(*_SENTENCES)):
        topic = second if rng.random() < share else _CLASSES[label]
        made += sentences(rng, _PATTERNS, COMMON | {"TERM": TOPICS[topic]}, 1)
    return "\n".join(" ".join(made[start : start + 6]) for start in range(0, len(made), 6))


def make(documents: int, rng: random.Random, options: GeneratorOptions) -> dict[str, dict[str, list]]:
    """Return the tables of the three parts, `text` and `label`: a tenth for test, a tenth for validation."""
    labels = [number % len(_CLASSES) for number in range(documents)]
    rng.shuffle(labels)
    texts = [paper(rng, label) for label in labels]
    tenth = documents // 10
    parts = {"test": slice(tenth), "train": slice(2 * tenth, None), "validation": slice(tenth, 2 * tenth)}
    return {name: {"text": texts[parts[part]], "label": labels[parts[part]]} for part, (name,) in FILES.items()}
