"""Makes tokenisers: trains a vocabulary on texts, or takes a published one. `tokenizer` is how they are used.

A vocabulary is of WordPiece as BERT's, of whole words, of pairs of bytes, or of bytes.
"""

import itertools
import json
import logging
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import BertTokenizerFast, PreTrainedTokenizerFast

from lib.core.errors import ConfigError, DataError
from lib.core.files import not_fetched
from lib.core.labels import words
from lib.core.model_folder import check_core, opening, read_core
from lib.tokens.sentinels import sentinel
from lib.tokens.tokenizer import INPUTS, SPECIAL_TOKENS, TextTokenizer, require_several
from lib.tokens.tokenizer_files import LAYOUTS, NEXT_TO_IT, layout_of

logger = logging.getLogger(__name__)

_NAMES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
"""What transformers calls special tokens."""
_ALPHABET = 1000
"""Characters of a trained vocabulary, at most; rarer ones become [UNK]. The usual limit of BERT's trainer."""
_STRAY = 0.01
"""Largest share of tokens with capitals in a vocabulary of lower-cased texts; in a cased one it is far larger."""


def train_wordpiece(
    tokenizer_dir: str | Path,
    texts: Iterable[str],
    vocab_size: int = 30_000,
    min_frequency: int = 2,
    lowercase: bool = True,
    strip_accents: bool = True,
    enclose: bool = True,
) -> TextTokenizer:
    """Train a WordPiece vocabulary and save it as a folder.

    Args:
        tokenizer_dir: folder to appear, with vocab.txt, tokenizer.json and tokenizer_config.json.
        texts: the texts themselves, not paths of files. They are read twice; a one-way iterator is held in memory
            for that.
        vocab_size: entries of the vocabulary, at most (special tokens included); more if characters alone need more.
        min_frequency: occurrences that a token needs.
        lowercase: lower the case first.
        strip_accents: remove accents first.
        enclose: put [CLS] before and [SEP] behind every text.

    Raises:
        DataError: the texts are a single string, or hold no word.
    """
    require_several(texts)
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
    _require_words(alphabet, tokenizer_dir)
    vocabulary = core.get_vocab()
    if len(vocabulary) > vocab_size:
        sizes = vocab_size, len(vocabulary), len(alphabet)
        logger.warning("vocab_size = %d: has %d entries, two for each of %d characters. Set algorithm: bpe", *sizes)
    return from_vocabulary(vocabulary, tokenizer_dir, lowercase, strip_accents, enclose)


def train_words(
    tokenizer_dir: str | Path,
    texts: Iterable[str],
    vocab_size: int = 30_000,
    min_frequency: int = 1,
    enclose: bool = True,
) -> TextTokenizer:
    """Make a vocabulary of whole words, as white space separates them, and save it as a folder without vocab.txt.

    The most frequent words come first, and of equally frequent ones the alphabet's first. Arguments and errors are
    those of `train_wordpiece`.
    """
    require_several(texts)
    # The library's trainer would give a special token that occurs among the words a second id.
    counts = Counter(word for text in texts for word in words(text) if word not in SPECIAL_TOKENS)
    _require_words(counts, tokenizer_dir)
    frequent = sorted((word for word in counts if counts[word] >= min_frequency), key=lambda w: (-counts[w], w))
    vocabulary = [*SPECIAL_TOKENS, *frequent][: max(vocab_size, len(SPECIAL_TOKENS))]
    core = Tokenizer(models.WordLevel({token: i for i, token in enumerate(vocabulary)}, unk_token="[UNK]"))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return TextTokenizer(_wrapped(core, enclose)).save(tokenizer_dir)


def train_byte_pairs(
    tokenizer_dir: str | Path,
    texts: Iterable[str],
    vocab_size: int = 30_000,
    min_frequency: int = 2,
    enclose: bool = True,
) -> TextTokenizer:
    """Train byte-level BPE and save it as a folder without vocab.txt.

    Texts are taken as they are, in any script: the tokens of one give it back to the letter. Arguments and errors
    are those of `train_wordpiece`; single bytes are tokens however rare they are.

    Source: Radford et al., GPT-2 (2019), section 2.2.
    """
    require_several(texts)
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
    return TextTokenizer(_wrapped(core, enclose)).save(tokenizer_dir)


def from_published(published: str | Path, tokenizer_dir: str | Path, mask_token: str | None = None) -> TextTokenizer:
    """Save the folder of a tokeniser as its tokenizer.json or its vocabulary describes it, and return it.

    The files next to it, or the class of transformers that they name, list the special tokens. If none is meant
    for padding, the end-of-text token is taken: batches mark padding by their masks, and not by the token.

    Args:
        published: folder as transformers saves a tokeniser, or as a repository of the hub holds it.
        tokenizer_dir: folder to appear.
        mask_token: a new token, which becomes the mask token; None = its own, if it has one.

    Raises:
        ConfigError: the vocabulary has that token already, or gaps in its ids that leave no id for it.
        DataError: the tokeniser needs sentencepiece, cannot be read, or has no token that could serve as padding.
    """
    folder = Path(published)
    files = layout_of(folder)
    fields = "a config.json with its model_type or a tokenizer_config.json with its tokenizer_class"
    with opening(folder, f"{' and '.join(files)}, next to {fields}"):
        own = _loader(folder, files).from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        names = own.special_tokens_map
        core = read_core(folder) if files == LAYOUTS[0] else _core_of(own, folder / files[0])
    added = {token.content: token for token in core.get_added_tokens_decoder().values()}
    special = {
        name: added.get(names[name], names[name])
        for name in _NAMES
        if name in names and core.token_to_id(names[name]) is not None
    }
    if "pad_token" not in special and "eos_token" not in special:
        raise DataError(f"{folder}: names neither a padding token nor an end-of-text token. Set 'pad_token' in it.")
    special.setdefault("pad_token", special.get("eos_token"))
    if mask_token is not None:
        (special["mask_token"],) = _add(core, [mask_token], "mask_token")
    backend = PreTrainedTokenizerFast(
        tokenizer_object=core, model_input_names=INPUTS, split_special_tokens=own.split_special_tokens, **special
    )
    return TextTokenizer(backend).save(tokenizer_dir)


def _add(core: Tokenizer, tokens: Sequence[str], setting: str) -> list[AddedToken]:
    """Add special tokens to a vocabulary, and return them.

    Raises:
        ConfigError: it has one of them, or gaps, so that the library would give one of them the id of another token.
    """
    taken = {number: token for token, number in core.get_vocab().items()}
    added = [AddedToken(token, special=True, normalized=False) for token in tokens]
    core.add_special_tokens(added)
    for token in tokens:
        if (number := core.token_to_id(token)) in taken:
            raise ConfigError(
                f"{setting}: {token!r} would have the id {number} of {taken[number]!r}. Expected new tokens, and a "
                f"vocabulary without gaps; it has {len(taken)} tokens, but ids up to {max(taken)}. Leave it out."
            )
    return added


def _loader(folder: Path, files: tuple[str, ...]) -> Any:
    """Return the class that loads a tokeniser: BERT's for a vocab.txt, unless a file next to it names another."""
    from transformers import AutoTokenizer  # imports torch

    found = "".join(path.read_text(encoding="utf-8") for name in NEXT_TO_IT if (path := folder / name).is_file())
    is_named = '"tokenizer_class"' in found or '"model_type"' in found
    return AutoTokenizer if is_named or files != ("vocab.txt",) else BertTokenizerFast


def _core_of(own: Any, path: Path) -> Tokenizer:
    """Return what tokenises in `own`, which was made from the vocabulary in `path`.

    Raises:
        DataError: it is Python code, which does not say where in a text a token stands; or a token of the vocabulary is
            missing, as where the class reads another file.
    """
    if not own.is_fast:
        raise DataError(f"{path.parent}: {type(own).__name__} is a slow tokeniser, of Python code. Name a fast one.")
    core: Tokenizer = own.backend_tokenizer
    text = path.read_text(encoding="utf-8")
    # Not `splitlines`: a token may hold another character that ends lines.
    vocabulary = json.loads(text) if path.suffix == ".json" else text.split("\n")
    missing = [token for token in vocabulary if token.strip() and core.token_to_id(token.rstrip("\r")) is None]
    if missing:
        raise DataError(f"{path}: {type(own).__name__} has no token {missing[0]!r} of it, so it reads another file.")
    check_core(core)
    return core


def from_vocabulary(
    vocabulary: str | Path | dict[str, int],
    tokenizer_dir: str | Path,
    lowercase: bool = True,
    strip_accents: bool = True,
    enclose: bool = True,
) -> TextTokenizer:
    """Save the folder of a tokeniser with an existing vocabulary, such as BERT's vocab.txt, and return it.

    Args:
        vocabulary: path of a vocab.txt (one token per line), or ids by token.
        tokenizer_dir: folder to appear.
        lowercase: lower the case before tokenising.
        strip_accents: remove accents before tokenising.
        enclose: put [CLS] before and [SEP] behind every text.

    Raises:
        DataError: the file is missing, lacks one of the special tokens, or is cased although `lowercase` is asked for.
    """
    if not isinstance(vocabulary, dict):
        path, vocabulary = vocabulary, read_vocabulary(Path(vocabulary))
        if lowercase:
            _require_lowercase(vocabulary, path)
    backend = _bert(vocabulary, lowercase, strip_accents)
    # BERT's own class would put [CLS] and [SEP] back as soon as its folder is loaded.
    return TextTokenizer(backend if enclose else _wrapped(backend.backend_tokenizer, enclose)).save(tokenizer_dir)


def _bert(vocabulary: dict[str, int], lowercase: bool, strip_accents: bool) -> BertTokenizerFast:
    """Return a tokeniser as BERT's, with another vocabulary: ids by token."""
    return BertTokenizerFast(
        vocab=vocabulary, do_lower_case=lowercase, strip_accents=strip_accents, model_input_names=INPUTS
    )


def _require_lowercase(vocabulary: Iterable[str], path: str | Path) -> None:
    """Refuse a vocabulary of cased texts, whose tokens with capitals no lower-cased text would have.

    Raises:
        DataError: more of its tokens have capitals than stray ones in a vocabulary of lower-cased texts.
    """
    words = [token for token in vocabulary if not (token.startswith(("[", "<")) and token.endswith(("]", ">")))]
    capitals = [token for token in words if any(letter.isupper() for letter in token)]
    if len(capitals) > _STRAY * len(words):
        raise DataError(
            f"{path}: lowercase is true, but {len(capitals):,} of {len(words):,} tokens have capitals, such as "
            f"{capitals[-1]!r}. Set 'lowercase: false' (usually with 'strip_accents: false') for the tokeniser."
        )


def save_bytes(tokenizer_dir: str | Path, enclose: bool = True) -> TextTokenizer:
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
    return TextTokenizer(_wrapped(core, enclose, split_special_tokens=True)).save(tokenizer_dir)


def add_sentinels(tokenizer_dir: str | Path, number: int) -> None:
    """Add sentinel tokens behind the vocabulary of a saved tokeniser, which stays as it is otherwise.

    Args:
        tokenizer_dir: its folder.
        number: of sentinel tokens.

    Raises:
        ConfigError: it has some already, or gaps in its ids that leave none for them.
        DataError: the folder holds no tokeniser.
    """
    backend = TextTokenizer.load(tokenizer_dir).backend
    _add(backend.backend_tokenizer, [sentinel(each) for each in range(number)], "sentinels")
    backend.save_pretrained(tokenizer_dir)


def read_vocabulary(path: Path) -> dict[str, int]:
    """Return the ids by token of a vocab.txt.

    Raises:
        DataError: the file cannot be read, lacks a special token, or has a token twice.
    """
    try:
        if problem := not_fetched(path):
            raise DataError(problem)
        with path.open(encoding="utf-8", newline="\n") as lines:
            tokens = [line.rstrip("\r\n") for line in lines]
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read ({error}). Expected a UTF-8 text file; check the path.") from error
    vocabulary = {token: i for i, token in enumerate(tokens)}
    if missing := [token for token in SPECIAL_TOKENS if token not in vocabulary]:
        raise DataError(f"{path}: lacks {', '.join(missing)}. Expected a WordPiece vocabulary, one token per line.")
    if len(vocabulary) < len(tokens):
        repeated, _ = Counter(tokens).most_common(1)[0]
        raise DataError(f"{path}: token {repeated!r} occurs twice. Expected a token once; remove one line.")
    return vocabulary


def _require_words(found: Collection[str], tokenizer_dir: str | Path) -> None:
    if not found:
        raise DataError(f"{tokenizer_dir}: no vocabulary can be trained, since the texts hold no word. Check them.")


def _alphabet(texts: Iterable[str]) -> list[str]:
    """Return the most frequent characters, sorted."""
    counts = Counter(itertools.chain.from_iterable(texts))
    ranked = sorted((character for character in counts if not character.isspace()), key=lambda c: (-counts[c], c))
    return sorted(ranked[:_ALPHABET])


def _wrapped(core: Tokenizer, enclose: bool, **options: Any) -> PreTrainedTokenizerFast:
    """Return a tokeniser of transformers that leaves `core` as it is, but for [CLS] and [SEP]."""
    single, pair = ("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1") if enclose else ("$A", "$A $B:1")
    special_tokens = [(token, core.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
    core.post_processor = processors.TemplateProcessing(single=single, pair=pair, special_tokens=special_tokens)
    names = {f"{token[1:-1].lower()}_token": token for token in SPECIAL_TOKENS}
    return PreTrainedTokenizerFast(tokenizer_object=core, model_input_names=INPUTS, **options, **names)
