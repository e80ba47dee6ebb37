"""The score of TF-IDF on own texts."""

import random
import re

import pytest

from lib.advice.evidence import tfidf_fact
from lib.advice.preparing import OwnTexts

NEUTRAL = [f"neutral{number}" for number in range(30)]
WORDS = 60


def own_texts(*, signs=True, count=240, classes=2, labelled=True, sort=False):
    """Return texts of neutral words, the first of which is the sign of the class, or none."""
    draw = random.Random(1)
    labels = [number * classes // count if sort else number % classes for number in range(count)]
    texts = [" ".join(draw.choices(NEUTRAL, k=WORDS)) for _ in labels]
    if signs:
        texts = [f"sign{label} {text}" for label, text in zip(labels, texts, strict=True)]
    names = {f"class{number}": count // classes for number in range(classes)} if labelled else {}
    return OwnTexts({}, {"train": count}, texts, names, sample_labels=labels if labelled else [])


@pytest.mark.parametrize("classes", [3])
def test_score_of_tfidf_is_high_where_words_tell_the_class(classes):
    told, blind = (tfidf_fact(own_texts(signs=signs, classes=classes), {}, 60.0) for signs in (True, False))
    scores = [
        float(re.match(r"TF-IDF has a macro-F1 of ([\d.]+) % on 240 documents", each)[1]) for each in (told, blind)
    ]
    assert scores[0] > 80 > 100 / classes + 15 > scores[1]


def test_score_of_tfidf_without_labels_or_documents():
    assert tfidf_fact(own_texts(count=18), {}, 60.0) is None
    assert tfidf_fact(own_texts(labelled=False), {}, 60.0) is None
    assert tfidf_fact(own_texts(), None, 60.0) is None
