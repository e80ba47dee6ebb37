"""Word vectors in a folder: what was written comes back, nothing of it can run code, and damage is named."""

import json

import numpy as np
import pytest
from word_vectors import stored

from lib.core.errors import DataError
from lib.core.record import digest_of
from lib.core.weights import VECTORS
from lib.preparing.settings.word_vectors import WordVectors
from studies.word_vectors.storage import WORDS, load_vectors, save_vectors
from studies.word_vectors.word_vectors import train_vectors


@pytest.fixture
def folder(tmp_path):
    return stored(tmp_path / "v", {"king": [1, 0], "Überfluß": [0.5, 2]}, lowercase=False)


def test_words_vectors_and_counts_come_back(folder, tmp_path):
    keyed, lowercase = load_vectors(folder)
    assert not lowercase
    assert keyed.index_to_key == ["king", "Überfluß"]
    assert keyed["Überfluß"].tolist() == [0.5, 2]
    settings = WordVectors(source="trained", dimension=3, min_count=1, epochs=1)
    save_vectors(train_vectors(["a b a"], settings, 1), tmp_path / "counted")
    kept = load_vectors(tmp_path / "counted")
    assert kept.lowercase
    assert [kept.keyed.get_vecattr(word, "count") for word in "ab"] == [2, 1]


def test_there_are_tensors_and_json_and_nothing_else(folder):
    assert sorted(path.name for path in folder.iterdir()) == [VECTORS, WORDS]
    assert json.loads((folder / WORDS).read_text())["words"] == ["king", "Überfluß"]


def test_other_words_have_another_digest(folder):
    before = digest_of(folder)
    words = folder / WORDS
    words.write_text(words.read_text().replace("king", "kong"))
    assert digest_of(folder) != before


@pytest.mark.parametrize(
    ("file", "content"),
    [
        (VECTORS, b"nothing"),
        (WORDS, b"{"),
        (WORDS, b"[]"),
        (WORDS, b'{"lowercase": true, "words": ["king"]}'),
        (WORDS, b'{"lowercase": true, "words": ["king", "king"]}'),
        (WORDS, b'{"lowercase": true, "words": ["king", "queen"], "counts": [1]}'),
        (WORDS, b'{"words": ["king", "queen"]}'),
        (WORDS, b'{"lowercase": true, "words": [["king"], "queen"]}'),
    ],
)
def test_a_damaged_folder_is_named(folder, file, content):
    (folder / file).write_bytes(content)
    with pytest.raises(DataError, match=r"cannot be read as word vectors.*make them again"):
        load_vectors(folder)


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(DataError, match="cannot be read as word vectors"):
        load_vectors(tmp_path / "none")


def test_numbers_are_kept_as_they_are(tmp_path):
    numbers = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    folder = stored(tmp_path / "v", dict(zip("abc", numbers, strict=True)))
    assert load_vectors(folder).keyed.vectors.tobytes() == numbers.tobytes()
