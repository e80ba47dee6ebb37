"""Training by gensim, and files of others: the same from the same, and errors that say what is wrong."""

import subprocess
import sys

import numpy as np
import pytest

from lib.core.errors import DataError
from lib.preparing.settings.word_vectors import WordVectors
from studies.word_vectors.storage import load_vectors, save_vectors
from studies.word_vectors.word_vectors import read_vectors, train_vectors

pytestmark = pytest.mark.extended

TEXTS = ["The king met the queen in 1990.", "A river, a bridge: the king crossed the river!"] * 30
SMALL = {"source": "trained", "dimension": 8, "min_count": 2, "epochs": 2}


def trained(seed=1, texts=TEXTS, **changes):
    return train_vectors(texts, WordVectors(**SMALL | changes), seed)


def test_words_by_frequency():
    keyed = trained().keyed
    assert keyed.index_to_key == ["the", "a", "king", "river", "bridge", "crossed", "in", "met", "queen"]
    assert keyed.get_vecattr("the", "count") == 120
    assert trained(lowercase=False).keyed.index_to_key[:3] == ["the", "king", "river"]
    assert trained(max_words=2).keyed.index_to_key == ["the", "a"]
    assert "queen" not in trained(min_count=31).keyed.key_to_index


@pytest.mark.parametrize("model", ["word2vec", "fasttext"])
def test_vectors_by_seed(model):
    one, same, other = (trained(seed, model=model).keyed.vectors for seed in (1, 1, 2))
    assert one.tobytes() == same.tobytes()
    assert not np.array_equal(one, other)


def test_vectors_in_another_process():
    program = (
        "import sys\n"
        "from studies.word_vectors.word_vectors import train_vectors\n"
        "from lib.preparing.settings.word_vectors import WordVectors\n"
        f"vectors = train_vectors({TEXTS!r}, WordVectors(**{SMALL!r}), 1)\n"
        "sys.stdout.write(vectors.keyed.vectors.tobytes().hex())"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert found == {trained().keyed.vectors.tobytes().hex()}


def test_settings_of_the_training():
    def differs(**changes):
        return not np.array_equal(trained().keyed.vectors, trained(**changes).keyed.vectors)

    for changes in ({"algorithm": "cbow"}, {"window": 1}, {"epochs": 3}, {"negative": 1}, {"subsample": 0}):
        assert differs(**changes), changes
    assert trained(dimension=5).keyed.vector_size == 5


def test_words_that_stand_together():
    pairs = ["red blue " * 20, "one two " * 20] * 40
    keyed = trained(texts=pairs, epochs=10, subsample=0).keyed
    assert keyed.similarity("red", "blue") > keyed.similarity("red", "two") + 0.2


def test_long_texts_to_their_end():
    """Gensim drops what comes after 10,000 words; then the last words would keep the vectors that were drawn."""
    long = ["a " * 12_000 + "end last " * 200]
    once, often = (trained(texts=long, epochs=epochs, subsample=0).keyed["end"] for epochs in (1, 5))
    assert not np.array_equal(once, often)


def test_fasttext_of_unseen_words(tmp_path):
    vectors = trained(model="fasttext", buckets=50)
    save_vectors(vectors, tmp_path / "v")
    kept = load_vectors(tmp_path / "v").keyed
    assert "kings" not in kept.key_to_index
    assert np.array_equal(kept["kings"], vectors.keyed["kings"])
    assert np.array_equal(kept["king"], vectors.keyed["king"])


WORD2VEC = "2 3\nking 1 2 3\nqueen 4 5 6.5\n"


def local(path, format, **changes):
    return WordVectors(source="local", path=str(path), format=format, **{"dimension": 3} | changes)


@pytest.mark.parametrize(
    ("format", "content"),
    [
        ("word2vec_text", WORD2VEC.encode()),
        ("glove", WORD2VEC.partition("\n")[2].encode()),
        (
            "word2vec_binary",
            b"2 3\n" + b"".join(
                f"{word} ".encode() + np.array(values, dtype="<f4").tobytes() + b"\n"
                for word, values in (("king", [1, 2, 3]), ("queen", [4, 5, 6.5]))
            ),
        ),
    ],
)  # fmt: skip
def test_formats_read(tmp_path, format, content):
    path = tmp_path / "vectors"
    path.write_bytes(content)
    keyed = read_vectors(str(path), local(path, format)).keyed
    assert keyed.index_to_key == ["king", "queen"]
    assert keyed["queen"].tolist() == [4, 5, 6.5]
    assert "count" not in keyed.expandos  # gensim makes some up
    assert read_vectors(str(path), local(path, format, max_words=1)).keyed.index_to_key == ["king"]


@pytest.mark.parametrize(
    ("content", "changes", "message"),
    [
        (WORD2VEC, {"dimension": 4}, "have 3 numbers, expected 4. Correct `dimension`"),
        ("king 1 2 3\nqueen 4 5 6\n", {}, "cannot be read as word2vec_text"),
        ("1 3\nking 1 2 nan\n", {}, "NaN or inf"),
        ("99999999999999 3\nking 1 2 3\n", {}, "cannot be read as word2vec_text"),
    ],
)
def test_files_refused(tmp_path, content, changes, message):
    path = tmp_path / "vectors.txt"
    path.write_text(content)
    with pytest.raises(DataError, match=message):
        read_vectors(str(path), local(path, "word2vec_text", **changes))
