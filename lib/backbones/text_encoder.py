"""Encoders that turn texts into vectors, without training: models of transformers, or static ones of model2vec.

Texts are never padded: those of equal lengths are read together, so a vector follows from its text alone, on whatever
side a model expects padding. Shapes: n texts, D width of a vector.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby, pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from tokenizers import Tokenizer
from transformers import AutoModel

from lib.backbones.architecture import is_published
from lib.backbones.heads.model import pool_cls, pool_mean
from lib.backbones.stored import load_source, open_config, refuse
from lib.core.errors import ConfigError, RunError, require
from lib.core.model_folder import in_time, read_core
from lib.core.weights import EncoderSettings

TOKENS_AT_ONCE = {"cpu": 2_048, "cuda": 65_536}
"""Tokens of a batch, at most; more are not faster on a CPU."""
TEXTS_AT_ONCE = 1_024
"""Texts that are tokenised at once."""
UNUSED = "pooler."
"""Weights of a state that no vector is made of; many published encoders lack them."""


def silent(number: int) -> object:
    """Tell nobody how many texts were read."""


class TextEncoder(ABC):
    """Turns texts into vectors; see `open_encoder`."""

    width: int
    """Numbers of a vector."""

    @abstractmethod
    def vectors(self, texts: Sequence[str], read: Callable[[int], object] = silent) -> np.ndarray:
        """Return the vector of each text, in float32 [n, D]; zero for one without a token.

        Args:
            texts: the texts.
            read: told how many more have been read.
        """


def open_encoder(folder: str | Path, settings: EncoderSettings, device: str | None = None) -> TextEncoder:
    """Return the encoder in a folder, which has its configuration, weights and `tokenizer.json`.

    Args:
        folder: a model folder of transformers, of model2vec or of a run.
        settings: how it reads; its own place does not matter.
        device: `cpu`, `cuda` or `auto`; None = `auto`, a GPU if there is one.

    Raises:
        ProjectError: there is none, or it is damaged, or it reads fewer tokens at once than the settings say.
    """
    folder = Path(folder)
    return StaticEncoder(folder, settings) if is_static(folder) else StateEncoder(folder, settings, device or "auto")


def is_static(folder: Path) -> bool:
    """Whether a folder holds static vectors, as model2vec saves them."""
    return is_published(folder, {"model2vec"})


class StaticEncoder(TextEncoder):
    """A static encoder of model2vec, a vector per token; arguments and errors are those of `open_encoder`."""

    def __init__(self, folder: Path, settings: EncoderSettings) -> None:
        require("model2vec", f"the encoder {folder}")
        from model2vec import StaticModel

        with in_time(folder):
            self.model = StaticModel.from_pretrained(folder)
        self.width, self.max_tokens = self.model.dim, settings.max_tokens

    def vectors(self, texts: Sequence[str], read: Callable[[int], object] = silent) -> np.ndarray:
        """See `TextEncoder.vectors`; there are no segments."""
        found = self.model.encode([*texts], max_length=self.max_tokens, use_multiprocessing=False)
        read(len(texts))
        return found.astype(np.float32)


class StateEncoder(TextEncoder):
    """An encoder of transformers, whose states are pooled; arguments and errors are those of `open_encoder`."""

    def __init__(self, folder: Path, settings: EncoderSettings, device: str) -> None:
        config = open_config(folder)
        self.settings, self.core = settings, read_core(folder)
        self.model, report = load_source(AutoModel, folder, config)
        refuse((name for name in report["missing_keys"] if not name.startswith(UNUSED)), folder)
        kind = "cuda" if device != "cpu" and torch.cuda.is_available() else "cpu"
        self.model.eval().to(kind)
        self.tokens_at_once = TOKENS_AT_ONCE[kind]
        self.width = config.hidden_size * (1 if settings.segments == "mean" else 2)
        self.pool = {"mean": pool_mean, "first": pool_cls}[settings.pooling]
        self.before, self.behind = _enclosing(self.core)
        self.room = settings.segment - len(self.before) - len(self.behind)
        if self.room < 1:
            raise ConfigError(f"segment = {settings.segment}: leaves no room for tokens of a text. Expected more.")
        try:
            self._states([[0] * settings.segment])
        except Exception as error:  # too few positions, or a model of images, or with a decoder
            expected = f"Expected an encoder of texts that has positions for segment = {settings.segment}"
            raise RunError(f"{folder}: cannot read ({type(error).__name__}: {error}). {expected}.") from error

    def vectors(self, texts: Sequence[str], read: Callable[[int], object] = silent) -> np.ndarray:
        """See `TextEncoder.vectors`; each core reads other texts, and the longest come first."""
        pieces = [(text, piece) for text, ids in enumerate(self._ids(texts)) for piece in self._segments(ids)]
        places = np.array([text for text, _ in pieces], int)
        last = {text: number for number, text in enumerate(places)}
        states = np.zeros((len(pieces), self.model.config.hidden_size), np.float32)
        batches = list(self._batches([len(piece) for _, piece in pieces]))
        cores = torch.get_num_threads()
        torch.set_num_threads(1)  # so that no digit depends on the number of cores; and it is faster for short texts
        try:
            with ThreadPoolExecutor(cores if self.model.device.type == "cpu" else 1) as pool:
                done = pool.map(lambda batch: self._states([pieces[number][1] for number in batch]), batches)
                for batch, pooled in zip(batches, done, strict=True):
                    states[batch] = pooled
                    read(sum(last[places[number]] == number for number in batch))
        finally:
            torch.set_num_threads(cores)
        read(len(texts) - len(last))  # those without a token
        of_texts = pd.DataFrame(states).groupby(places)
        parts = [of_texts.mean()] if self.settings.segments == "mean" else [of_texts.first(), of_texts.mean()]
        found = [part.reindex(range(len(texts)), fill_value=0).to_numpy(np.float32) for part in parts]
        return np.ascontiguousarray(np.hstack(found))  # else its order in memory, and with it last digits, would differ

    def _ids(self, texts: Sequence[str]) -> Iterator[list[int]]:
        """Yield the tokens of each text that are read, without those that enclose it."""
        most = self.settings.max_tokens
        kept = None if most is None else max(0, most - len(self.before) - len(self.behind))
        for start in range(0, len(texts), TEXTS_AT_ONCE):
            part = [*texts[start : start + TEXTS_AT_ONCE]]
            yield from (each.ids[:kept] for each in self.core.encode_batch_fast(part, add_special_tokens=False))

    def _segments(self, ids: list[int]) -> Iterator[list[int]]:
        """Yield the segments of a text, enclosed; none if there is no token at all."""
        count = max(1, -(-len(ids) // self.room))
        for start, end in pairwise(len(ids) * number // count for number in range(count + 1)):
            if piece := [*self.before, *ids[start:end], *self.behind]:
                yield piece

    def _batches(self, lengths: Sequence[int]) -> Iterator[list[int]]:
        """Yield the numbers of pieces that are read at once, which have the same length; the longest come first."""
        order = sorted(range(len(lengths)), key=lambda number: -lengths[number])
        for length, group in groupby(order, key=lambda number: lengths[number]):
            alike, size = list(group), max(1, self.tokens_at_once // length)
            yield from (alike[start : start + size] for start in range(0, len(alike), size))

    @torch.inference_mode()
    def _states(self, pieces: Sequence[list[int]]) -> np.ndarray:
        """Return the pooled states of pieces of equal lengths."""
        tokens = torch.tensor(pieces, device=self.model.device)
        states = self.model(input_ids=tokens, attention_mask=torch.ones_like(tokens))[0]
        return self.pool(states.float(), torch.ones_like(tokens, dtype=torch.bool)).cpu().numpy()


def _enclosing(core: Tokenizer) -> tuple[list[int], list[int]]:
    """Return the tokens that a tokeniser puts before and behind every text."""
    encoding = core.encode("a")
    own = [number for number, special in enumerate(encoding.special_tokens_mask) if not special]
    return (encoding.ids[: own[0]], encoding.ids[own[-1] + 1 :]) if own else (encoding.ids, [])
