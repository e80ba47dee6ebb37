"""Analogies in a table: shares of known questions, means over seeds, all questions together."""

import pytest
from word_vectors import stored

from lib.core.errors import DataError
from lib.results.scope import Scope
from studies.word_vectors.analogies import RELATIONS
from studies.word_vectors.results.kinds.word_vectors import AnalogiesTable

RIGHT = {"king": [1, 0, 0], "queen": [1, 1, 0], "man": [0, 0, 1], "woman": [0, 1, 1], "throne": [-1, -1, -1]}
HALF = RIGHT | {"queen": [1, 1, 0.3], "throne": [1, 1, 0]}


def table(*word_vectors):
    named, files = [(name, seed) for name, seed, _ in word_vectors], [folder for _, _, folder in word_vectors]
    scope = Scope(models=[], stages={}, owners={}, word_vectors=named, files=files)
    return AnalogiesTable(kind="analogies").make(scope)


def test_a_row_per_relation_and_one_of_all(tmp_path):
    frame = table(("film", None, stored(tmp_path / "v", RIGHT))).frame.set_index("relation")
    assert list(frame.index) == [*RELATIONS, "all"]
    assert frame.loc["gender", ["known", "accuracy"]].tolist() == [2, 100]
    assert frame.loc["plural", "known"] == 0
    assert frame["accuracy"].isna().tolist() == [False, True, True, True, True, False]
    assert frame.loc["all", "questions"] == frame["questions"][:-1].sum()
    assert "seeds" not in frame


def test_seeds_are_averaged_and_vectors_told_apart(tmp_path):
    one, two = stored(tmp_path / "1", RIGHT), stored(tmp_path / "2", HALF)
    made = table(("film", 1, one), ("film", 2, two), ("file", None, two))
    rows = made.frame.set_index(["vectors", "relation"])
    assert rows.loc[("film", "gender"), "accuracy"] == 75
    assert rows.loc[("film", "gender"), "accuracy_sd"] == pytest.approx(50 / 2**0.5)
    assert rows.loc[("film", "gender"), "seeds"] == 2
    assert rows.loc[("file", "all"), "accuracy"] == 50
    assert "75.0 ± 35.4" in made.to_markdown()
    assert "±: standard deviation over trainings of the vectors with other seeds." in made.to_markdown()


def test_a_folder_of_something_else_is_named(tmp_path):
    with pytest.raises(DataError, match="cannot be read as word vectors"):
        table(("film", 1, tmp_path))
