"""Vectors of the documents of a dataset, made once: a folder with the encoder, and with the vectors of each split."""

import hashlib
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from safetensors import safe_open
from safetensors.numpy import save_file
from sklearn.preprocessing import normalize
from tqdm import tqdm

from lib.backbones.fitted import read_numbers
from lib.backbones.frozen.settings import EncoderSettings
from lib.core.errors import ProjectError, RunError
from lib.core.files import atomic_path, file_digest, files_in, link_tree, read_mapping, write_json
from lib.core.program import read_settings
from lib.core.weights import VECTORS

if TYPE_CHECKING:
    from lib.backbones.frozen.encoder import TextEncoder

ENCODER, TOKENIZER = "encoder.json", "tokenizer.json"
"""Files of the folder of an encoder: its name and settings, and its tokeniser."""
READER = "reader.json"
"""How a model of a run answers, which does not concern its states."""
PART = 1_000
"""Texts whose vectors are kept when a job is stopped."""


def digest(texts: Sequence[str]) -> str:
    """Return a digest of texts in their order, signs as they are."""
    found = hashlib.blake2b(digest_size=16)
    for text in texts:
        found.update(hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest())
    return found.hexdigest()


def write_encoder(name: str, settings: EncoderSettings, weights: Path, tokenizer: Path, folder: Path) -> None:
    """Make a folder of an encoder: its files as links, its tokeniser, and how it reads.

    Args:
        name: what the study calls it.
        settings: how it reads.
        weights: folder with configuration and weights.
        tokenizer: folder of its tokeniser, in any layout that can be read.
        folder: to appear.
    """
    link_tree(weights, folder, "*.md", "tokenizer*", "vocab*", "merges*", READER)
    if (published := tokenizer / TOKENIZER).is_file():
        shutil.copyfile(published, folder / TOKENIZER)
    else:
        from lib.tokens.vocabularies import from_published  # imports transformers

        with tempfile.TemporaryDirectory() as scratch:
            from_published(tokenizer, converted := Path(scratch) / "tokenizer")
            shutil.copyfile(converted / TOKENIZER, folder / TOKENIZER)
    write_json(folder / ENCODER, {"name": name, **settings.model_dump(mode="json")})


def read_encoder(folder: Path) -> tuple[str, EncoderSettings]:
    """Return what the encoder in a folder is called, and how it reads.

    Raises:
        RunError: it does not say so.
    """
    try:
        values = read_mapping(folder / ENCODER)
        return values.pop("name"), read_settings(EncoderSettings, values)
    except (ProjectError, KeyError) as error:
        raise RunError(f"{folder / ENCODER}: is no encoder ({error}). Make its vectors again.") from error


def make_vectors(
    name: str,
    settings: EncoderSettings,
    *,
    weights: Path,
    tokenizer: Path,
    splits: Mapping[str, Path],
    out: Path,
    work: Path,
    device: str = "auto",
) -> None:
    """Make the folder of an encoder with the vectors of the documents of each split.

    Args:
        name: what the study calls the encoder.
        settings: how it reads.
        weights: folder with configuration and weights.
        tokenizer: folder of its tokeniser.
        splits: Parquet files with a column `text`, by name.
        out: folder to appear.
        work: folder for vectors that a stopped call leaves, of any encoder and settings; it is removed in the end.
        device: `cpu`, `cuda` or `auto`.

    Raises:
        ProjectError: the encoder or the documents cannot be read.
    """
    from lib.backbones.frozen.encoder import open_encoder  # imports torch

    with atomic_path(out) as partial:
        write_encoder(name, settings, weights, tokenizer, partial)
        kept = work / digest([*map(file_digest, files_in(partial))])
        save_file(encode(open_encoder(partial, settings, device), splits, kept), partial / VECTORS)
    shutil.rmtree(work)


def encode(encoder: "TextEncoder", splits: Mapping[str, Path], kept: Path) -> dict[str, np.ndarray]:
    """Return the vectors of the documents of each split [n, D], by the digest of their texts.

    Args:
        encoder: the encoder.
        splits: Parquet files with a column `text`, by name.
        kept: folder for vectors of parts, from which another call goes on.
    """
    kept.mkdir(parents=True, exist_ok=True)
    found = {}
    for split, file in splits.items():
        texts = pd.read_parquet(file, columns=["text"])["text"].tolist()
        with tqdm(total=len(texts), desc=split, unit=" documents", disable=None) as bar:
            found[digest(texts)] = _joined(encoder, (_part(encoder, part, kept, bar) for part in _parts(texts)))
    return found


def in_parts(encoder: "TextEncoder", texts: Sequence[str]) -> np.ndarray:
    """Return the vectors of texts, to the last digit as `encode` makes those of a split with these texts."""
    return _joined(encoder, map(encoder.vectors, _parts(texts)))


def _joined(encoder: "TextEncoder", parts: Iterable[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.zeros((0, encoder.width), np.float32), *parts])


def _parts(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    return (texts[start : start + PART] for start in range(0, len(texts), PART))


def _part(encoder: "TextEncoder", texts: Sequence[str], kept: Path, bar: tqdm) -> np.ndarray:
    file = kept / f"{digest(texts)}.safetensors"
    if file.is_file():
        bar.update(len(texts))
        return read_numbers(file, [VECTORS])[VECTORS]
    vectors = encoder.vectors(texts, bar.update)
    with atomic_path(file) as partial:
        save_file({VECTORS: vectors}, partial)
    return vectors


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
        from lib.backbones.frozen.encoder import open_encoder  # imports torch

        return open_encoder(self.folders[0], read_encoder(self.folders[0])[1])

    def of(self, texts: Sequence[str]) -> np.ndarray:
        """Return the vectors of texts, each of length 1, or zero for a text without a token [n, D]."""
        for folder in self.folders:
            if (found := _stored(folder / VECTORS, digest(texts))) is not None:
                return normalize(found)
        return normalize(in_parts(self.encoder, texts))


def _stored(file: Path, name: str) -> np.ndarray | None:
    if not file.is_file():
        return None
    with safe_open(file, "np") as stored:
        return stored.get_tensor(name) if name in stored.keys() else None  # noqa: SIM118 it is no mapping
