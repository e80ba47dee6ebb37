"""The tokeniser: loading, and text to token ids. `vocabularies` makes one, and `tokenizing` stores tokenised corpora.

It makes WordPiece tokens as BERT's, takes whole words, pairs of bytes or bytes as they are, or is a fast tokeniser that
was published.
"""

import json
import re
from bisect import bisect
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from tokenizers import (
    Encoding,
    Tokenizer,
    models,
    normalizers,
    pre_tokenizers,
)
from transformers import BertTokenizerFast, PreTrainedTokenizerFast

from lib.core.errors import ConfigError, DataError, panics_are_errors
from lib.core.files import atomic_path, not_fetched
from lib.core.labels import word_spans
from lib.core.model_folder import in_time
from lib.core.vocabulary import rows

VOCABULARY = "vocab.txt"
PUBLISHED = "tokenizer.json"
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
INPUTS = ["input_ids", "attention_mask"]
# A cut at one of these never joins, splits or renormalises words: BERT's normaliser turns them into spaces.
# Other characters that Python calls white space (vertical tab, U+001C, ...) it deletes, which joins the words.
_BREAK = re.compile("[ \t\n\r]")
_CHARACTERS_PER_TOKEN = 6
MOST_IDS = 2**24
"""Far above the largest vocabularies, which have a million tokens."""
UNKNOWN = "a \U0010fffd"
"""Text with a character that no vocabulary holds whole."""


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
        """Return the tokeniser of a folder with tokenizer.json, or with vocab.txt only (then read as BERT uncased).

        Raises:
            DataError: the folder holds neither, or they cannot be read.
        """
        folder = Path(tokenizer_dir)
        if not (folder / "tokenizer.json").is_file():
            return cls(bert(read_vocabulary(folder / VOCABULARY), lowercase=True, strip_accents=True))
        try:
            read_core(folder)
            with panics_are_errors(), in_time(folder):
                # Which AutoTokenizer would find out as well, but it imports torch for that.
                saved_by = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))["tokenizer_class"]
                kind = BertTokenizerFast if saved_by.startswith("BertTokenizer") else PreTrainedTokenizerFast
                return cls(kind.from_pretrained(folder, local_files_only=True))
        except DataError:
            raise
        except Exception as error:  # the loaders below raise bare Exception on a broken file
            raise DataError(
                f"{folder}: not a tokeniser ({error}). Expected tokenizer.json next to its config; make it again."
            ) from error

    @classmethod
    def of_model(cls, model_dir: str | Path, vocab_size: int) -> "TextTokenizer":
        """Return the tokeniser that a run saved with its model.

        Args:
            model_dir: folder of the model.
            vocab_size: rows of the model's embeddings.

        Raises:
            DataError: there is no tokeniser, it cannot be read, or it has more tokens than the model.
        """
        path = Path(model_dir) / "tokenizer.json"
        if not path.is_file():
            raise DataError(
                f"{path}: no such file, so the model would read other tokens than in training. Expected the tokeniser "
                "in the model's folder; copy it from where the model was trained, or run the stage again."
            )
        tokenizer = cls.load(model_dir)
        if (needed := rows(tokenizer.backend)) > vocab_size:
            raise DataError(
                f"{path}: has {needed:,} tokens, but the model has embeddings for {vocab_size:,}. "
                "Expected the tokeniser of its training; copy it from where the model was trained."
            )
        return tokenizer

    def encode_ragged(self, texts: Sequence[str], max_tokens: int) -> list[list[int]]:
        """Return the first ids of each text, without tokenising the part that is cut off.

        A text is first cut at white space after about the characters that `max_tokens` tokens need. If the
        cut gives fewer ids, it is doubled. The ids are those of the whole text, truncated. Where white space is no sure
        end of a token, as with most published tokenisers, texts are tokenised whole.

        Args:
            texts: the texts themselves, not paths of files.
            max_tokens: ids to keep of each text, at least 2: [CLS] and [SEP] are included.

        Returns:
            the ids of each text, at most `max_tokens`.

        Raises:
            ConfigError: `max_tokens` leaves no room for [CLS] and [SEP].
            DataError: the texts are a single string.
        """
        return [encoding.ids for encoding in self._encodings(texts, max_tokens, "encode_batch_fast")]

    def encode_pairs(
        self, pairs: Sequence[tuple[str, str]], max_tokens: int
    ) -> tuple[list[list[int]], list[list[int]], list[list[int | None]]]:
        """Return the ids of each pair of texts as one sequence, with the segment and the text of each token.

        It is the tokeniser's result for a pair, such as [CLS] first [SEP] second [SEP]. The longer text is cut until
        both fit.

        Args:
            pairs: the texts themselves, not paths of files.
            max_tokens: ids to keep of each pair, special tokens included.

        Returns:
            the ids of each pair; the segment of each token, 0 or 1, as the tokeniser has it (some give 0 to all); and
            the text of each token, 0 or 1, None for special tokens.

        Raises:
            ConfigError: the tokeniser puts nothing between two texts, or `max_tokens` leaves no room for what it puts
                and a token of each text.
        """
        core: Tokenizer = self.backend.backend_tokenizer
        alone, both = (core.num_special_tokens_to_add(is_pair) for is_pair in (False, True))
        if both <= alone:
            raise ConfigError(
                f"tokenizer: puts {both} special tokens around a pair of texts and {alone} around a single one, so the "
                "texts of a pair would run together. Set its 'enclose' to true, or name another one."
            )
        if max_tokens < both + 2:
            raise ConfigError(
                f"max_tokens = {max_tokens}: too few for a pair of texts. Expected at least {both + 2}: the tokeniser "
                f"adds {both} special tokens. Raise it."
            )
        core.no_padding()
        core.enable_truncation(max_tokens, strategy="longest_first")
        encodings = _encoded(core.encode_batch_fast, pairs)
        core.no_truncation()
        return (
            [encoding.ids for encoding in encodings],
            [encoding.type_ids for encoding in encodings],
            [encoding.sequence_ids for encoding in encodings],
        )

    def encode_words(self, texts: Sequence[str], max_tokens: int) -> tuple[list[list[int]], list[list[int | None]]]:
        """Return the ids of `encode_ragged`, and which word each begins.

        Words are what white space separates, whatever finer units the tokeniser knows: of "so-called", however many
        tokens it becomes, the first one begins the word. White space may be part of a token, or one by itself, which
        then begins no word.

        Args:
            texts: the texts themselves, not paths of files.
            max_tokens: ids to keep of each text, at least 2: [CLS] and [SEP] are included.

        Returns:
            the ids of each text, and for each of them the number of the word in the text that it begins; None for one
            that begins none. A word may have no token: behind `max_tokens`, or if it is made of characters that the
            tokeniser drops.

        Raises:
            ConfigError: `max_tokens` leaves no room for [CLS] and [SEP].
            DataError: the texts are a single string.
        """
        encodings = self._encodings(texts, max_tokens, "encode_batch")
        begun = [_words_begun(encoding, text) for encoding, text in zip(encodings, texts, strict=True)]
        return [encoding.ids for encoding in encodings], begun

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
            ConfigError: `max_tokens` leaves no room for a token, or the windows leave some out, or the tokeniser is a
                slow one, which knows no places.
            DataError: the texts are a single string.
        """
        require_several(texts)
        if not self.backend.is_fast:
            raise ConfigError(
                f"tokenizer: {type(self.backend).__name__} is a slow tokeniser, which does not say where in a text its "
                "tokens stand, so spans would be lost. Expected a fast one, with a tokenizer.json. Name another."
            )
        room = max_tokens - self.backend.num_special_tokens_to_add()
        step = max(1, int(stride * room)) if stride < 1 else int(stride)
        if step > room:
            raise ConfigError(
                f"window_stride = {stride}: a window of max_tokens = {max_tokens} holds {room} tokens of a text, so "
                "some would be in none. Lower it, or raise max_tokens."
            )
        core: Tokenizer = self.backend.backend_tokenizer
        core.no_padding()
        core.enable_truncation(max_tokens, stride=room - step)
        encodings = _encoded(core.encode_batch, texts)
        core.no_truncation()
        return [
            [_window(part, text) for part in (whole, *whole.overflowing)]
            for whole, text in zip(encodings, texts, strict=True)
        ]

    def _encodings(
        self, texts: Sequence[str], max_tokens: int, method: Literal["encode_batch", "encode_batch_fast"]
    ) -> list[Encoding]:
        """Encode as `encode_ragged` says; the fast method knows no positions in the text."""
        require_room(max_tokens)
        require_several(texts)
        core: Tokenizer = self.backend.backend_tokenizer
        core.no_padding()
        core.enable_truncation(max_tokens)
        found: dict[int, Encoding] = {}
        pending = list(range(len(texts)))
        characters = _CHARACTERS_PER_TOKEN * max_tokens if _splits_at_breaks(core) else max(map(len, texts), default=0)
        while pending:
            ends = [_end_of_cut(texts[i], characters) for i in pending]
            encodings = _encoded(getattr(core, method), [texts[i][:end] for i, end in zip(pending, ends, strict=True)])
            short = []
            for i, end, encoding in zip(pending, ends, encodings, strict=True):
                found[i] = encoding
                if end < len(texts[i]) and len(encoding) < max_tokens:
                    short.append(i)
            pending = short
            characters *= 2
        core.no_truncation()
        return [found[i] for i in range(len(texts))]


def _encoded(encode: Callable[[list[Any]], list[Encoding]], texts: Iterable[Any]) -> list[Encoding]:
    try:
        with panics_are_errors():
            return encode(list(texts))
    except Exception as error:  # the library raises bare Exception
        raise DataError(
            f"tokenizer: cannot tokenise a text ({error}). Expected one that has tokens for every text. Correct its "
            f"{PUBLISHED}, or name another tokeniser."
        ) from error


def read_core(folder: Path) -> Tokenizer:
    """Return the tokeniser of a tokenizer.json that can tokenise any text.

    Raises:
        DataError: it cannot be read, or as `check_core` raises it.
    """
    path = folder / PUBLISHED
    try:
        with panics_are_errors(), in_time(folder):
            core = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exception on a broken file
        raise DataError(
            f"{folder}: not a tokeniser ({error}). Expected {PUBLISHED} in the folder of its config."
        ) from error
    check_core(core, path)
    return core


def check_core(core: Tokenizer, path: Path) -> None:
    """Check that a tokeniser, read from `path`, can tokenise any text; it then neither pads nor truncates.

    Raises:
        DataError: it cannot tokenise an unknown character, or has ids that no vocabulary needs.
    """
    core.no_padding()
    core.no_truncation()
    token, number = max(core.get_vocab().items(), key=lambda entry: entry[1], default=("", 0))
    if number >= MOST_IDS:  # tables have a row per id
        raise DataError(
            f"{path}: the token {token[:40]!r} has the id {number}. Expected ids below {MOST_IDS}, numbered from 0 "
            "without large gaps. Correct the vocabulary, or fetch the file again."
        )
    try:
        with panics_are_errors(), in_time(path.parent):
            core.encode(UNKNOWN)
    except Exception as error:
        raise DataError(
            f"{path}: cannot tokenise a character that it does not know ({error}). Expected an unk_token, or unk_id, "
            "of its own vocabulary. Correct it, or fetch the file again."
        ) from error


def require_room(max_tokens: int) -> None:
    """Check that [CLS] and [SEP] fit into a document's tokens.

    Raises:
        ConfigError: they do not.
    """
    if max_tokens < 2:
        raise ConfigError(
            f"max_tokens = {max_tokens}: too few. Expected at least 2, since [CLS] and [SEP] are included. Raise it."
        )


def require_several(texts: Iterable[str]) -> None:
    """Refuse a string, whose characters would be taken for texts.

    Raises:
        DataError: it is one.
    """
    if isinstance(texts, str):
        raise DataError(
            f"texts: {texts[:40]!r} is a single string. Expected several texts; put one text into a list, and read "
            "those of a file first."
        )


def bert(vocabulary: dict[str, int], lowercase: bool, strip_accents: bool) -> BertTokenizerFast:
    """Return a tokeniser as BERT's, with another vocabulary: ids by token."""
    return BertTokenizerFast(
        vocab=vocabulary,
        do_lower_case=lowercase,
        strip_accents=strip_accents,
        model_input_names=INPUTS,
    )


def _window(encoding: Encoding, text: str) -> Window:
    starts, ends = [], []
    for start, end in encoding.offsets:
        token = text[start:end]
        starts.append(end - len(token.lstrip()))
        ends.append(max(starts[-1], start + len(token.rstrip())))
    return Window(encoding.ids, starts, ends)


def _splits_at_breaks(core: Tokenizer) -> bool:
    """Whether a text can be cut at a break without any change to the tokens before it."""
    return isinstance(core.pre_tokenizer, pre_tokenizers.BertPreTokenizer | pre_tokenizers.WhitespaceSplit) and (
        core.normalizer is None or isinstance(core.normalizer, normalizers.BertNormalizer)
    )


def _words_begun(encoding: Encoding, text: str) -> list[int | None]:
    """Return the number of the word that each token begins; None for one that begins none."""
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


def read_vocabulary(path: Path) -> dict[str, int]:
    """Return the ids by token of a vocab.txt.

    Raises:
        DataError: the file cannot be read, lacks a special token, or has a token twice.
    """
    tokens = [line.rstrip("\r\n") for line in _lines(path)]
    vocabulary = {token: i for i, token in enumerate(tokens)}
    if missing := [token for token in SPECIAL_TOKENS if token not in vocabulary]:
        raise DataError(f"{path}: lacks {', '.join(missing)}. Expected a WordPiece vocabulary, one token per line.")
    if len(vocabulary) < len(tokens):
        repeated = next(token for i, token in enumerate(tokens) if vocabulary[token] != i)
        raise DataError(f"{path}: token {repeated!r} occurs twice. Expected a token once; remove one line.")
    return vocabulary


def _lines(path: Path) -> Iterable[str]:
    try:
        if problem := not_fetched(path):
            raise DataError(problem)
        with path.open(encoding="utf-8", newline="\n") as lines:
            yield from lines
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read ({error}). Expected a UTF-8 text file; check the path.") from error


def _end_of_cut(text: str, characters: int) -> int:
    """Return where to cut `text`: at the first break after this many characters, or at its end."""
    if len(text) <= characters:
        return len(text)
    found = _BREAK.search(text, characters)
    return found.start() if found else len(text)
