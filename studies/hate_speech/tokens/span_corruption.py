"""Span corruption: selection of the removed tokens of a document, and the text to generate.

Shapes: B batch, N tokens read, T tokens written.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase

from lib.core.enclosing import enclosing
from lib.core.errors import ConfigError
from lib.core.labels import IGNORED
from lib.core.randomness import derive_seed
from lib.tokens.batches import pad_examples, pad_ids
from lib.tokens.sentinels import sentinel
from studies.hate_speech.tokens.dropping import dropped
from studies.hate_speech.tokens.text_to_text import end_of_text


class SpanCorruption:
    """Drops spans of a document as a pure function of seed, epoch and example.

    How many tokens are dropped, and in how many spans, depends on the length of a document alone. Of all ways to drop
    so many, in spans that do not touch, each is equally likely. The tokens that enclose a document stay. In the place
    of a span is a sentinel token, each at most once per document; one that occurs in its text is
    passed over. To be written are the spans, each behind its sentinel, and the end of a text.

    Args:
        tokenizer: of the documents.
        seed: the run's seed.
        rate: share of the tokens that is dropped.
        mean_length: of a span, in tokens.

    Raises:
        ConfigError: the tokeniser has no sentinel token, or none that ends a text.

    Source:
        Raffel et al., T5 (2020), sections 3.1.4 and 3.3.4, and `random_spans_noise_mask` of their code. There a text
        begins with a kept token and ends with a dropped one, which hardly matters in 512 tokens that are packed from
        several texts. Here texts are not packed, and a short one has a single span, which would always be its end.
        Behind the last span their code has the end of a text and no further sentinel, unlike the paper's figure 2.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, *, seed: int, rate: float, mean_length: float) -> None:
        self._sentinels = np.array(sentinel_ids(tokenizer), dtype=np.int64)
        if not self._sentinels.size:
            raise ConfigError(
                f"tokenizer: {tokenizer.name_or_path or 'its vocabulary'} has no {sentinel(0)}, which stands for a "
                "dropped span. Set its 'sentinels', or take the tokeniser of a T5."
            )
        self._end = end_of_text(tokenizer)
        self._before, self._behind = enclosing(tokenizer)
        self._seed, self._rate, self._mean_length = seed, rate, mean_length

    def __call__(self, input_ids: np.ndarray, epoch: int | str, example: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the remaining tokens of a document [at most N], and the tokens to generate [T].

        Args:
            input_ids: [N], integers.
            epoch: epoch, or a word for draws outside training.
            example: index of the document in its split.

        Raises:
            ConfigError: there are more spans than sentinel tokens.
        """
        ids = np.asarray(input_ids, dtype=np.int64)
        tokens = ids.size - self._before - self._behind
        lost, spans = dropped(tokens, self._rate, self._mean_length)
        if not spans:
            return ids, np.array([self._end])
        sentinels = self._sentinels[~np.isin(self._sentinels, ids)][:spans]
        if sentinels.size < spans:
            raise ConfigError(
                f"tokenizer: of its {self._sentinels.size} sentinel tokens {sentinels.size} are free for a document of "
                f"{ids.size} tokens, of which {spans} spans are dropped. Expected one for each span: give it more "
                "'sentinels', lower max_tokens or corruption_rate, or raise mean_span_length."
            )
        generator = np.random.default_rng(derive_seed("span_corruption", self._seed, epoch, example))
        lengths = _parts(lost, spans, generator)
        # Before, between and behind the spans; only between them something must be kept.
        gaps = _parts(tokens - lost + 2, spans + 1, generator)
        starts = self._before - 1 + gaps[:-1].cumsum() + lengths.cumsum() - lengths
        behind_start = np.arange(lost) - np.repeat(lengths.cumsum() - lengths, lengths)
        places = np.repeat(starts, lengths) + behind_start
        left = ids.copy()
        left[starts] = sentinels
        written = np.insert(ids[places], np.flatnonzero(behind_start == 0), sentinels)
        return np.delete(left, places[behind_start > 0]), np.append(written, self._end)


def _parts(total: int, number: int, generator: np.random.Generator) -> np.ndarray:
    """Return whole numbers above 0 [number] of that total; all ways to divide it are equally likely."""
    cuts = 1 + np.sort(generator.choice(total - 1, number - 1, replace=False))
    return np.diff(cuts, prepend=0, append=total)


class SpanCorruptionCollator:
    """Makes batches of corrupted documents, as long as the longest of them.

    Args:
        corruption: drops spans by each example's `epoch` and `index`.
        pad_token_id: id of the padding.
    """

    def __init__(self, corruption: SpanCorruption, pad_token_id: int) -> None:
        self._corruption = corruption
        self._pad_token_id = pad_token_id

    def __call__(self, examples: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
        """Return input_ids [B, N], attention_mask [B, N] and labels [B, T].

        Raises:
            ConfigError: a document has more spans than there are sentinel tokens.
            DataError: an example has no token.
        """
        pairs = [self._corruption(e["input_ids"], e["epoch"], e["index"]) for e in examples]
        batch = pad_examples(
            [{**example, "input_ids": left} for example, (left, _) in zip(examples, pairs, strict=True)],
            self._pad_token_id,
        )
        written = [written for _, written in pairs]
        batch["labels"], _ = pad_ids(written, max(map(len, written)), IGNORED)
        return batch


def sentinel_ids(tokenizer: Any) -> list[int]:
    """Return the ids of the sentinel tokens that a tokeniser has, from number 0 on, without a gap.

    Args:
        tokenizer: of transformers.
    """
    vocabulary = tokenizer.get_vocab()
    found: list[int] = []
    while (number := vocabulary.get(sentinel(len(found)))) is not None:
        found.append(number)
    return found
