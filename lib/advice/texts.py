"""A user's own texts: how many there are, and how long, in tokens of a study's tokeniser."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from py3langid.langid import MODEL_FILE, LanguageIdentifier
from tqdm import tqdm

from lib.core.errors import DownloadError
from lib.core.randomness import derive_seed
from lib.data.description import IDENTIFIED_BY, UNSURE
from lib.data.published import TOKENIZER, download_tokenizer
from lib.data.readers import read_records
from lib.data.sources import download_hub, require_hub
from lib.data.tokenizer import TextTokenizer
from lib.data.tokenizing import train_tokenizer
from lib.data.vocabularies import from_published, from_vocabulary
from lib.workflow.plan import Plan

WHOLE = 2**31
"""More tokens than a document has."""

MOST_PER_WORD = 2.5
"""Tokens per word that are normal for English, at most: with BERT's vocabulary, samples of reviews and Wikipedia have
1.3, papers 1.5 and tweets 2.0."""

_IDENTIFIED = 300
"""Texts whose language is identified, at most."""

_BATCH = 32
"""Documents that are tokenised at once."""


@dataclass(frozen=True)
class Sample:
    """Documents drawn from all, each with the same chance."""

    documents: int
    """Number of all documents."""
    texts: list[str]


def read_sample(
    files: Sequence[Path], *, column: str, size: int, label: str | None = None, labels: Sequence[str] = ()
) -> Sample:
    """Return a sample of the documents in `files`, which are read once and never held in memory as a whole.

    Args:
        files: in any format of `lib.data.formats`.
        column: of the text.
        size: documents to draw, at most.
        label: column of the label, which is then checked; None = there is none.
        labels: names of the classes.

    Raises:
        DataError: a file is missing or damaged, lacks a column, or a label is none of `labels`.
    """
    generator = random.Random(derive_seed("advice"))
    records = read_records({"train": files}, text=column, label=label, labels=labels)
    texts: list[str] = []
    documents = 0
    for documents, record in enumerate(tqdm(records, "reading", unit=" documents", disable=None), start=1):
        if len(texts) < size:
            texts.append(record.text)
        elif (place := generator.randrange(documents)) < size:
            texts[place] = record.text
    return Sample(documents, texts)


def token_lengths(texts: Sequence[str], tokenizer: TextTokenizer) -> np.ndarray:
    """Return the tokens of each text, uncut, special ones included [documents]."""
    batches = [texts[start : start + _BATCH] for start in range(0, len(texts), _BATCH)]
    encoded = (tokenizer.encode_ragged(batch, WHOLE) for batch in tqdm(batches, "tokenising", disable=None))
    return np.array([len(ids) for batch in encoded for ids in batch])


@dataclass(frozen=True)
class Language:
    """Language of texts, and how well a vocabulary suits it."""

    name: str
    """ISO 639 code of the most frequent language."""
    share: float
    """Share of the texts in this language."""
    tokens_per_word: float
    """A word being what white space separates."""
    unknown: float
    """Share of unknown tokens."""

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
    special = {tokenizer.backend.cls_token_id, tokenizer.backend.sep_token_id}
    ids = [token for text in tokenizer.encode_ragged(texts, WHOLE) for token in text if token not in special]
    words = sum(len(text.split()) for text in texts)
    unknown = sum(token == tokenizer.backend.unk_token_id for token in ids)
    return Language(name, times / len(texts), len(ids) / max(words, 1), unknown / max(len(ids), 1))


def lost(lengths: np.ndarray, limit: int) -> tuple[float, float]:
    """Return the shares of all tokens, and of all documents, that a limit cuts or cuts off."""
    return float(np.maximum(lengths - limit, 0).sum() / lengths.sum()), float((lengths > limit).mean())


def find_tokenizer(plan: Plan, name: str, folder: Path, texts: Sequence[str], vocabulary: str | None) -> Path:
    """Return the folder of a study's tokeniser: the one that the study made, or else a new one.

    One that the study trains is trained on `texts`, if the study has not been made yet: lengths are nearly the same.

    Args:
        plan: the study.
        name: of the tokeniser.
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
        file = TOKENIZER if published else "vocab.txt"
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
