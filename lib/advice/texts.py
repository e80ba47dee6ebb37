"""A user's own texts: how long they are in tokens, their language, and how TF-IDF counts them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import regex
from py3langid.langid import MODEL_FILE, LanguageIdentifier
from tqdm import tqdm

from lib.backbones.settings import BACKBONES
from lib.reading.words import IDENTIFIED_BY, UNSURE, words_of
from lib.tokens.coverage import MOST_LOST, Coverage, shares
from lib.tokens.cutting import WHOLE
from lib.tokens.tokenizer import TextTokenizer

MOST_PER_WORD = 2.5
"""Tokens per word that are normal for English, at most: with BERT's vocabulary, samples of reviews and Wikipedia have
1.3, papers 1.5 and tweets 2.0."""

_IDENTIFIED = 300
"""Texts whose language is identified, at most."""

_COUNTED = 500_000
"""Characters in which n-grams are counted to choose their kind, at most, as many at the beginning of each text."""

_BY_CHARACTERS = {"unit": "characters", "ngram_max": 3}

_MOST_TORN = 0.1
"""Share of the words that TF-IDF may cut at a mark, at most. In Hindi it cuts most words."""

_TORN = regex.compile(r"\p{L}\p{M}")
"""A letter with a mark, such as a vowel sign, which ends a word for TF-IDF."""

_BATCH = 32
"""Documents that are tokenised at once."""


def token_lengths(texts: Sequence[str], tokenizer: TextTokenizer) -> np.ndarray:
    """Return the number of tokens of each text, uncut, special tokens included [documents]."""
    batches = [texts[start : start + _BATCH] for start in range(0, len(texts), _BATCH)]
    encoded = (tokenizer.encode_ragged(batch, WHOLE) for batch in tqdm(batches, "tokenising", disable=None))
    return np.array([len(ids) for batch in encoded for ids in batch])


def language_of(texts: Sequence[str]) -> tuple[str, float]:
    """Return the ISO 639 code of the most frequent language of the first `_IDENTIFIED` texts, and its share of them."""
    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True, min_confidence=UNSURE)
    found = Counter(identifier.classify(text[:IDENTIFIED_BY])[0] for text in texts[:_IDENTIFIED])
    (name, times), *_ = found.most_common(1)
    return name, times / found.total()


def kept_of(texts: Sequence[str], tokenizer: TextTokenizer) -> tuple[float, list[str]]:
    """Return how much a tokeniser keeps of the first `_IDENTIFIED` texts.

    Returns:
        The share of the texts without a known token; and warnings, with a remedy each.
    """
    texts, coverage = texts[:_IDENTIFIED], Coverage(tokenizer)
    coverage.add(texts, tokenizer.encode_ragged(texts, WHOLE))
    found, words = coverage.warnings(), sum(len(words_of(text)) for text in texts)
    per_word = coverage.counts["tokens"] / max(1, words)
    if per_word > MOST_PER_WORD:
        pieces = f"The vocabulary splits words into pieces ({per_word:.1f} tokens per word; English has 1.3 to 2.0)."
        found.append(f"{pieces} Take a published encoder of that language (docs/published_models.md).")
    return shares(coverage.counts)["empty"] or 0.0, found


def ngram_settings(texts: Sequence[str]) -> dict[str, Any] | None:
    """Return the settings of TF-IDF that differ from the defaults; None if it finds nothing to count.

    They are those of characters in scripts without spaces between words, where marks would cut words, and where it
    finds too few words.
    """
    texts = [text[: _COUNTED // len(texts)] for text in texts]
    spaced = sum(len(text.split()) for text in texts)
    unspaced = sum(len(words_of(text)) for text in texts) > 2 * spaced
    torn = sum(_TORN.search(word) is not None for text in texts for word in text.split()) > _MOST_TORN * spaced
    by_words = _featureless(texts, {})
    if not unspaced and not torn and by_words <= MOST_LOST:
        return {}
    by_characters = _featureless(texts, _BY_CHARACTERS)
    if by_words == by_characters == 1:
        return None
    return dict(_BY_CHARACTERS) if by_characters <= max(by_words, MOST_LOST) else {}


def _featureless(texts: Sequence[str], settings: Mapping[str, Any]) -> float:
    tfidf = BACKBONES.load("tfidf", "backbone")
    try:
        return tfidf.featureless(tfidf.vectorizer(BACKBONES.parse({"kind": "tfidf", **settings})).fit_transform(texts))
    except ValueError:  # no n-gram is left
        return 1.0


def lost(lengths: np.ndarray, limit: int) -> tuple[float, float]:
    """Return the shares of all tokens, and of all documents, that a limit cuts or cuts off."""
    return float(np.maximum(lengths - limit, 0).sum() / lengths.sum()), float((lengths > limit).mean())
