"""Analogies in a table: shares of known questions, means over seeds, all questions together."""

import pytest
from word_vectors import stored

from lib.results.scope import Scope
from studies.word_vectors.results.kinds.word_vectors import AnalogiesTable

pytestmark = pytest.mark.extended

RIGHT = {"king": [1, 0, 0], "queen": [1, 1, 0], "man": [0, 0, 1], "woman": [0, 1, 1], "throne": [-1, -1, -1]}
HALF = RIGHT | {"queen": [1, 1, 0.3], "throne": [1, 1, 0]}


def table(*word_vectors):
    named, files = [(name, seed) for name, seed, _ in word_vectors], [folder for _, _, folder in word_vectors]
    scope = Scope(models=[], stages={}, owners={}, word_vectors=named, files=files)
    return AnalogiesTable(kind="analogies").make(scope)


def test_analogies_over_seeds(tmp_path):
    one, two = stored(tmp_path / "1", RIGHT), stored(tmp_path / "2", HALF)
    made = table(("film", 1, one), ("film", 2, two), ("file", None, two))
    rows = made.frame.set_index(["vectors", "relation"])
    assert rows.loc[("film", "gender"), "accuracy"] == 75
    assert rows.loc[("film", "gender"), "accuracy_sd"] == pytest.approx(50 / 2**0.5)
    assert rows.loc[("film", "gender"), "seeds"] == 2
    assert rows.loc[("file", "all"), "accuracy"] == 50
    assert "75.0 ± 35.4" in made.to_markdown()
    assert "±: standard deviation over trainings of the vectors with other seeds." in made.to_markdown()
