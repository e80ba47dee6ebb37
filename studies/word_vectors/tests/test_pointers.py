"""Pointers that Git LFS leaves where a clone has not fetched a file."""

import gzip
import json

import pytest

from lib.backbones.stored import open_config
from lib.core.errors import ProjectError
from lib.preparing.settings.word_vectors import WordVectors
from lib.reading.readers import read_records
from lib.tokens.vocabularies import from_published, from_vocabulary
from studies.word_vectors.word_vectors import read_vectors

pytestmark = pytest.mark.extended

POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'4d' * 32}\nsize 12345\n"


def read_texts(file):
    list(read_records({"train": [file]}))


def read_tokenizer(file):
    (file.parent / "config.json").write_text('{"model_type": "bert"}')
    from_published(file.parent, file.parent / "out")


def read_model(file):
    (file.parent / "config.json").write_text(json.dumps({"model_type": "bert", "num_hidden_layers": 1}))
    open_config(file.parent)


READERS = {
    **dict.fromkeys(
        ["a.parquet", "a.csv", "a.tsv", "a.jsonl", "a.json", "a.txt", "a.xml", "a.csv.gz", "a.zip"], read_texts
    ),
    "tokenizer.json": read_tokenizer,
    "vocab.txt": read_tokenizer,
    "words.txt": lambda file: from_vocabulary(file, file.parent / "out"),
    "model.safetensors": read_model,
    "model-00001-of-00002.safetensors": read_model,
    "pytorch_model.bin": read_model,
    "glove.txt": lambda file: read_vectors(
        str(file), WordVectors(format="glove", dimension=2, source="local", path=str(file))
    ),
}


@pytest.mark.parametrize("name", READERS)
def test_pointers_refused(tmp_path, name):
    (tmp_path / name).write_text(POINTER)
    with pytest.raises(ProjectError, match=rf"{name}: is a pointer of Git LFS.*run 'git lfs pull'"):
        READERS[name](tmp_path / name)


def test_archive_with_a_pointer_as_text(tmp_path):
    with gzip.open(tmp_path / "a.txt.gz", "wt") as file:
        file.write(POINTER)
    assert next(read_records({"train": [tmp_path / "a.txt.gz"]})).text.startswith("version")
