"""Passages that decide a class, of a function whose value at each text is known."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.evaluation.passages import MOST_SEGMENTS, Passage, by_removal, faithfulness

TEXT = "It was long. We slept (a little).\nThe end was good! Nobody knew."
UNUSUAL = st.text(alphabet=st.sampled_from("abİ .!?。好😀\n\"'-e\u0301"), max_size=300)


def has_words(**weights):
    """Return a classifier whose second class has 0.1 plus the weights of the words that a text has."""

    def probabilities(texts):
        second = np.array([0.1 + sum(weights[word] for word in weights if word in text) for text in texts])
        return np.stack([1 - second, second], axis=1)

    return probabilities


def found(text, count=9, **weights):
    passages = by_removal(text, has_words(**weights), count)
    return [(text[slice(*span)], pytest.approx(weight)) for (span,), weight in passages]


def test_sentences_that_decide():
    expected = [("The end was good! ", 0.4), ("We slept (a little).\n", 0.3)]
    assert found(TEXT, good=0.4, slept=0.3, long=-0.1) == expected
    assert found(TEXT, 1, good=0.4, slept=0.3) == expected[:1]
    assert found(TEXT, long=-0.05) == [("It was long. ", 0.05)], "of the class that the text has"


@pytest.mark.parametrize("text", ["", " ", "...", "good", " good!\n"])
def test_no_passages_in_a_word(text):
    assert found(text, good=0.8) == []


def test_words_of_long_sentences():
    assert found("a good 'quiet' film", good=0.5, quiet=0.3) == [("good ", 0.5), ("'quiet' ", 0.3)]
    assert found("很好看的电影", 好=0.8) == [("好", 0.8)]
    assert found("word " * 320 + "good.", good=0.8) == [("word " * 9 + "good.", 0.8)]
    assert found("Short one. " + "word " * 99 + "good.", good=0.8) == [("word " * 49 + "good.", 0.8)]


@given(UNUSUAL)
def test_segments_adjoin(text):
    passages = by_removal(text, lambda texts: np.array([[1.0, 0.0]] + [[0.9, 0.1]] * (len(texts) - 1)), 1000)
    spans = [span for passage in passages for span in passage.spans]
    bounds = [0, *(end for _, end in spans)]
    assert spans == list(itertools.pairwise(bounds))
    assert bounds[-1] == (len(text) if spans else 0)
    assert len(spans) <= MOST_SEGMENTS
    frame = faithfulness([text], [passages], lambda texts: np.array([[len(each) / 300] for each in texts]), 1)
    assert not spans or frame["comprehensiveness"].item() == pytest.approx(len(text) / 300)


def test_faithfulness_in_closed_form():
    """Random passages lose the mean over words, since each is as likely to be chosen."""
    text = "one two three four. good bad"
    passages = [Passage([(text.index("oo"), text.index("oo") + 2)], 1.0)]  # a part of the word
    frame = faithfulness([text, text], [passages, []], has_words(good=0.6, one=0.1), 2000)
    assert frame["words"].tolist() == [1 / 6, 0]
    assert frame["comprehensiveness"].tolist() == pytest.approx([0.6, 0])
    assert frame["sufficiency"].tolist() == pytest.approx([0.1, 0.7])
    assert frame["random_comprehensiveness"].tolist() == pytest.approx([0.7 / 6, 0], abs=0.01)
    assert frame["random_sufficiency"].tolist() == pytest.approx([0.7 - 0.7 / 6, 0.7], abs=0.01)


def test_random_passages_of_the_same_lengths():
    asked, text, passages = [], "a b c d e f g h ", [Passage([(0, 5), (8, 9)], 1.0)]
    for _ in range(2):
        faithfulness([text], [passages], lambda texts: asked.append(texts) or np.ones((len(texts), 1)), 400)
    assert asked[0][:3] == [text, "d f g h ", "a b c e "]
    assert asked[0] == asked[1]
    for alone in (drawn := set(asked[0][4::2])):
        runs = [len(list(run)) for kept, run in itertools.groupby(text.split(), alone.__contains__) if kept]
        assert sorted(runs) in ([1, 3], [4])
    assert len(drawn) == 25
