"""Analogies in vectors whose answers can be worked out by hand."""

from word_vectors import stored

from studies.word_vectors.analogies import RELATIONS, answer
from studies.word_vectors.storage import load_vectors

PARTS = {"king": [1, 0, 0], "queen": [1, 1, 0], "man": [0, 0, 1], "woman": [0, 1, 1]}


def answers(folder):
    return {each.relation: each for each in answer(load_vectors(folder))}


def test_analogy_of_one_direction(tmp_path):
    found = answers(stored(tmp_path / "v", PARTS | {"bread": [-1, -1, -1]}))["gender"]
    pairs = RELATIONS["gender"].count(",") + 1
    assert found.questions == pairs * (pairs - 1)
    assert (found.known, found.correct) == (2, 2)  # man woman king queen, king queen man woman


def test_answers_without_the_question(tmp_path):
    assert answers(stored(tmp_path / "v", PARTS | {"throne": [1, 1, 0.01]}))["gender"].correct == 2
    nearer = PARTS | {"queen": [1, 1, 0.3], "throne": [1, 1, 0]}
    assert answers(stored(tmp_path / "w", nearer))["gender"].correct == 1


def test_capitals_of_the_vectors(tmp_path):
    words = {"Paris": [1, 0, 0], "France": [1, 1, 0], "Rome": [0, 0, 1], "Italy": [0, 1, 1]}
    assert answers(stored(tmp_path / "cased", words, lowercase=False))["capital"].known == 2
    lowered = {word.lower(): vector for word, vector in words.items()}
    assert answers(stored(tmp_path / "lowered", lowered))["capital"].correct == 2
    assert answers(stored(tmp_path / "mixed", words))["capital"].known == 0
