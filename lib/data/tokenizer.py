"""The tokeniser: training, loading, and text to token ids. Storing tokenised corpora is `tokenizing`.

It makes WordPiece tokens as BERT's, takes whole words, pairs of bytes or bytes as they are, or is a fast tokeniser that
was published.
"""

import json
import re
from bisect import bisect
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from tokenizers import (
    AddedToken,
    Encoding,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import BertTokenizerFast, PreTrainedTokenizerFast

from lib.core.errors import ConfigError, DataError
from lib.core.files import atomic_path
from lib.data.labels import word_spans, words
from lib.data.sentinels import sentinel, sentinel_ids

VOCABULARY = "vocab.txt"
PUBLISHED = "tokenizer.json"
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_INPUTS = ["input_ids", "attention_mask"]
_NAMES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
"""What transformers calls special tokens."""
# A cut at one of these never joins, splits or renormalises words: BERT's normaliser turns them into spaces.
# Other characters that Python calls white space (vertical tab, U+001C, ...) it deletes, which joins the words.
_BREAK = re.compile("[ \t\n\r]")
_CHARACTERS_PER_TOKEN = 6
_ALPHABET = 1000
"""Characters of a trained vocabulary, at most; rarer ones become [UNK]. The usual limit of BERT's trainer."""


class Window(NamedTuple):
    """Consecutive tokens of a text, enclosed as the tokeniser encloses texts."""

    ids: list[int]
    """Of the tokens [m]."""
    starts: list[int]
    """Where each token begins in the text, in characters [m]."""
    ends: list[int]
    """Where it ends [m]; one that stands for no character, such as [CLS] or a space, ends where it begins."""


class TextTokenizer:
    """From texts to token ids, in the folder layout of transformers (`AutoTokenizer` loads it).

    Attributes:
        backend: the tokeniser of transformers that does the work.
    """

    def __init__(self, backend: PreTrainedTokenizerFast) -> None:
        self.backend = backend

    @classmethod
    def train(
        cls,
        tokenizer_dir: str | Path,
        texts: Iterable[str],
        vocab_size: int = 30_000,
        min_frequency: int = 2,
        lowercase: bool = True,
        strip_accents: bool = True,
        enclose: bool = True,
    ) -> "TextTokenizer":
        """Train a WordPiece vocabulary and save it as a folder.

        Args:
            tokenizer_dir: folder to appear, with vocab.txt, tokenizer.json and tokenizer_config.json.
            texts: the texts themselves, not paths of files. They are read twice; a one-way iterator is held in memory
                for that.
            vocab_size: entries of the vocabulary, at most (special tokens included).
            min_frequency: occurrences that a token needs.
            lowercase: lower the case first.
            strip_accents: remove accents first.
            enclose: put [CLS] before and [SEP] behind every text.

        Raises:
            DataError: the texts are a single string, or hold no word.
        """
        _require_several(texts)
        texts = list(texts) if isinstance(texts, Iterator) else texts
        core = _bert({token: i for i, token in enumerate(SPECIAL_TOKENS)}, lowercase, strip_accents).backend_tokenizer
        alphabet = _alphabet(core.normalizer.normalize_str(text) for text in texts)
        trainer = trainers.WordPieceTrainer(
            vocab_size=vocab_size,
            min_frequency=min_frequency,
            # The trainer numbers letters inside words in the order of a hash map that differs between processes, and
            # breaks ties between merges by these numbers. Named beforehand, they make training repeatable.
            special_tokens=[*SPECIAL_TOKENS, *(f"##{letter}" for letter in alphabet)],
            initial_alphabet=alphabet,
            limit_alphabet=len(alphabet),
            show_progress=False,
        )
        core.train_from_iterator(texts, trainer)
        vocabulary = core.get_vocab()
        _require_words(alphabet, tokenizer_dir)
        return cls.from_vocabulary(vocabulary, tokenizer_dir, lowercase, strip_accents, enclose)

    @classmethod
    def train_words(
        cls,
        tokenizer_dir: str | Path,
        texts: Iterable[str],
        vocab_size: int = 30_000,
        min_frequency: int = 1,
        enclose: bool = True,
    ) -> "TextTokenizer":
        """Make a vocabulary of whole words, as white space separates them, and save it as a folder without vocab.txt.

        The most frequent words come first, and of equally frequent ones the alphabet's first. Arguments and errors are
        those of `train`.
        """
        _require_several(texts)
        # The library's trainer would give a special token that occurs among the words a second id.
        counts = Counter(word for text in texts for word in words(text) if word not in SPECIAL_TOKENS)
        _require_words(counts, tokenizer_dir)
        frequent = sorted((word for word in counts if counts[word] >= min_frequency), key=lambda w: (-counts[w], w))
        vocabulary = [*SPECIAL_TOKENS, *frequent][: max(vocab_size, len(SPECIAL_TOKENS))]
        core = Tokenizer(models.WordLevel({token: i for i, token in enumerate(vocabulary)}, unk_token="[UNK]"))
        core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        return cls(_wrapped(core, enclose))._save(tokenizer_dir)

    @classmethod
    def train_bytes(
        cls,
        tokenizer_dir: str | Path,
        texts: Iterable[str],
        vocab_size: int = 30_000,
        min_frequency: int = 2,
        enclose: bool = True,
    ) -> "TextTokenizer":
        """Train byte-level BPE and save it as a folder without vocab.txt.

        Texts are taken as they are, in any script: the tokens of one give it back to the letter. Arguments and errors
        are those of `train`; single bytes are tokens however rare they are.

        Source: Radford et al., GPT-2 (2019), section 2.2.
        """
        _require_several(texts)
        texts = list(texts) if isinstance(texts, Iterator) else texts
        _require_words(next((text for text in texts if words(text)), ""), tokenizer_dir)
        core = Tokenizer(models.BPE())
        core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        core.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=vocab_size,
            min_frequency=min_frequency,
            special_tokens=list(SPECIAL_TOKENS),
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        core.train_from_iterator(texts, trainer)
        return cls(_wrapped(core, enclose))._save(tokenizer_dir)

    @classmethod
    def from_published(
        cls, published: str | Path, tokenizer_dir: str | Path, mask_token: str | None = None
    ) -> "TextTokenizer":
        """Save the folder of a tokeniser as its tokenizer.json describes it, and return it.

        Which tokens are special, the files beside it say, or the class of transformers that they name. If none is meant
        for padding, the end-of-text token is taken: batches say by their masks what is padding, and not by the token.

        Args:
            published: folder as transformers saves a tokeniser, or as a repository of the hub holds it.
            tokenizer_dir: folder to appear.
            mask_token: a new token, which becomes the mask token; None = its own, if it has one.

        Raises:
            ConfigError: the vocabulary has that token already.
            DataError: the tokeniser is a slow one, cannot be read, or has no token that could serve as padding.
        """
        from transformers import AutoTokenizer  # it imports torch

        folder = Path(published)
        if not (folder / PUBLISHED).is_file():
            raise DataError(
                f"{folder}: holds no {PUBLISHED}. Expected a folder with a fast tokeniser. If there is a slow one, "
                f"convert it where sentencepiece is installed: AutoTokenizer.from_pretrained('{folder}')"
                ".save_pretrained('FOLDER')."
            )
        try:
            core = Tokenizer.from_file(str(folder / PUBLISHED))
            own = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
            names = own.special_tokens_map
        except Exception as error:  # the library raises bare Exception on a broken file
            raise DataError(f"{folder}: not a tokeniser ({error}). Expected {PUBLISHED} beside its config.") from error
        core.no_padding()
        core.no_truncation()
        added = {token.content: token for token in core.get_added_tokens_decoder().values()}
        special = {
            name: added.get(names[name], names[name])
            for name in _NAMES
            if name in names and core.token_to_id(names[name]) is not None
        }
        if "pad_token" not in special and "eos_token" not in special:
            raise DataError(
                f"{folder}: names neither a padding token nor an end-of-text token. Set 'pad_token' in its "
                "tokenizer_config.json to any token that texts do not need."
            )
        special.setdefault("pad_token", special.get("eos_token"))
        if mask_token is not None:
            if core.token_to_id(mask_token) is not None:
                raise ConfigError(
                    f"mask_token = {mask_token!r}: the vocabulary of {folder} has it already. Leave it out here, and "
                    "name it in the task (`mask_token`)."
                )
            special["mask_token"] = AddedToken(mask_token, special=True, normalized=False)
            core.add_special_tokens([special["mask_token"]])
        backend = PreTrainedTokenizerFast(tokenizer_object=core, model_input_names=_INPUTS, **special)
        return cls(backend)._save(tokenizer_dir)

    @classmethod
    def from_vocabulary(
        cls,
        vocabulary: str | Path | dict[str, int],
        tokenizer_dir: str | Path,
        lowercase: bool = True,
        strip_accents: bool = True,
        enclose: bool = True,
    ) -> "TextTokenizer":
        """Save the folder of a tokeniser with an existing vocabulary, such as BERT's vocab.txt, and return it.

        Args:
            vocabulary: path of a vocab.txt (one token per line), or ids by token.
            tokenizer_dir: folder to appear.
            lowercase: lower the case before tokenising.
            strip_accents: remove accents before tokenising.
            enclose: put [CLS] before and [SEP] behind every text.

        Raises:
            DataError: the file is missing, or lacks one of the special tokens.
        """
        if not isinstance(vocabulary, dict):
            vocabulary = _read_vocabulary(Path(vocabulary))
        backend = _bert(vocabulary, lowercase, strip_accents)
        # BERT's own class would put [CLS] and [SEP] back as soon as its folder is loaded.
        return cls(backend if enclose else _wrapped(backend.backend_tokenizer, enclose))._save(tokenizer_dir)

    def _save(self, tokenizer_dir: str | Path) -> "TextTokenizer":
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
            return cls(_bert(_read_vocabulary(folder / VOCABULARY), lowercase=True, strip_accents=True))
        try:
            # Which AutoTokenizer would find out as well, but it imports torch for that.
            saved_by = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))["tokenizer_class"]
            backend = BertTokenizerFast if saved_by.startswith("BertTokenizer") else PreTrainedTokenizerFast
            return cls(backend.from_pretrained(folder, local_files_only=True))
        except Exception as error:  # the loaders below raise bare Exception on a broken file
            raise DataError(
                f"{folder}: not a tokeniser ({error}). Expected tokenizer.json beside its config; make it again."
            ) from error

    def encode_ragged(self, texts: Sequence[str], max_tokens: int) -> list[list[int]]:
        """Return the first ids of each text, without tokenising what is cut off anyway.

        A text is first cut at white space after about as many characters as `max_tokens` tokens need. If the
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
    ) -> tuple[list[list[int]], list[list[int]]]:
        """Return the ids of each pair of texts as one sequence, and which of the two each token belongs to.

        It is what the tokeniser makes of a pair, such as [CLS] first [SEP] second [SEP]. The longer text is cut until
        both fit.

        Args:
            pairs: the texts themselves, not paths of files.
            max_tokens: ids to keep of each pair, special tokens included.

        Returns:
            the ids of each pair, and as many numbers of segments: 0 or 1, as the tokeniser has them (some give 0 to
            all tokens).

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
        encodings = core.encode_batch_fast(list(pairs))
        core.no_truncation()
        return [encoding.ids for encoding in encodings], [encoding.type_ids for encoding in encodings]

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
                fit beside [CLS] and [SEP].

        Raises:
            ConfigError: `max_tokens` leaves no room for a token, or the windows leave some out, or the tokeniser is a
                slow one, which knows no places.
            DataError: the texts are a single string.
        """
        _require_several(texts)
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
        encodings = core.encode_batch(list(texts))
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
        _require_several(texts)
        core: Tokenizer = self.backend.backend_tokenizer
        core.no_padding()
        core.enable_truncation(max_tokens)
        found: dict[int, Encoding] = {}
        pending = list(range(len(texts)))
        characters = _CHARACTERS_PER_TOKEN * max_tokens if _splits_at_breaks(core) else max(map(len, texts), default=0)
        while pending:
            ends = [_end_of_cut(texts[i], characters) for i in pending]
            encodings = getattr(core, method)([texts[i][:end] for i, end in zip(pending, ends, strict=True)])
            short = []
            for i, end, encoding in zip(pending, ends, encodings, strict=True):
                found[i] = encoding
                if end < len(texts[i]) and len(encoding) < max_tokens:
                    short.append(i)
            pending = short
            characters *= 2
        core.no_truncation()
        return [found[i] for i in range(len(texts))]


def save_byte_tokenizer(tokenizer_dir: str | Path, enclose: bool = True) -> TextTokenizer:
    """Save the folder of a tokeniser whose tokens are the 256 bytes of UTF-8, and return it; nothing is trained.

    Every text is representable, and the tokens of one give it back to the letter. A text that spells a special token,
    such as "[SEP]", becomes its five bytes.

    Args:
        tokenizer_dir: folder to appear.
        enclose: put [CLS] before and [SEP] behind every text.
    """
    tokens = [*SPECIAL_TOKENS, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    core = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.decoder = decoders.ByteLevel()
    wrapped = _wrapped(core, enclose)
    backend = PreTrainedTokenizerFast(
        tokenizer_object=wrapped.backend_tokenizer,
        model_input_names=_INPUTS,
        split_special_tokens=True,
        **wrapped.special_tokens_map,
    )
    return TextTokenizer(backend)._save(tokenizer_dir)


def add_sentinels(tokenizer_dir: str | Path, number: int) -> None:
    """Add sentinel tokens behind the vocabulary of a saved tokeniser, which stays as it is otherwise.

    Args:
        tokenizer_dir: its folder.
        number: of sentinel tokens.

    Raises:
        ConfigError: it has some already.
        DataError: the folder holds no tokeniser.
    """
    backend = TextTokenizer.load(tokenizer_dir).backend
    if found := sentinel_ids(backend):
        raise ConfigError(
            f"sentinels = {number}: the vocabulary has {len(found)} of its own ({sentinel(0)} and so on). Leave it out."
        )
    added = [AddedToken(sentinel(each), special=True, normalized=False) for each in range(number)]
    backend.add_tokens(added, special_tokens=True)
    backend.save_pretrained(tokenizer_dir)


def require_room(max_tokens: int) -> None:
    """Check that [CLS] and [SEP] fit into a document's tokens.

    Raises:
        ConfigError: they do not.
    """
    if max_tokens < 2:
        raise ConfigError(
            f"max_tokens = {max_tokens}: too few. Expected at least 2, since [CLS] and [SEP] are included. Raise it."
        )


def _require_several(texts: Iterable[str]) -> None:
    """Refuse a string, whose characters would be taken for texts."""
    if isinstance(texts, str):
        raise DataError(
            f"texts: {texts[:40]!r} is a single string. Expected several texts; put one text into a list, and read "
            "those of a file first."
        )


def _require_words(found: Collection[str], tokenizer_dir: str | Path) -> None:
    if not found:
        raise DataError(f"{tokenizer_dir}: no vocabulary can be trained, since the texts hold no word. Check them.")


def _alphabet(texts: Iterable[str]) -> list[str]:
    """Return the most frequent characters, sorted."""
    counts = Counter[str]()
    for text in texts:
        counts.update(text)
    ranked = sorted((character for character in counts if not character.isspace()), key=lambda c: (-counts[c], c))
    return sorted(ranked[:_ALPHABET])


def _bert(vocabulary: dict[str, int], lowercase: bool, strip_accents: bool) -> BertTokenizerFast:
    return BertTokenizerFast(
        vocab=vocabulary,
        do_lower_case=lowercase,
        strip_accents=strip_accents,
        model_input_names=_INPUTS,
    )


def _wrapped(core: Tokenizer, enclose: bool) -> PreTrainedTokenizerFast:
    """Return a tokeniser of transformers that leaves `core` as it is, but for [CLS] and [SEP]."""
    single, pair = ("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1") if enclose else ("$A", "$A $B:1")
    special_tokens = [(token, core.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
    core.post_processor = processors.TemplateProcessing(single=single, pair=pair, special_tokens=special_tokens)
    names = {f"{token[1:-1].lower()}_token": token for token in SPECIAL_TOKENS}
    return PreTrainedTokenizerFast(tokenizer_object=core, model_input_names=_INPUTS, **names)


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


def _read_vocabulary(path: Path) -> dict[str, int]:
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
        with path.open(encoding="utf-8", newline="\n") as lines:
            yield from lines
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read ({error}). Expected a UTF-8 text file; check the path.") from error


def _end_of_cut(text: str, characters: int) -> int:
    """Return where to cut `text`: at the first break after so many characters, or at its end."""
    if len(text) <= characters:
        return len(text)
    found = _BREAK.search(text, characters)
    return found.start() if found else len(text)
