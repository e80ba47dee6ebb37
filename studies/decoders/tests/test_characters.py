"""Spans of characters from values of tokens, through tokenisers."""

# ruff: noqa: RUF001 - letters of several scripts that look alike are what is tested

import itertools

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from span_tokenizers import TEXTS

from lib.reading.spans import clean_spans, marked, token_labels
from studies.decoders.evaluation.spans import character_values, spans_of

pytestmark = pytest.mark.extended


@given(st.lists(st.booleans(), max_size=12))
def test_spans_and_characters(inside):
    spans = spans_of(np.array(inside, bool))
    assert marked(spans, len(inside)).tolist() == inside
    assert all(one[1] < other[0] for one, other in itertools.pairwise(spans))
    assert clean_spans(spans, len(inside), "")[0] == spans


def test_values_of_characters_and_gaps():
    """Two windows see the token [2, 4); characters 4 and 5 belong to none, nor do the first and the last."""
    found = character_values([1, 2, 2, 6], [2, 4, 4, 8], [0.5, 0.2, 0.6, 0.3], 9)
    assert found.tolist() == pytest.approx([0, 0.5, 0.4, 0.4, 0.3, 0.3, 0.3, 0.3, 0])
    assert character_values([], [], [], 3).tolist() == [0, 0, 0]


PIECES = st.one_of(
    st.text(max_size=6),
    st.sampled_from([" ", "  ", "\n", "\u00a0", "\u200b", "\x00", ".", "!", "мати ", "the "]),
    st.sampled_from(["😀", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "🇺🇦", "⚠️", "𝕏", "𐍈", "\U0010ffff"]),
    st.sampled_from(["e\u0301", "\u0301", "и\u0306", "й", "ї", "İ", "ß", "\ufb01", "가"]),
    st.sampled_from(["об'єкт", "об’єкт", "обʼєкт", "שלום", "مرحبا", "\u200f", "\u202b"]),
)


@st.composite
def texts_with_spans(draw):
    text = "".join(draw(st.lists(PIECES, min_size=1, max_size=14)))
    ends = st.integers(0, len(text))
    spans = draw(st.lists(st.tuples(ends, ends).map(sorted), max_size=3))
    return text, clean_spans([(start, end) for start, end in spans], len(text), "")[0]


@settings(max_examples=150, deadline=None)
@given(texts_with_spans(), st.integers(4, 12), st.floats(0.1, 0.9))
@example(("й\u0301а", [(1, 2)]), 4, 0.5)
@example(("😀", [(0, 1)]), 4, 0.5)
@example((" ", [(0, 1)]), 4, 0.5)
def test_spans_of_any_text_through_tokenisers(span_tokenizer, document, max_tokens, stride):
    """A token that a span touches is found whole, no other is, and between found tokens what no token covers is.

    However long the windows are. So nothing of a span is lost but characters without a token at its edges. White space
    at the edges of tokens is not of them.
    """
    text, spans = document
    inside = marked(spans, len(text))
    (windows,) = span_tokenizer.encode_windows([text], max_tokens, stride)
    starts, ends = (list(itertools.chain(*(getattr(part, name) for part in windows))) for name in ("starts", "ends"))
    labels = list(itertools.chain(*(token_labels(part.starts, part.ends, inside) for part in windows)))
    found = character_values(starts, ends, labels, len(text)) > 0

    offsets = span_tokenizer.backend(text, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    covered, touched = np.zeros(len(text), bool), np.zeros(len(text), bool)
    for start, end in offsets:
        while start < end and text[start].isspace():
            start += 1
        while start < end and text[end - 1].isspace():
            end -= 1
        covered[start:end] = True
        touched[start:end] |= inside[start:end].any()
    for place in range(len(text)):
        if covered[place]:
            assert found[place] == touched[place]
        else:
            before, behind = (np.flatnonzero(covered[:place]), place + np.flatnonzero(covered[place:]))
            assert found[place] == bool(before.size and behind.size and touched[before[-1]] and touched[behind[0]])
    assert not (inside & covered & ~found).any()


@pytest.mark.parametrize("stride", [1, 0.5])
def test_spans_of_whole_words(span_tokenizer, stride):
    """With a word between them, since what stands between found words is found."""
    text = max(TEXTS, key=len)
    words, place = [], 0
    for word in text.split():
        place = text.index(word, place)
        words.append((place, place + len(word)))
        place += len(word)
    for first, last, other in itertools.combinations(range(len(words)), 3):
        spans = [(words[first][0], words[last - 1][1]), words[other]]
        (windows,) = span_tokenizer.encode_windows([text], 8, stride)
        labels = [token_labels(part.starts, part.ends, marked(spans, len(text))) for part in windows]
        starts, ends = ([place for part in windows for place in getattr(part, name)] for name in ("starts", "ends"))
        found = spans_of(character_values(starts, ends, list(itertools.chain(*labels)), len(text)) >= 0.5)
        assert found == spans
