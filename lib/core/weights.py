"""Weights that do not come from a stage of the study: initial ones, and those of encoders that do not train."""

import re
from collections.abc import Iterator
from typing import Literal

from lib.core.settings import BaseSettings, PositiveInt, Repository, Revision, VectorsName, check

VECTORS = "vectors.safetensors"
"""Name of the file that tells a folder of word vectors from that of a model."""


class WordVectorsStart(BaseSettings):
    """Initial embeddings from word vectors; all other weights are random."""

    word_vectors: VectorsName
    """Name of the word vectors, with the dimension of the embeddings; those of the run's seed. Tokens without a vector
    keep random embeddings."""


class ForeignStart(BaseSettings):
    """Initial weights that do not come from a stage of this study."""

    folder: str | None = None
    """Folder with the weights: the `model` of a run of another study, or any local folder."""
    repository: Repository | None = None
    """`owner/name` of a model repository on the Hugging Face hub."""
    revision: Revision | None = None
    """Commit; if `unpinned`, also a tag or branch."""
    unpinned: bool = False
    """Accept a revision that may change; the download warns once."""

    @check
    def _revision_is_pinned(self) -> Iterator[str]:
        if self.revision is not None and not self.unpinned and not re.fullmatch("[0-9a-f]{40}", self.revision):
            yield f"revision = '{self.revision}' is not a commit (40 hex digits). Give it, or set unpinned: true"

    @check
    def _one_place(self) -> Iterator[str]:
        if (self.folder is None) == (self.repository is None):
            yield "expected either a folder or a repository. Give one of them"
        if (self.repository is None) != (self.revision is None):
            yield "a repository needs a revision, and a revision a repository. Give both, or neither"


class EncoderSettings(ForeignStart):
    """An encoder that turns texts into vectors and does not train: published, static, or of a run (its `model`)."""

    pooling: Literal["mean", "first"] = "mean"
    """Vector of the tokens that are read at once: the mean of their states, or the state of the first, such as [CLS];
    of the last layer. Static vectors are always averaged."""
    max_tokens: PositiveInt | None = None
    """Tokens of a document that are read; null = all."""
    segment: PositiveInt = 512
    """Tokens that are read at once. A longer document is read in segments, as few and as equally long as possible."""
    segments: Literal["mean", "first_and_mean"] = "mean"
    """Vector of a document of several segments: the mean of theirs, or the first one and the mean, side by side."""
