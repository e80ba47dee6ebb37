"""The hint on where the evidence stands: said where it is known, with the cut that keeps it; otherwise nothing."""

import random
import re
from dataclasses import replace

import numpy as np
import pytest

from lib.advice.evidence import NGRAMS_PER_SECOND, evidence_hint
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
    found = evidence_hint(own, np.full(len(own.texts), tokens), reach, ngrams or {}, seconds)
    return "".join(found)


def test_the_best_tenth_is_named_with_its_interval_and_the_limits_of_the_hint():
    text = hint(own_texts(0))
    assert text.startswith("## Where the evidence stands\n\nTF-IDF that reads one tenth of each of the 240 documents")
    assert "with more than 25 tokens has a macro-F1 of" in text
    assert "to 100.0 %" in text
    assert "(Holm): 1 (+" in text
    assert "points, " in text
    assert "This counts words alone" in text


@pytest.mark.parametrize(
    ("place", "advised"),
    [
        (0, "The first 25 tokens of a document of the median length hold them: try this cut first."),
        (1, "The first 25 tokens of a document of the median length hold them: try this cut first."),
        (2, "25 tokens leave out 3: try segments, or a longer limit."),  # half of it is read
        (5, "25 tokens leave out 6: try segments, or a longer limit."),
        (9, "The first 25 tokens leave out 10, both ends (`cut: head_tail`) do not: try these first."),
    ],
)
def test_what_is_advised_follows_from_where_the_best_tenths_stand(place, advised):
    assert advised in hint(own_texts(place))


@pytest.mark.parametrize("place", [None, "nowhere"])
def test_nothing_is_said_where_no_tenth_is_significantly_better(place):
    assert hint(own_texts(place)) == ""


def test_documents_that_are_read_as_a_whole_do_not_count():
    own = own_texts(0)
    assert hint(own, reach=100) == ""
    lengths = np.where(np.arange(240) % 4 < 2, 101, 99)
    (text,) = evidence_hint(own, lengths, 100, {}, 60.0)
    assert "of the 120 documents" in text


def test_too_few_documents_texts_without_labels_and_without_words_give_no_hint():
    assert hint(own_texts(0, count=18)) == ""
    assert hint(own_texts(0, labelled=False)) == ""
    assert evidence_hint(own_texts(0), np.full(240, 100), 25, None, 60.0) == []


def test_little_time_reads_few_documents_of_all_classes_even_of_sorted_files():
    own = own_texts(0, sort=True)
    (text,) = evidence_hint(own, np.full(240, 100), 25, {}, 100 * WORDS / NGRAMS_PER_SECOND)
    assert "of the 100 documents" in text


def test_three_classes():
    assert "(Holm): 4 (+" in hint(own_texts(3, classes=3))


def test_a_class_without_long_documents_takes_no_part_in_their_score():
    own = own_texts(0)
    labels = [2 * label for label in own.sample_labels]  # the class between the two has short documents alone
    names = {"class0": 120, "class1": 40, "class2": 120}
    more = replace(own, texts=[*own.texts, *["a short text"] * 40], sample_labels=[*labels, *[1] * 40], classes=names)
    (text,) = evidence_hint(more, np.array([100] * 240 + [5] * 40), 25, {}, 60.0)
    assert "of the 240 documents" in text
    assert "to 100.0 %, over the 2 classes that they have; on all" in text


def test_the_budget_is_of_what_is_counted_and_what_it_leaves_out_is_said():
    """Of characters in runs of up to three, a text has 18 times as many as of words."""
    own, characters = own_texts(0), {"unit": "characters", "ngram_max": 3}
    size = 3 * len(own.texts[0])
    (text,) = evidence_hint(own, np.full(240, 100), 25, characters, 100 * size / NGRAMS_PER_SECOND)
    assert re.search(
        r"of the (9\d|10\d) documents .* To keep --seconds, 1[34]\d of 240 long documents were left out\.$", text
    )
    (text,) = evidence_hint(own, np.full(240, 100), 25, characters, 5 * size / NGRAMS_PER_SECOND)
    assert re.search(r"It was not looked for\. To keep --seconds, 23\d of 240 long documents were left out\.$", text)
