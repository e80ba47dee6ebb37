"""Where words begin and end, told by the tokens of a vocabulary alone.

Stored documents hold ids and no text, so a token must show by itself whether it continues a word. The tokeniser defines
words: WordPiece separates at punctuation, byte-level BPE and SentencePiece at white space.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from tokenizers import Tokenizer, decoders, models
from transformers import PreTrainedTokenizerBase

from lib.core.errors import ConfigError

_BEFORE = "a"
"""Stands before a token that is turned into text, since decoders remove the space before a text's first token."""


class WordEdges(NamedTuple):
    """Whether each token of a vocabulary begins or ends a word [V], by id."""

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
