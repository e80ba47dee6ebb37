"""Analogies in vectors whose answers can be worked out by hand."""

import itertools

import numpy as np
import pytest
from word_vectors import stored

from studies.word_vectors.analogies import RELATIONS, answer
from studies.word_vectors.storage import load_vectors

PARTS = {"king": [1, 0, 0], "queen": [1, 1, 0], "man": [0, 0, 1], "woman": [0, 1, 1]}


def answers(folder):
    return {each.relation: each for each in answer(load_vectors(folder))}


def test_a_relation_that_is_one_direction_is_answered(tmp_path):
    found = answers(stored(tmp_path / "v", PARTS | {"bread": [-1, -1, -1]}))["gender"]
    pairs = RELATIONS["gender"].count(",") + 1
    assert found.questions == pairs * (pairs - 1)
    assert (found.known, found.correct) == (2, 2)  # man woman king queen, king queen man woman


def test_the_words_of_a_question_are_no_answer_and_a_nearer_one_is_a_wrong_answer(tmp_path):
    assert answers(stored(tmp_path / "v", PARTS | {"throne": [1, 1, 0.01]}))["gender"].correct == 2
    nearer = PARTS | {"queen": [1, 1, 0.3], "throne": [1, 1, 0]}
    assert answers(stored(tmp_path / "w", nearer))["gender"].correct == 1


def test_the_lengths_of_vectors_decide_nothing(tmp_path):
    words = PARTS | {"bread": [-1, -1, -1], "man": [0, 0, 10]}  # woman - man + king is nearest to bread as it is
    assert answers(stored(tmp_path / "v", words))["gender"].correct == 2


def test_capitals_are_asked_as_the_vectors_have_them(tmp_path):
    words = {"Paris": [1, 0, 0], "France": [1, 1, 0], "Rome": [0, 0, 1], "Italy": [0, 1, 1]}
    assert answers(stored(tmp_path / "cased", words, lowercase=False))["capital"].known == 2
    lowered = {word.lower(): vector for word, vector in words.items()}
    assert answers(stored(tmp_path / "lowered", lowered))["capital"].correct == 2
    assert answers(stored(tmp_path / "mixed", words))["capital"].known == 0


def test_no_question_is_asked_of_an_unknown_word(tmp_path):
    found = answers(stored(tmp_path / "v", {"king": np.ones(3), "queen": np.ones(3)}))
    assert {each.known for each in found.values()} == {0}


@pytest.mark.parametrize("relation", RELATIONS)
def test_every_pair_has_two_words_and_none_comes_twice(relation):
    pairs = [pair.split() for pair in RELATIONS[relation].split(", ")]
    assert all(len(pair) == 2 for pair in pairs)
    words = [word.lower() for word in itertools.chain(*pairs)]
    assert len(words) == len(set(words))
