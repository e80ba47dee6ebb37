"""Nearest words in a table: in order, with cosines, of the first seed."""

import pytest
from word_vectors import stored

from lib.preparing.settings.word_vectors import WordVectors
from lib.results.scope import Scope
from studies.word_vectors.results.kinds.word_vectors import NearestWordsTable
from studies.word_vectors.storage import save_vectors
from studies.word_vectors.word_vectors import train_vectors

pytestmark = pytest.mark.extended

WORDS = {"king": [1, 0], "queen": [0.8, 0.6], "river": [0, 1], "rome": [-1, 0]}


def table(files, **settings):
    scope = Scope(models=[], stages={}, owners={}, word_vectors=list(files), files=list(files.values()))
    return NearestWordsTable(kind="nearest_words", **{"words": ["king"]} | settings).make(scope)


def test_nearest_words_first(tmp_path):
    folder = stored(tmp_path / "v", WORDS)
    rows = table({("file", None): folder}, words=["king", "Rome", "sea"], neighbours=2).frame
    assert rows["word"].tolist() == ["king", "Rome", "sea"]
    assert rows["nearest"].tolist()[:2] == ["queen 0.80, river 0.00", "river 0.00, queen -0.80"]
    assert rows["nearest"].isna().tolist() == [False, False, True]
    assert "occurrences" not in rows


def test_nearest_words_of_the_first_seed(tmp_path):
    settings = WordVectors(source="trained", dimension=2, min_count=1, epochs=1)
    save_vectors(train_vectors(["king river king"], settings, 1), tmp_path / "one")
    files = {("film", 1): tmp_path / "one", ("film", 2): stored(tmp_path / "two", WORDS)}
    made = table(files, words=["king", "sea"])
    assert made.to_csv().startswith("vectors,word,occurrences,nearest\nfilm,king,2,river ")
    assert made.to_csv().endswith("film,sea,,\n")
