"""The tokeniser: loading, and text to token ids. `vocabularies` makes one, and `tokenizing` stores tokenised corpora.

It makes WordPiece tokens as BERT's, takes whole words, pairs of bytes or bytes as they are, or is a fast tokeniser that
was published.
"""

import json
import re
from bisect import bisect
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from tokenizers import Encoding, Tokenizer, models, normalizers, pre_tokenizers
from transformers import BertTokenizerFast, PreTrainedTokenizerFast

from lib.core.errors import ConfigError, DataError
from lib.core.files import atomic_path
from lib.core.labels import word_spans
from lib.core.model_folder import TOKENIZER, opening, read_core
from lib.core.vocabulary import rows

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
INPUTS = ["input_ids", "attention_mask"]
# A cut at one of these never joins, splits or renormalises words: BERT's normaliser turns them into spaces.
# Other characters that Python calls white space (vertical tab, U+001C, ...) it deletes, which joins the words.
_BREAK = re.compile("[ \t\n\r]")
_CHARACTERS_PER_TOKEN = 8


class Window(NamedTuple):
    """Consecutive tokens of a text, enclosed as the tokeniser encloses texts."""

    ids: list[int]
    """Token ids [m]."""
    starts: list[int]
    """Where each token begins in the text, in characters [m]."""
    ends: list[int]
    """Where it ends [m]; one without characters, such as [CLS] or a space, ends where it begins."""


class TextTokenizer:
    """From texts to token ids, in the folder layout of transformers (`AutoTokenizer` loads it).

    Attributes:
        backend: the tokeniser of transformers that does the work.
    """

    def __init__(self, backend: PreTrainedTokenizerFast) -> None:
        self.backend = backend

    def save(self, tokenizer_dir: str | Path) -> "TextTokenizer":
        """Save it as a folder to appear, of WordPiece with vocab.txt, and return it."""
        model = self.backend.backend_tokenizer.model
        with atomic_path(tokenizer_dir) as partial:
            self.backend.save_pretrained(partial)
            if isinstance(model, models.WordPiece):
                model.save(str(partial))
        return self

    @classmethod
    def load(cls, tokenizer_dir: str | Path) -> "TextTokenizer":
        """Return the tokeniser of a folder that `save`, or a run, has left.

        Raises:
            DataError: the folder holds none that can be read.
        """
        folder = Path(tokenizer_dir)
        read_core(folder)  # without its file, transformers makes a new one
        with opening(folder):
            # Which AutoTokenizer would find out as well, but it imports torch for that.
            saved_by = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))["tokenizer_class"]
            kind = BertTokenizerFast if saved_by.startswith("BertTokenizer") else PreTrainedTokenizerFast
            return cls(kind.from_pretrained(folder, local_files_only=True))

    @classmethod
    def of_model(cls, model_dir: str | Path, vocab_size: int) -> "TextTokenizer":
        """Return the tokeniser that a run saved with its model.

        Args:
            model_dir: folder of the model.
            vocab_size: rows of the model's embeddings.

        Raises:
            DataError: there is no tokeniser, it cannot be read, or it has more tokens than the model.
        """
        tokenizer = cls.load(model_dir)
        if (needed := rows(tokenizer.backend)) > vocab_size:
            raise DataError(
                f"{model_dir}/{TOKENIZER}: has {needed:,} tokens, but the model has embeddings for {vocab_size:,}. "
                "Expected the tokeniser of its training."
            )
        return tokenizer

    def encodings(
        self,
        texts: Sequence[str] | Sequence[tuple[str, str]],
        max_tokens: int,
        *,
        stride: int | None = None,
        fast: bool = True,
    ) -> list[Encoding]:
        """Return the tokens of texts or of pairs of them, cut off behind `max_tokens`; of a pair the longer text is.

        Args:
            texts: the texts themselves, not paths of files.
            max_tokens: tokens to keep, special tokens included.
            stride: tokens that windows share, which hold what is cut off (`Encoding.overflowing`); None = no windows.
            fast: leave out where in the texts the tokens stand.

        Raises:
            ConfigError: `max_tokens` leaves no room for [CLS] and [SEP].
            DataError: the texts are a single string.
        """
        if max_tokens < 2:
            raise ConfigError(f"max_tokens = {max_tokens}: too few. Expected at least 2, for [CLS] and [SEP].")
        require_several(texts)
        core: Tokenizer = self.backend.backend_tokenizer
        core.no_padding()
        core.enable_truncation(max_tokens, stride=stride or 0)
        encode = core.encode_batch_fast if fast else core.encode_batch
        whole = list(texts)
        # What is cut off need not be tokenised where white space is a sure end of a token.
        is_cut = stride is None and _splits_at_breaks(core)
        begun = [_beginning(text, max_tokens) if is_cut and isinstance(text, str) else text for text in whole]
        found = encode(begun)
        short = [i for i, each in enumerate(found) if len(each) < max_tokens and begun[i] != whole[i]]
        for i, each in zip(short, encode([whole[i] for i in short]), strict=True):
            found[i] = each
        core.no_truncation()
        return found

    def encode_ragged(self, texts: Sequence[str], max_tokens: int) -> list[list[int]]:
        """Return the first ids of each text, at most `max_tokens`; arguments and errors are those of `encodings`."""
        return [encoding.ids for encoding in self.encodings(texts, max_tokens)]

    def require_pairs(self, max_tokens: int) -> None:
        """Check that it keeps the two texts of a pair apart, which become one sequence of `max_tokens` tokens.

        Raises:
            ConfigError: it puts nothing between two texts, or `max_tokens` leaves no room for what it puts and a token
                of each text.
        """
        alone, both = (self.backend.backend_tokenizer.num_special_tokens_to_add(pair) for pair in (False, True))
        if both <= alone:
            raise ConfigError(
                f"tokenizer: puts {both} special tokens around a pair of texts and {alone} around a single one, so the "
                "texts would run together. Set its 'enclose' to true, or name another one."
            )
        if max_tokens < both + 2:
            raise ConfigError(f"max_tokens = {max_tokens}: too few for a pair of texts. Expected at least {both + 2}.")

    def encode_windows(self, texts: Sequence[str], max_tokens: int, stride: float) -> list[list[Window]]:
        """Return the whole of each text as windows, each at most `max_tokens` long, which overlap.

        Places are those of the text as it is given, whatever the tokeniser makes of it before it looks for tokens.
        White space at the edges of a token is not of it: some tokenisers take it along, which moves no place here. The
        last window ends with the text.

        Args:
            texts: the texts themselves, not paths of files.
            max_tokens: ids of a window, [CLS] and [SEP] included.
            stride: how far behind the one before a window begins: a number of tokens, or a share below 1 of those that
                fit in addition to [CLS] and [SEP].

        Raises:
            ConfigError: `max_tokens` leaves no room for a token, or the windows leave some out.
            DataError: the texts are a single string.
        """
        room = max_tokens - self.backend.num_special_tokens_to_add()
        step = max(1, int(stride * room)) if stride < 1 else int(stride)
        if step > room:
            fits = f"a window of max_tokens = {max_tokens} holds {room} tokens of a text"
            raise ConfigError(f"window_stride = {stride}: {fits}. Lower it, or raise max_tokens.")
        encodings = self.encodings(texts, max_tokens, stride=room - step, fast=False)
        return [
            [_window(part, text) for part in (whole, *whole.overflowing)]
            for whole, text in zip(encodings, texts, strict=True)
        ]


def require_several(texts: Iterable[object]) -> None:
    """Refuse a string, whose characters would be taken for texts.

    Raises:
        DataError: it is one.
    """
    if isinstance(texts, str):
        raise DataError(f"texts: {texts[:40]!r} is a single string. Expected several texts; put one into a list.")


def _splits_at_breaks(core: Tokenizer) -> bool:
    """Whether a text can be cut at a break without any change to the tokens before it."""
    return isinstance(core.pre_tokenizer, pre_tokenizers.BertPreTokenizer | pre_tokenizers.WhitespaceSplit) and (
        core.normalizer is None or isinstance(core.normalizer, normalizers.BertNormalizer)
    )


def _beginning(text: str, max_tokens: int) -> str:
    """Return a text up to the first break behind the characters that so many tokens usually have."""
    found = _BREAK.search(text, _CHARACTERS_PER_TOKEN * max_tokens)
    return text[: found.start()] if found else text


def _window(encoding: Encoding, text: str) -> Window:
    starts, ends = [], []
    for start, end in encoding.offsets:
        token = text[start:end]
        starts.append(end - len(token.lstrip()))
        ends.append(max(starts[-1], start + len(token.rstrip())))
    return Window(encoding.ids, starts, ends)


def words_begun(encoding: Encoding, text: str) -> list[int | None]:
    """Return the number of the word of the text that each token begins; None for one that begins none.

    Words are what white space separates, whatever finer units the tokeniser knows: of "so-called", however many tokens
    it becomes, the first one begins the word. White space may be part of a token, or one by itself, which then begins
    no word. A word may have no token: behind the cut, or if the tokeniser drops its characters.
    """
    spans = word_spans(text)
    ends = [end for _, end in spans]
    begun: list[int | None] = []
    last = -1
    for (start, end), sequence in zip(encoding.offsets, encoding.sequence_ids, strict=True):
        number = bisect(ends, start)  # the first word that is not over where the token begins
        # What encloses a text belongs to no word, and neither does white space.
        if sequence is None or number == len(spans) or spans[number][0] >= end:
            number = last
        begun.append(number if number > last else None)
        last = max(last, number)
    return begun
