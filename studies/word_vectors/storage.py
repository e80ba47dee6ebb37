"""Word vectors in a folder: tensors as safetensors, words as JSON. gensim itself would store pickles."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from lib.core.errors import DataError
from lib.core.files import write_json
from lib.core.weights import VECTORS

if TYPE_CHECKING:
    from gensim.models import KeyedVectors

WORDS = "words.json"


class Vectors(NamedTuple):
    """Vectors of words."""

    keyed: KeyedVectors
    """Vectors of gensim, the most frequent word first [V, D]; fastText's also hold n-grams."""
    lowercase: bool
    """Whether its words are lower-cased, so that words must be lower-cased before they are looked up."""


def save_vectors(vectors: Vectors, folder: Path) -> None:
    """Write vectors to a new folder."""
    keyed, folder = vectors.keyed, Path(folder)
    folder.mkdir(parents=True)
    words = {"lowercase": vectors.lowercase, "words": keyed.index_to_key}
    if "count" in keyed.expandos:
        words["counts"] = keyed.expandos["count"].tolist()
    tensors = {"vectors": keyed.vectors}
    if (ngrams := getattr(keyed, "vectors_ngrams", None)) is not None:
        tensors["ngrams"] = ngrams
        words |= {"min_n": keyed.min_n, "max_n": keyed.max_n}
    save_file({name: np.ascontiguousarray(tensor, np.float32) for name, tensor in tensors.items()}, folder / VECTORS)
    write_json(folder / WORDS, words)


def load_vectors(folder: str | Path) -> Vectors:
    """Return the vectors in a folder.

    Raises:
        DataError: they cannot be read.
    """
    from gensim.models import KeyedVectors
    from gensim.models.fasttext import FastTextKeyedVectors

    try:
        tensors = load_file(Path(folder) / VECTORS)
        said = json.loads((Path(folder) / WORDS).read_text(encoding="utf-8"))
        vectors, words = tensors["vectors"], said["words"]
        if not len(set(words)) == len(said.get("counts", words)) == len(vectors):
            raise ValueError(f"{len(set(words))} words, or their counts, for {len(vectors)} vectors")
        if (ngrams := tensors.get("ngrams")) is None:
            keyed = KeyedVectors(vectors.shape[1])
        else:
            keyed = FastTextKeyedVectors(vectors.shape[1], said["min_n"], said["max_n"], len(ngrams))
            keyed.vectors_ngrams = ngrams
        keyed.add_vectors(words, vectors)
        if "counts" in said:
            keyed.allocate_vecattrs(["count"], [np.int64])
            keyed.expandos["count"][:] = said["counts"]
        return Vectors(keyed, said["lowercase"])
    except (OSError, SafetensorError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise DataError(
            f"{folder}: cannot be read as word vectors ({error!r}). Expected {VECTORS} and {WORDS} as "
            "studies/word_vectors/scripts/train_word_vectors.py leaves them; make them again."
        ) from error
