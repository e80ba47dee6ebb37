"""A user's own texts: how many there are, and how long, in tokens of a study's tokeniser."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import regex
from py3langid.langid import MODEL_FILE, LanguageIdentifier
from tqdm import tqdm

from lib.backbones.settings import BACKBONES
from lib.core.errors import DownloadError
from lib.data.coverage import MOST_LOST, Coverage, shares
from lib.data.cutting import WHOLE
from lib.data.description import IDENTIFIED_BY, UNSURE, words_of
from lib.data.published import download_tokenizer
from lib.data.sources import download_hub, require_hub
from lib.data.tokenizer import TextTokenizer
from lib.data.tokenizing import train_tokenizer
from lib.data.vocabularies import from_published, from_vocabulary
from lib.workflow.planning.plan import Plan

MOST_PER_WORD = 2.5
"""Tokens per word that are normal for English, at most: with BERT's vocabulary, samples of reviews and Wikipedia have
1.3, papers 1.5 and tweets 2.0."""

_IDENTIFIED = 300
"""Texts whose language is identified, at most."""

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


@dataclass(frozen=True)
class Language:
    """Language of texts, and how well a vocabulary fits it."""

    name: str
    """ISO 639 code of the most frequent language."""
    share: float
    """Share of the texts in this language."""
    tokens_per_word: float
    """Tokens per word, see `lib.data.description.words_of`."""
    unknown: float
    """Share of unknown tokens."""
    empty: float = 0.0
    """Share of the texts without a known token."""
    lost: tuple[str, ...] = ()
    """Warnings about unknown tokens and dropped characters, each with its remedy."""

    @property
    def english(self) -> bool:
        """Whether English is the most frequent language."""
        return self.name == "en"

    @property
    def split_up(self) -> bool:
        """Whether the vocabulary splits words far more than it splits English ones."""
        return self.tokens_per_word > MOST_PER_WORD


def language_of(texts: Sequence[str], tokenizer: TextTokenizer) -> Language:
    """Return the language of texts, and how a tokeniser suits it, from the first `_IDENTIFIED` of them."""
    texts = texts[:_IDENTIFIED]
    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True, min_confidence=UNSURE)
    found = Counter(identifier.classify(text[:IDENTIFIED_BY])[0] for text in texts)
    (name, times), *_ = found.most_common(1)
    ids, coverage = tokenizer.encode_ragged(texts, WHOLE), Coverage(tokenizer)
    coverage.add(texts, ids)
    words, shares_lost = sum(len(words_of(text)) for text in texts), shares(coverage.counts)
    return Language(
        name,
        times / len(texts),
        coverage.counts["tokens"] / max(words, 1),
        shares_lost["unknown"] or 0.0,
        shares_lost["empty"] or 0.0,
        tuple(coverage.warnings()),
    )


def ngram_settings(texts: Sequence[str]) -> dict[str, Any] | None:
    """Return the settings of TF-IDF that differ from the defaults; None if it finds nothing to count.

    They are those of characters in scripts without spaces between words, where marks would cut words, and where it
    finds too few words.
    """
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


def find_tokenizer(plan: Plan, name: str, folder: Path, texts: Sequence[str], vocabulary: str | None) -> Path:
    """Return the folder of a study's tokeniser: the one that the study made, or else a new one.

    One that the study trains is trained on `texts`, if the study has not been made yet: lengths are nearly the same.

    Args:
        plan: the study.
        name: name of the tokeniser.
        folder: new folder for a tokeniser that has to be made.
        texts: to train on.
        vocabulary: a vocab.txt to take in place of the study's; None = the study's.

    Raises:
        ProjectError: a vocabulary cannot be fetched or read.
    """
    settings, made = plan.experiment.tokenizers[name], Path(plan.paths.tokenizer(name))
    if vocabulary is None and (made / "tokenizer.json").is_file():
        return made
    if vocabulary is None and settings.source in ("trained", None):
        train_tokenizer(texts, settings, folder)
        return folder
    source, published = Path(vocabulary or plan.corpora.tokenizer_sources(name)[0]), settings.algorithm == "published"
    if vocabulary is None and settings.source == "hub" and not source.exists():
        file = "tokenizer.json" if published else "vocab.txt"
        try:
            require_hub(settings.repository, file, revision=settings.revision)
            if published:
                download_tokenizer(settings.repository, source, revision=settings.revision)
            else:
                download_hub(settings.repository, file, source, revision=settings.revision, repo_type="model")
        except DownloadError as error:
            raise DownloadError(f"{error} Or name a vocab.txt of your own with --vocabulary.") from error
    if vocabulary is None and published:
        from_published(source, folder)
    else:
        from_vocabulary(source, folder, settings.lowercase, settings.strip_accents, settings.enclose)
    return folder
