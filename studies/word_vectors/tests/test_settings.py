"""What settings of word vectors refuse."""

import pytest
from pydantic import ValidationError

from lib.preparing.settings.word_vectors import WordVectors

LOCAL = {"source": "local", "path": "glove.txt", "format": "glove", "dimension": 50}
TRAINED = {"source": "trained"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"source": "local", "dimension": 50}, "'path' is missing"),
        ({"source": "local", "dimension": 50, "path": "a"}, "'format' is missing"),
        ({"source": "local", "path": "a", "format": "glove"}, "'dimension' is missing"),
        (TRAINED | {"model": "fasttext", "min_n": 7}, "min_n = 7 is above max_n = 6"),
        (TRAINED | {"dimension": 0}, "dimension"),
        (TRAINED | {"words": 1}, "words"),
    ],
)
def test_what_cannot_be_is_refused(settings, message):
    with pytest.raises(ValidationError, match=message):
        WordVectors(**settings)


@pytest.mark.parametrize("settings", [LOCAL, TRAINED, TRAINED | {"model": "fasttext", "buckets": 10}])
def test_settings_read_from_their_own_dump_are_the_same(settings):
    made = WordVectors(**settings)
    assert WordVectors(**made.model_dump(mode="json")) == made


def test_the_corpora_are_listed():
    assert WordVectors(**TRAINED).corpora == []
    assert WordVectors(**TRAINED, corpus="a").corpora == ["a"]
    assert WordVectors(**TRAINED, corpus=["a", "b"]).corpora == ["a", "b"]
