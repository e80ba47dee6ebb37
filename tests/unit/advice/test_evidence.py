"""The score of TF-IDF on own texts."""

import random
import re

from lib.advice.evidence import tfidf_fact
from lib.advice.preparing import OwnTexts

NEUTRAL = [f"neutral{number}" for number in range(30)]


def own_texts(*, signs):
    """Return texts of neutral words, the first of which is the sign of one of three classes, or none."""
    draw = random.Random(1)
    labels = [number % 3 for number in range(240)]
    texts = [" ".join(draw.choices(NEUTRAL, k=60)) for _ in labels]
    if signs:
        texts = [f"sign{label} {text}" for label, text in zip(labels, texts, strict=True)]
    names = {f"class{number}": 80 for number in range(3)}
    return OwnTexts({}, {"train": 240}, texts, names, sample_labels=labels)


def test_score_of_tfidf_is_high_where_words_tell_the_class():
    told, blind = (tfidf_fact(own_texts(signs=signs), {}, 60.0) for signs in (True, False))
    scores = [
        float(re.match(r"TF-IDF has a macro-F1 of ([\d.]+) % on 240 documents", each)[1]) for each in (told, blind)
    ]
    assert scores[0] > 80 > 100 / 3 + 15 > scores[1]
