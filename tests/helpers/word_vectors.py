"""Word vectors for tests: a folder of few words whose places are known."""

import numpy as np
import pytest

KeyedVectors = pytest.importorskip("gensim.models", reason="an optional package of the study").KeyedVectors

from studies.word_vectors.storage import Vectors, save_vectors  # noqa: E402 - only where gensim is


def stored(folder, words, *, lowercase=True):
    """Write vectors to a new folder, and return it.

    Args:
        folder: to be made.
        words: vector of each word.
        lowercase: whether its words are lower-cased.
    """
    keyed = KeyedVectors(len(next(iter(words.values()))))
    keyed.add_vectors(list(words), np.array(list(words.values()), dtype=np.float32))
    save_vectors(Vectors(keyed, lowercase), folder)
    return folder
