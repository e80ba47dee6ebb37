"""Which words may be replaced, and how a new one takes the place."""

import numpy as np
import pytest

from studies.hate_speech.augmentation.words import Request, cased, chosen, replaceable, replaced

pytestmark = pytest.mark.extended


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("RT @user: I don't like #dogs http://a.bc/d 4ever a_b well-known", ["RT", "I", "don't", "like", "well-known"]),
        ("«Čuvaj se» psa!", ["Čuvaj", "se", "psa"]),
    ],
)
def test_words_alone(text, words):
    assert [text[start:end] for start, end in replaceable(text)] == words


def test_words_replaced():
    text = "a dog, a cat"
    assert replaced(text, {(2, 5): "domestic dog", (9, 12): "ox"}) == "a domestic dog, a ox"
    assert replaced(text, {}) == text


@pytest.mark.parametrize(
    ("word", "like", "result"),
    [("hound", "dog", "hound"), ("hound", "Dog", "Hound"), ("hound", "DOG", "HOUND"), ("Boston", "hub", "Boston")],
)
def test_case_kept(word, like, result):
    assert cased(word, like) == result


@pytest.mark.parametrize(("share", "number"), [(0.01, 1), (0.5, 5)])
def test_share_of_words(share, number):
    text = "one two three four five six seven eight 9 10"
    places = replaceable(text)
    drawn = chosen(Request(text, np.random.default_rng(0)), places, share)
    assert len(set(drawn)) == number
    assert drawn == sorted(drawn)
    assert set(drawn) <= set(places)
