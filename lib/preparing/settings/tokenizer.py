"""Settings of a tokeniser: an existing one, or one trained on texts of the study."""

import re
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from lib.core.settings import BaseSettings, EntryName, PositiveInt, Repository, Revision, Size, SizeOrZero, check
from lib.preparing.settings.document_form import Cut

BYTES = 256
"""Tokens that a vocabulary of byte-level BPE always has, in addition to the special ones."""
SPECIAL = 5
"""Special tokens of a trained vocabulary."""


class Tokenizer(BaseSettings):
    """From texts to tokens: an existing tokeniser, or one trained on texts of the study."""

    algorithm: Literal["wordpiece", "words", "bpe", "bytes", "published"] = "wordpiece"
    """`wordpiece`: as in BERT; `words`: every word of the training texts, as separated by white space, is one token,
    and other words are [UNK]; `bpe`: pairs of bytes, for texts of any script, unchanged; `bytes`: the 256 bytes of
    UTF-8, unchanged, which need no training; `published`: the tokens that a model's own tokenizer.json, vocab.txt, or
    vocab.json with merges.txt describes."""
    source: Literal["hub", "local", "trained"] | None = None
    """Source of the tokeniser; `words` and `bpe` are always `trained`, `published` never is, and only `bytes` has none.
    """
    repository: Repository = "google-bert/bert-base-uncased"
    """`hub`: model repository with a vocab.txt; for `published`, with any of its files."""
    revision: Revision = "main"
    """`hub`: commit; if `unpinned`, also a tag or branch."""
    unpinned: bool = False
    """`hub`: accept a revision that may change; the download warns once."""
    path: str | None = None
    """`local`: a vocab.txt, one token per line; for `published`, a folder with its files."""
    corpus: EntryName | Annotated[list[EntryName], Field(min_length=1)] | None = None
    """`trained`: the corpus, or the dataset with the training texts, that it is trained on, or a list of them; null =
    the only corpus."""
    vocab_size: Size = 30_000
    """`trained`: maximum number of entries of the vocabulary. `wordpiece` needs two for each of up to 1,000 different
    characters, and exceeds a lower maximum with a warning."""
    min_frequency: PositiveInt | None = None
    """`trained`: minimum number of occurrences of a token; null = 1 for `words`, 2 for the others."""
    lowercase: bool = True
    """`wordpiece`: lower the case before tokenising."""
    strip_accents: bool = True
    """`wordpiece`: remove accents before tokenising."""
    enclose: bool = True
    """Put [CLS] before and [SEP] after every document; a `published` tokeniser puts its own special tokens."""
    cut: Cut = "head"
    """Part kept of a labelled document with more than `max_tokens` tokens: `head`, the first ones; `head_tail`, its
    beginning and its end: of 510 tokens without [CLS] and [SEP] the first 128 and the last 382 (Sun et al. 2019), of
    others the same shares. Of a pair that is read together, each text keeps its own. Texts of corpora keep the first
    ones."""
    mask_token: str | None = Field(None, min_length=1)
    """`published`: a new mask token that is added to the vocabulary; null = the tokeniser's own, if it has one. A model
    learns an embedding for it, or keeps the drawn one if embeddings do not train (`recipe.lora`)."""
    sentinels: SizeOrZero = 0
    """Number of sentinel tokens (`<extra_id_0>` and so on) that are added behind the vocabulary, for the task
    `span_corruption`. A `published` tokeniser of T5 has 100 of its own."""

    @property
    def corpora(self) -> list[str]:
        """The corpora and datasets that it is trained on; none = the only corpus."""
        return [self.corpus] if isinstance(self.corpus, str) else self.corpus or []

    @property
    def occurrences(self) -> int:
        """Occurrences that a token of a trained vocabulary needs."""
        return self.min_frequency or (1 if self.algorithm == "words" else 2)

    @check
    def _source_is_complete(self) -> Iterator[str]:
        sources: dict[str, tuple[str | None, ...]] = {"bytes": (None,), "published": ("hub", "local")}
        sources |= dict.fromkeys(("words", "bpe"), ("trained",))
        known = sources.get(self.algorithm, ("hub", "local", "trained"))
        if self.source not in known:
            expected = " or ".join(map(str, known)).replace("None", "none")
            yield f"source = {self.source}, but algorithm = {self.algorithm} has {expected}"
        if self.source == "local" and self.path is None:
            yield "source is 'local', but 'path' is missing. Give it"
        if self.source == "hub" and not self.unpinned and not re.fullmatch("[0-9a-f]{40}", self.revision):
            yield f"revision = '{self.revision}' is not a commit. Give the commit, or set unpinned: true"
        if self.algorithm == "bpe" and self.vocab_size <= BYTES + SPECIAL:
            yield f"vocab_size = {self.vocab_size}; expected more than {BYTES + SPECIAL}, bytes and special tokens"
