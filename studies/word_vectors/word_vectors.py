"""Word vectors made by gensim: trained on texts, or read from a file in a format of text or plain binary numbers."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from lib.core.errors import DataError
from lib.core.files import not_fetched
from lib.core.randomness import derive_seed
from lib.preparing.settings.word_vectors import WordVectors
from studies.word_vectors.storage import Vectors

if TYPE_CHECKING:
    from gensim.models import KeyedVectors

logger = logging.getLogger(__name__)


def split_words(text: str, lowercase: bool) -> Iterator[str]:
    """Yield the words of a text: runs of letters, without digits and punctuation, as in gensim."""
    from gensim.utils import tokenize

    return tokenize(text, lowercase=lowercase)


def train_vectors(texts: Iterable[str], settings: WordVectors, seed: int) -> Vectors:
    """Train vectors on texts, by one thread, so that the same texts, settings and seed give the same vectors.

    Args:
        texts: read once per epoch and twice before, so not a one-way iterator.
        settings: settings of the vectors.
        seed: seed of the runs that use them.

    Raises:
        DataError: no word is frequent enough.

    Source:
        Mikolov et al. 2013 (https://doi.org/10.48550/arXiv.1310.4546), skip-gram with negative sampling; Mikolov et al.
        2013 (https://doi.org/10.48550/arXiv.1301.3781), CBOW; Bojanowski et al. 2017
        (https://doi.org/10.1162/tacl_a_00051), fastText. As in gensim: windows end where a text ends, not a sentence.
    """
    from gensim.models import FastText, Word2Vec

    sentences = _Sentences(texts, settings.lowercase)
    counts = Counter(word for sentence in sentences for word in sentence)
    # gensim's own order of equally frequent words is that of an unstable sort, which differs between processors.
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[: settings.max_words]
    frequencies = {word: count for word, count in ordered if count >= settings.min_count}
    if not frequencies:
        raise DataError(
            f"no word occurs {settings.min_count} times in the texts, which have {len(counts)} different words. "
            "Expected some; lower min_count, or give more texts."
        )
    options: dict[str, Any] = {
        "vector_size": settings.dimension,
        "window": settings.window,
        "min_count": settings.min_count,
        "negative": settings.negative,
        "sample": settings.subsample,
        "sg": int(settings.algorithm == "skip_gram"),
        "epochs": settings.epochs,
        "seed": derive_seed("word vectors", seed) % 2**32,
        "workers": 1,
        "sorted_vocab": False,
    }
    if settings.model == "fasttext":
        model = FastText(min_n=settings.min_n, max_n=settings.max_n, bucket=settings.buckets, **options)
    else:
        model = Word2Vec(**options)
    model.build_vocab_from_freq(frequencies, corpus_count=sum(1 for _ in sentences))
    model.train(sentences, total_examples=model.corpus_count, total_words=counts.total(), epochs=settings.epochs)
    logger.info(
        "%s words in the texts, %s of them different, %s with a vector",
        *(f"{number:,}" for number in (counts.total(), len(counts), len(model.wv))),
    )
    return Vectors(model.wv, settings.lowercase)


def read_vectors(path: str, settings: WordVectors) -> Vectors:
    """Read vectors from a file.

    Args:
        path: path of the file.
        settings: format and dimension of the file, and the number of words to keep.

    Raises:
        DataError: the file has another format or dimension.
    """
    try:
        if problem := not_fetched(path):
            raise DataError(problem)
        keyed = _read(path, settings)
    except (OSError, EOFError, ValueError, TypeError, LookupError, MemoryError, AssertionError) as error:
        raise DataError(
            f"{path}: cannot be read as {settings.format} ({error!r}). Expected a line, or its binary form, for each "
            "word: the word, then its numbers. Correct `format`, or give another file."
        ) from error
    if keyed.vector_size != settings.dimension:
        raise DataError(
            f"{path}: its vectors have {keyed.vector_size} numbers, expected {settings.dimension}. Correct `dimension`."
        )
    if not len(keyed) or not np.isfinite(keyed.vectors).all():
        raise DataError(f"{path}: has no words, or a number that is NaN or inf. Give another file.")
    logger.info("%s words with a vector", f"{len(keyed):,}")
    return Vectors(keyed, settings.lowercase)


def _read(path: str, settings: WordVectors) -> KeyedVectors:
    from gensim.models import KeyedVectors

    keyed = KeyedVectors.load_word2vec_format(
        path,
        binary=settings.format == "word2vec_binary",
        no_header=settings.format == "glove",
        limit=settings.max_words,
    )
    # gensim makes up counts from the places of the words.
    keyed.expandos.pop("count", None)
    return keyed


class _Sentences:
    """Texts as lists of words, none longer than gensim reads.

    Args:
        texts: as often as they are asked for.
        lowercase: whether words are lower-cased.
    """

    def __init__(self, texts: Iterable[str], lowercase: bool) -> None:
        self._texts, self._lowercase = texts, lowercase

    def __iter__(self) -> Iterator[list[str]]:
        from gensim.models.word2vec import MAX_WORDS_IN_BATCH
        from gensim.utils import grouper

        for text in self._texts:
            yield from grouper(split_words(text, self._lowercase), MAX_WORDS_IN_BATCH)
