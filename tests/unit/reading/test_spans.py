"""Spans of characters: what is read, what is repaired or refused, and windows of tokens."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from span_tokenizers import TEXTS

from lib.core.errors import ConfigError, DataError
from lib.reading.spans import clean_spans, marked, parse_spans, token_labels
from lib.tokens.tokenizer import SPECIAL_TOKENS
from lib.tokens.vocabularies import train_wordpiece


@pytest.mark.parametrize(
    ("value", "spans"),
    [
        (None, []),
        ("[]", []),
        ("[(0, 12), (27, 46)]", [(0, 12), (27, 46)]),
        ("[[0, 12]]", [(0, 12)]),
        ([[27, 46], (0, 12)], [(27, 46), (0, 12)]),
        (np.array([[1, 2]]), [(1, 2)]),
    ],
)
def test_spans_are_read_from_lists_and_their_text(value, spans):
    assert parse_spans(value) == spans


@pytest.mark.parametrize("text", ["[" * 200_000, "1+" * 50_000 + "1", "7" * 200_000])
def test_spans_of_a_long_text_end_in_a_short_message(text):
    with pytest.raises(ValueError, match="is no list of pairs") as raised:
        parse_spans(text)
    assert len(str(raised.value)) < 200


@pytest.mark.parametrize("value", ["word", "[(0, 12", 7, [1, 2], [[1, 2, 3]], [["1", "2"]], [[0.0, 1.0]], [[True, 2]]])
def test_spans_of_another_form_are_refused(value):
    with pytest.raises(ValueError, match="is no (list of pairs|pair of whole numbers)"):
        parse_spans(value)


def test_spans_are_clipped_united_and_dropped():
    """Of ten characters: one span overlaps, one touches, one is inside another, one overruns, two hold nothing."""
    spans = [(8, 12), (0, 2), (1, 3), (3, 4), (5, 5), (10, 14), (8, 9)]
    cleaned, counts = clean_spans(spans, 10, "here")
    assert cleaned == [(0, 4), (8, 10)]
    assert counts == {"clipped": 2, "empty": 2, "united": 3}


@pytest.mark.parametrize(
    ("span", "match"),
    [
        ((4, 3), r"here: the span \[4, 3\] ends"),
        ((11, 12), r"here: the span \[11, 12\] lies outside"),
        ((-1, 3), r"\[-1, 3\] lies outside"),
    ],
)
def test_spans_that_nothing_can_repair_are_refused(span, match):
    with pytest.raises(DataError, match=match):
        clean_spans([(0, 1), span], 10, "here")


# Windows


@settings(max_examples=50, deadline=None)
@given(st.integers(3, 9), st.one_of(st.integers(1, 7), st.floats(0.05, 0.95)), st.integers(0, 30))
def test_windows_hold_every_token_and_overlap_as_asked(span_tokenizer, max_tokens, stride, length):
    text = "cats " * length
    room = max_tokens - span_tokenizer.backend.num_special_tokens_to_add()
    step = max(1, int(stride * room)) if isinstance(stride, float) else stride
    if step > room:
        with pytest.raises(ConfigError, match=r"window_stride = \d+: a window of max_tokens = \d+ holds \d+ tokens"):
            span_tokenizer.encode_windows([text], max_tokens, stride)
        return
    (windows,) = span_tokenizer.encode_windows([text], max_tokens, stride)
    whole = span_tokenizer.backend(text, add_special_tokens=False)["input_ids"]
    edge = span_tokenizer.backend.num_special_tokens_to_add() // 2
    bodies = [window.ids[edge : len(window.ids) - edge] for window in windows]
    assert all(body == whole[number * step : number * step + room] for number, body in enumerate(bodies))
    assert bodies[-1] == whole[(len(bodies) - 1) * step :]
    assert all(len(window.ids) == len(window.starts) == len(window.ends) <= max_tokens for window in windows)


def test_special_tokens_of_windows_stand_for_no_character(tmp_path):
    tokenizer = train_wordpiece(tmp_path / "tokenizer", TEXTS, 150, 1)
    ((window,),) = tokenizer.encode_windows(["cats"], 20, 0.5)
    assert [window.ids[0], window.ids[-1]] == [SPECIAL_TOKENS.index(name) for name in ("[CLS]", "[SEP]")]
    assert token_labels([0, 0, 4, 5, 2], [0, 3, 6, 8, 4], marked([(3, 5)], 8)) == [-100, 0, 1, 0, 1]
    labels = token_labels(window.starts, window.ends, np.ones(4, bool))
    assert (labels[0], labels[-1], set(labels[1:-1])) == (-100, -100, {1})
