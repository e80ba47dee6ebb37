"""The vectors of the documents of a dataset, made once: a folder with the encoder and the vectors of each split."""

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from safetensors.numpy import save_file
from tqdm import tqdm

from lib.backbones.fitted import read_numbers
from lib.backbones.text_encoder import TextEncoder, open_encoder
from lib.backbones.text_vectors import ENCODER, digest, in_parts
from lib.core.files import atomic_path, file_digest, files_in, link_tree, write_json
from lib.core.model_folder import TOKENIZER
from lib.core.weights import VECTORS, EncoderSettings
from lib.study.reader import READER
from lib.tokens.vocabularies import from_published


def write_encoder(name: str, settings: EncoderSettings, weights: Path, tokenizer: Path, folder: Path) -> None:
    """Make a folder of an encoder: a copy of its files, its tokeniser, and how it reads.

    Args:
        name: its name in the study.
        settings: how it reads.
        weights: folder with configuration and weights.
        tokenizer: folder of its tokeniser, in any layout that can be read.
        folder: to appear.
    """
    link_tree(weights, folder, "*.md", "tokenizer*", "vocab*", "merges*", READER, theirs=True)
    if (published := tokenizer / TOKENIZER).is_file():
        shutil.copyfile(published, folder / TOKENIZER)
    else:
        with tempfile.TemporaryDirectory() as scratch:
            from_published(tokenizer, converted := Path(scratch) / "tokenizer")
            shutil.copyfile(converted / TOKENIZER, folder / TOKENIZER)
    write_json(folder / ENCODER, {"name": name, **settings.model_dump(mode="json")})


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
        name: name of the encoder in the study.
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
    with atomic_path(out) as new:
        write_encoder(name, settings, weights, tokenizer, new)
        kept = work / digest([*map(file_digest, files_in(new))])
        save_file(encode(open_encoder(new, settings, device), splits, kept), new / VECTORS)
    shutil.rmtree(work)


def encode(encoder: TextEncoder, splits: Mapping[str, Path], kept: Path) -> dict[str, np.ndarray]:
    """Return the vectors of the documents of each split [n, D], by the digest of their texts.

    Args:
        encoder: the encoder.
        splits: Parquet files with a column `text`, by name.
        kept: folder for vectors of parts, which another call takes over.
    """
    kept.mkdir(parents=True, exist_ok=True)
    found = {}
    for split, file in splits.items():
        texts = pd.read_parquet(file, columns=["text"])["text"].tolist()
        with tqdm(total=len(texts), desc=split, unit=" documents", disable=None) as bar:
            read = partial(_part, encoder, kept, bar)
            found[digest(texts)] = in_parts(read, texts, encoder.width)
    return found


def _part(encoder: TextEncoder, kept: Path, bar: tqdm, texts: Sequence[str]) -> np.ndarray:
    file = kept / f"{digest(texts)}.safetensors"
    if file.is_file():
        bar.update(len(texts))
        return read_numbers(file, [VECTORS])[VECTORS]
    vectors = encoder.vectors(texts, bar.update)
    with atomic_path(file) as new:
        save_file({VECTORS: vectors}, new)
    return vectors
