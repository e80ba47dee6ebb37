"""Word vectors in a folder: what was written comes back, nothing of it can run code, and damage is named."""

import pytest
from word_vectors import stored

from lib.core.errors import DataError
from lib.core.record import digest_of
from lib.core.weights import VECTORS
from lib.preparing.settings.word_vectors import WordVectors
from studies.word_vectors.storage import WORDS, load_vectors, save_vectors
from studies.word_vectors.word_vectors import train_vectors

pytestmark = pytest.mark.extended


@pytest.fixture
def folder(tmp_path):
    return stored(tmp_path / "v", {"king": [1, 0], "Überfluß": [0.5, 2]}, lowercase=False)


def test_vectors_from_their_folder(folder, tmp_path):
    keyed, lowercase = load_vectors(folder)
    assert not lowercase
    assert keyed.index_to_key == ["king", "Überfluß"]
    assert keyed["Überfluß"].tolist() == [0.5, 2]
    settings = WordVectors(source="trained", dimension=3, min_count=1, epochs=1)
    save_vectors(train_vectors(["a b a"], settings, 1), tmp_path / "counted")
    kept = load_vectors(tmp_path / "counted")
    assert kept.lowercase
    assert [kept.keyed.get_vecattr(word, "count") for word in "ab"] == [2, 1]


def test_digest_of_other_words(folder):
    before = digest_of(folder)
    words = folder / WORDS
    words.write_text(words.read_text().replace("king", "kong"))
    assert digest_of(folder) != before


@pytest.mark.parametrize(
    ("file", "content"),
    [
        (VECTORS, b"nothing"),
        (WORDS, b'{"lowercase": true, "words": ["king"]}'),
        (WORDS, b'{"words": ["king", "queen"]}'),
    ],
)
def test_folder_damaged(folder, file, content):
    (folder / file).write_bytes(content)
    with pytest.raises(DataError, match=r"cannot be read as word vectors.*make them again"):
        load_vectors(folder)
