"""Which words may be replaced, and how a new one takes the place."""

import numpy as np
import pytest

from studies.hate_speech.augmentation.words import Request, cased, chosen, replaceable, replaced


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("A dog, (or a cat) ran.", ["A", "dog", "or", "a", "cat", "ran"]),
        ("RT @user: I don't like #dogs http://a.bc/d 4ever a_b well-known", ["RT", "I", "don't", "like", "well-known"]),
        ("«Čuvaj se» psa!", ["Čuvaj", "se", "psa"]),
        ("one\ntwo\t“three”", ["one", "two", "three"]),
        ("... 12 :)", []),
    ],
)
def test_words_stand_alone(text, words):
    assert [text[start:end] for start, end in replaceable(text)] == words


def test_new_words_take_the_places_of_old_ones():
    text = "a dog, a cat"
    assert replaced(text, {(2, 5): "domestic dog", (9, 12): "ox"}) == "a domestic dog, a ox"
    assert replaced(text, {}) == text


@pytest.mark.parametrize(
    ("word", "like", "result"),
    [
        ("hound", "dog", "hound"),
        ("hound", "Dog", "Hound"),
        ("hound", "DOG", "HOUND"),
        ("hound", "I", "Hound"),
        ("Boston", "hub", "Boston"),
        ("domestic dog", "Dog", "Domestic dog"),
    ],
)
def test_case_is_kept(word, like, result):
    assert cased(word, like) == result


@pytest.mark.parametrize(("share", "number"), [(0.01, 1), (0.2, 2), (0.5, 5), (1.0, 8)])
def test_a_share_of_all_words_is_drawn_from_those_that_can_be_replaced(share, number):
    text = "one two three four five six seven eight 9 10"
    places = replaceable(text)
    drawn = chosen(Request(text, np.random.default_rng(0)), places, share)
    assert len(set(drawn)) == number
    assert drawn == sorted(drawn)
    assert set(drawn) <= set(places)


def test_every_word_can_be_drawn():
    text = "one two three"
    drawn = [chosen(Request(text, np.random.default_rng(seed)), replaceable(text), 0.3)[0] for seed in range(50)]
    assert set(drawn) == set(replaceable(text))
