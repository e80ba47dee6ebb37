"""The score of TF-IDF, and the tenths of long documents where the evidence stands."""

import random
import re
from dataclasses import replace

import numpy as np
import pytest

from lib.advice.evidence import NGRAMS_PER_SECOND, tfidf_fact
from lib.advice.preparing import OwnTexts

NEUTRAL = [f"neutral{number}" for number in range(30)]
WORDS = 60


def own_texts(place, count=240, classes=2, labelled=True, sort=False):
    """Return texts of neutral words with a sign of the class in a tenth; None = in any, "nowhere" = in none."""
    draw = random.Random(1)
    texts, labels = [], []
    for number in range(count):
        label = number * classes // count if sort else number % classes
        words = draw.choices(NEUTRAL, k=WORDS)
        if place != "nowhere":
            tenth = draw.randrange(10) if place is None else place
            words[tenth * WORDS // 10 + draw.randrange(WORDS // 10)] = f"sign{label}"
        texts.append(" ".join(words))
        labels.append(label)
    names = {f"class{number}": count // classes for number in range(classes)} if labelled else {}
    return OwnTexts({}, {"train": count}, texts, names, sample_labels=labels if labelled else [])


def hint(own, reach=25, tokens=100, ngrams=None, seconds=60.0):
    return tfidf_fact(own, np.full(len(own.texts), tokens), reach, ngrams or {}, seconds)


def test_the_best_tenth_is_named_with_its_interval_and_the_limits_of_the_hint():
    text = hint(own_texts(0))
    assert re.match(r"TF-IDF has a macro-F1 of [\d.]+ % on 240 documents with more than 25 tokens", text)
    assert re.search(r"to 100\.0 %; significantly above their mean \(Holm\): 1 \(\+[\d.]+ points, [\d.]+ to", text)
    assert "This counts words alone" in text
    assert "(Holm): 4 (+" in hint(own_texts(3, classes=3))


@pytest.mark.parametrize("place", [None, "nowhere"])
def test_no_tenth_is_named_where_none_is_significantly_better(place):
    assert hint(own_texts(place)).endswith("none is significantly above their mean.")


def test_documents_that_are_read_as_a_whole_have_no_tenths():
    own = own_texts(0)
    assert "tenth" not in hint(own, reach=100)
    assert re.match(r"TF-IDF has a macro-F1 of \d+\.\d % on 240 documents, each half", hint(own, reach=100))
    lengths = np.where(np.arange(240) % 4 < 2, 101, 99)
    assert "on 120 documents with more than 100 tokens" in tfidf_fact(own, lengths, 100, {}, 60.0)


def test_too_few_documents_texts_without_labels_and_without_words_give_no_score():
    assert hint(own_texts(0, count=18)) is None
    assert hint(own_texts(0, labelled=False)) is None
    assert tfidf_fact(own_texts(0), np.full(240, 100), 25, None, 60.0) is None


@pytest.mark.parametrize(
    ("settings", "size"), [({}, WORDS), ({"unit": "characters", "ngram_max": 3}, 3 * len(own_texts(0).texts[0]))]
)
def test_little_time_reads_few_documents_of_all_classes_even_of_sorted_files(settings, size):
    """The time is of n-grams: a text has 18 times as many of characters in runs of up to three as of words."""
    own = own_texts(0, sort=True)
    text = tfidf_fact(own, np.full(240, 100), 25, settings, 100 * size / NGRAMS_PER_SECOND)
    assert re.search(r"on (9\d|10\d) documents", text)


def test_a_class_without_long_documents_takes_no_part_in_their_score():
    own = own_texts(0)
    labels = [2 * label for label in own.sample_labels]  # the class between the two has short documents alone
    names = {"class0": 120, "class1": 40, "class2": 120}
    more = replace(own, texts=[*own.texts, *["a short text"] * 40], sample_labels=[*labels, *[1] * 40], classes=names)
    text = tfidf_fact(more, np.array([100] * 240 + [5] * 40), 25, {}, 60.0)
    assert "on 240 documents with more than 25 tokens" in text
    assert "to 100.0 %" in text
