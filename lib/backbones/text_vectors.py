"""Vectors of texts by encoders that do not train, as a folder keeps them. Imports no torch by itself."""

import hashlib
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from safetensors import safe_open

from lib.core.errors import ProjectError, RunError
from lib.core.files import read_mapping
from lib.core.program import read_settings
from lib.core.weights import VECTORS, EncoderSettings

if TYPE_CHECKING:
    from lib.backbones.text_encoder import TextEncoder

ENCODER = "encoder.json"
"""Name and settings of the encoder in a folder."""
PART = 1_000
"""Texts whose vectors are kept when a job is stopped."""


def digest(texts: Sequence[str]) -> str:
    """Return a digest of texts in their order, signs as they are."""
    found = hashlib.blake2b(digest_size=16)
    for text in texts:
        found.update(hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest())
    return found.hexdigest()


def read_encoder(folder: Path) -> tuple[str, EncoderSettings]:
    """Return the name of the encoder in a folder, and how it reads.

    Raises:
        RunError: it does not say so.
    """
    try:
        values = read_mapping(folder / ENCODER)
        return values.pop("name"), read_settings(EncoderSettings, values)
    except (ProjectError, KeyError) as error:
        raise RunError(f"{folder / ENCODER}: is no encoder ({error}). Make its vectors again.") from error


def in_parts(read: Callable[[Sequence[str]], np.ndarray], texts: Sequence[str], width: int) -> np.ndarray:
    """Return the vectors of texts [n, D], which are read in parts, so that their last digits are always the same.

    Args:
        read: returns those of a part.
        texts: the texts.
        width: D.
    """
    parts = [read(texts[start : start + PART]) for start in range(0, len(texts), PART)]
    return np.concatenate([np.zeros((0, width), np.float32), *parts])


class Vectors:
    """Vectors of texts by one encoder: those that a folder has, or else new ones.

    Args:
        folders: folders of the encoder, each with the vectors of the documents of a dataset, or without any.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self.folders = folders

    @cached_property
    def encoder(self) -> "TextEncoder":
        """The encoder."""
        from lib.backbones.text_encoder import open_encoder  # imports torch

        return open_encoder(self.folders[0], read_encoder(self.folders[0])[1])

    def of(self, texts: Sequence[str]) -> np.ndarray:
        """Return the vectors of texts, each of length 1, or zero for a text without a token [n, D]."""
        for folder in self.folders:
            if (found := _stored(folder / VECTORS, digest(texts))) is not None:
                return _normalized(found)
        return _normalized(in_parts(self.encoder.vectors, texts, self.encoder.width))


def _normalized(vectors: np.ndarray) -> np.ndarray:
    from sklearn.preprocessing import normalize  # starts slowly

    return normalize(vectors)


def _stored(file: Path, name: str) -> np.ndarray | None:
    if not file.is_file():
        return None
    with safe_open(file, "np") as stored:
        return stored.get_tensor(name) if name in stored.keys() else None  # noqa: SIM118 it is no mapping
