"""Masked language modelling: selection and replacement of the predicted tokens of a document.

Shapes: B batch, N tokens.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models
from transformers import PreTrainedTokenizerBase

from lib.core.errors import ConfigError
from lib.core.labels import IGNORED
from lib.core.randomness import derive_seed
from lib.tokens.batches import at_previous, pad_examples, pad_ids

_BEFORE = "a"
"""Stands before a token that is turned into text, since decoders remove the space before a text's first token."""


class WordEdges(NamedTuple):
    """Whether each token of a vocabulary begins or ends a word [V], by id.

    Stored documents hold ids and no text, so a token must show by itself whether it continues a word. The tokeniser
    defines words: WordPiece separates at punctuation, byte-level BPE and SentencePiece at white space.
    """

    begins: np.ndarray
    """Whether it begins a word, whatever stands before it."""
    ends: np.ndarray
    """Whether the next token begins one, whatever it is: so after a line break."""


def word_edges(tokenizer: PreTrainedTokenizerBase, is_special: np.ndarray) -> WordEdges:
    """Return where the tokens of a vocabulary begin and end words.

    Args:
        tokenizer: fast; of WordPiece (`##`), of whole words, or one whose tokens keep the white space before them.
        is_special: [V], true for tokens that are not part of a word, whatever their text.

    Raises:
        ConfigError: its tokens do not tell.
    """
    core: Tokenizer = tokenizer.backend_tokenizer
    join, vocabulary = _joining(core), tokenizer.get_vocab()
    begins, ends = np.zeros((2, is_special.size), dtype=bool)
    for token, number in vocabulary.items():
        text = join([_BEFORE, token])[len(_BEFORE) :]
        begins[number], ends[number] = text[:1].isspace(), text[-1:].isspace()
    if not (begins & ~is_special).any():
        name = f"{tokenizer.name_or_path or 'the tokeniser'} ({type(core.model).__name__})"
        raise ConfigError(f"masking = words: the tokens of {name} do not tell words. Choose masking: random or spans.")
    return WordEdges(begins | is_special, ends | is_special)


def _joining(core: Tokenizer) -> Callable[[Sequence[str]], str]:
    """Return how tokens become text, with a space wherever a word begins."""
    if isinstance(core.model, models.WordPiece):
        # The tokeniser's own decoder would also close up punctuation.
        return decoders.WordPiece(core.model.continuing_subword_prefix, cleanup=False).decode
    if isinstance(core.model, models.WordLevel):
        return " ".join
    return core.decoder.decode if core.decoder else "".join


@dataclass(frozen=True)
class TokenMasker:
    """Draws masks as a pure function of seed, epoch and example.

    Of the ordinary (not special) tokens, a share of `mask_probability` is chosen in expectation: each token, or each
    word as a whole, independently; or spans of tokens that follow each other, together as long as that share. Should
    none be chosen, as happens in short documents, one token or word is drawn, so that every document with an ordinary
    token has something to predict. A chosen token becomes the mask token, or a random ordinary token of the
    vocabulary, or stays, by the other shares; the tokens of a word or span do so together.

    Attributes:
        mask_token_id: id of the mask token.
        is_special: [V], true for tokens that are neither chosen nor drawn: special ones, [UNK] and the mask token
            among them.
        replacements: ids of possible random tokens: neither special nor left unused by BERT or Gemma.
        seed: the run's seed.
        mask_probability: share of the ordinary tokens that are predicted.
        mask_token_probability: of those, the share replaced by the mask token.
        random_token_probability: of those, the share replaced by a random token.
        span_length: mean of the Poisson distribution of the lengths of spans; None = no spans.
        edges: where words begin and end, so that whole ones are chosen; None = they need not be whole.

    Source: Devlin et al., BERT (2019), section 3.1; there a document's choices are fixed, here each epoch's are new.
        Lengths of spans: Lewis et al., BART (2020), section 2.2, whose empty spans insert a mask token, and are left
        out here. One fate for a span: Joshi et al., SpanBERT (2020), section 3.1. Whole words: BERT's later release;
        there each token of a word meets a fate of its own.
    """

    mask_token_id: int
    is_special: np.ndarray
    replacements: np.ndarray
    seed: int
    mask_probability: float = 0.15
    mask_token_probability: float = 0.8
    random_token_probability: float = 0.1
    span_length: float | None = None
    edges: WordEdges | None = None

    @classmethod
    def of(
        cls,
        tokenizer: PreTrainedTokenizerBase,
        *,
        seed: int,
        mask_token: str | None = None,
        masking: Literal["random", "spans", "words"] = "random",
        span_length: float = 3.0,
        **shares: float,
    ) -> "TokenMasker":
        """Return the masker for the vocabulary of `tokenizer`, which stays as it is.

        Args:
            tokenizer: of the documents.
            seed: the run's seed.
            mask_token: as the vocabulary spells it; None = the tokeniser's own.
            masking: whether tokens, spans of them or words are chosen.
            span_length: as the attribute, for spans.
            shares: the three probabilities.

        Raises:
            ConfigError: the mask token is unknown, or the tokens do not show where a word begins.
        """
        vocabulary = tokenizer.get_vocab()
        mask_token_id = tokenizer.mask_token_id if mask_token is None else vocabulary.get(mask_token)
        if mask_token_id is None:
            name = tokenizer.name_or_path or "the tokeniser"
            raise ConfigError(f"mask_token = {mask_token!r}: {name} has no such token, or none of its own. Name one.")
        is_special = np.zeros(max(vocabulary.values()) + 1, dtype=bool)
        reserved = [number for number, token in tokenizer.added_tokens_decoder.items() if token.special]
        is_special[[*tokenizer.all_special_ids, *reserved, mask_token_id]] = True
        replacements = sorted(
            i for token, i in vocabulary.items() if not is_special[i] and not token.startswith(("[unused", "<unused"))
        )
        mean = span_length if masking == "spans" else None
        edges = word_edges(tokenizer, is_special) if masking == "words" else None
        return cls(mask_token_id, is_special, np.array(replacements), seed, span_length=mean, edges=edges, **shares)

    def __call__(
        self, input_ids: np.ndarray, epoch: int | str, example: int, *, start: int = 0
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return masked ids [N] and labels [N], `IGNORED` where nothing is predicted.

        Args:
            input_ids: [N], integers.
            epoch: epoch, or a word for draws outside training.
            example: index of the document in its split.
            start: first position that may be chosen.
        """
        masked = np.asarray(input_ids, dtype=np.int64)
        candidates = np.flatnonzero(~self.is_special[masked[start:]]) + start
        labels = np.full_like(masked, IGNORED)
        if not candidates.size:
            return masked, labels
        generator = np.random.default_rng(derive_seed("mlm", self.seed, epoch, example))
        chance, action, token = generator.random((3, candidates.size))
        if self.span_length is not None:
            chosen, first = _spans(chance, generator, self.mask_probability, self.span_length)
        else:
            first = np.arange(candidates.size) if self.edges is None else _words(masked, candidates, self.edges)
            chance = chance[first]
            chosen = np.flatnonzero(chance < self.mask_probability)
            if not chosen.size:
                chosen = np.flatnonzero(chance == chance.min())
            first = first[chosen]
        action, token, position = action[first], token[chosen], candidates[chosen]
        labels[position] = masked[position]
        hidden = action < self.mask_token_probability
        replaced = ~hidden & (action < self.mask_token_probability + self.random_token_probability)
        masked = masked.copy()
        masked[position[hidden]] = self.mask_token_id
        masked[position[replaced]] = self.replacements[(token[replaced] * self.replacements.size).astype(np.int64)]
        return masked, labels


def _words(ids: np.ndarray, candidates: np.ndarray, edges: WordEdges) -> np.ndarray:
    """Return for each of the `candidates` (positions in `ids`, in order) which of them is the first of its word."""
    begins = edges.begins[ids[candidates]] | edges.ends[ids[candidates - 1]]
    begins[0] = True
    return np.maximum.accumulate(np.where(begins, np.arange(candidates.size), 0))


def _spans(
    chance: np.ndarray, generator: np.random.Generator, share: float, mean: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return which candidates lie in spans, and for each of those which candidate is the first of its span.

    Spans do not overlap, but may touch. All together have `share` of the candidates, rounded up or down by chance; the
    last one drawn is cut to that.

    Args:
        chance: uniform draws, one for each candidate.
        generator: of further draws.
        share: of the candidates that spans have.
        mean: of the Poisson distribution of their lengths.
    """
    total = int(np.clip(chance.size * share + generator.random(), 1, chance.size))
    # Poisson, given that it is not 0: when the first event comes, given that it does, and how many come after it.
    elapsed = -np.log1p(generator.random(total) * np.expm1(-mean))
    lengths = 1 + generator.poisson(np.maximum(mean - elapsed, 0))
    count = np.searchsorted(lengths.cumsum(), total) + 1
    lengths = lengths[:count]
    lengths[-1] -= lengths.sum() - total
    before = lengths.cumsum() - lengths
    # Where they lie if a span takes one place; then each moves by what those before it take beyond that.
    places = np.sort(chance[: chance.size - total + count].argsort()[:count])
    first = np.repeat(places + before - np.arange(count), lengths)
    return first + np.arange(total) - np.repeat(before, lengths), first


class MlmCollator:
    """Makes batches of masked language modelling, as long as their longest example.

    Args:
        masker: draws the masks by each example's `epoch` and `index`.
        pad_token_id: id of the padding.
        at_previous: whether a token is predicted at the position before its own.
    """

    def __init__(self, masker: TokenMasker, pad_token_id: int, *, at_previous: bool = False) -> None:
        self._masker = masker
        self._pad_token_id = pad_token_id
        self._at_previous = at_previous

    def __call__(self, examples: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
        """Return input_ids, attention_mask and labels, each [B, N].

        Raises:
            DataError: an example has no token.
        """
        batch = pad_examples(examples, self._pad_token_id)
        # No position stands before the first token's, so it could not be predicted there.
        pairs = [self._masker(e["input_ids"], e["epoch"], e["index"], start=int(self._at_previous)) for e in examples]
        masked, labels = zip(*pairs, strict=True)
        length = batch["input_ids"].shape[1]
        batch["input_ids"], _ = pad_ids(masked, length, self._pad_token_id)
        padded, _ = pad_ids(labels, length, IGNORED)
        batch["labels"] = at_previous(padded) if self._at_previous else padded
        return batch
