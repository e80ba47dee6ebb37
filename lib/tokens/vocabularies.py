"""Makes tokenisers: trains a vocabulary on texts, or takes a published one. `tokenizer` is how they are used.

A vocabulary is of WordPiece as BERT's, of whole words, of pairs of bytes, or of bytes.
"""

import json
import logging
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import BertTokenizerFast, PreTrainedTokenizerFast

from lib.core.errors import ConfigError, DataError, panics_are_errors
from lib.core.labels import words
from lib.core.model_folder import in_time
from lib.tokens.sentinels import sentinel, sentinel_ids
from lib.tokens.tokenizer import (
    INPUTS,
    PUBLISHED,
    SPECIAL_TOKENS,
    VOCABULARY,
    TextTokenizer,
    bert,
    check_core,
    read_core,
    read_vocabulary,
    require_several,
)
from lib.tokens.tokenizer_files import NEXT_TO_IT, fields_of, layout_of, slow_tokenizer

logger = logging.getLogger(__name__)

_NAMES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
"""What transformers calls special tokens."""
_ALPHABET = 1000
"""Characters of a trained vocabulary, at most; rarer ones become [UNK]. The usual limit of BERT's trainer."""
_STRAY = 0.01
"""Largest share of tokens with capitals in a vocabulary of lower-cased texts; in a cased one it is far larger."""
_FLAGGED = " \u00c9a\u4e2d\u6587"
"""A space, a capital, an accent and two ideographs, which the flags below concern."""
_FLAGS: dict[type, tuple[str, ...]] = {
    normalizers.BertNormalizer: ("do_lower_case", "strip_accents", "tokenize_chinese_chars"),
    pre_tokenizers.ByteLevel: ("add_prefix_space",),
}
"""Fields of a tokenizer_config.json that transformers sets in parts of a tokeniser, whatever tokenizer.json says."""


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
    core = bert({token: i for i, token in enumerate(SPECIAL_TOKENS)}, lowercase, strip_accents).backend_tokenizer
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
    if len(vocabulary) > vocab_size:
        logger.warning(
            "vocab_size = %d: the vocabulary has %d entries, since each of the %d characters of the texts needs one at "
            "the beginning of a word and one inside. Expected at least %d. Raise it, or set algorithm: bpe, whose "
            "smallest vocabulary has 262 entries",
            vocab_size,
            len(vocabulary),
            len(alphabet),
            len(vocabulary),
        )
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
        DataError: the tokeniser needs sentencepiece, cannot be read, has no token that could serve as padding, or its
            tokenizer.json differs from the tokeniser that transformers reads with the files next to it.
    """
    folder = Path(published)
    files = layout_of(folder)
    described = read_core(folder) if files == (PUBLISHED,) else None
    try:
        with panics_are_errors(), in_time(folder):
            own = _loader(folder).from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        names = own.special_tokens_map
    except Exception as error:  # the library raises bare Exception on a broken file
        raise DataError(
            f"{folder}: not a tokeniser ({error}). Expected {' and '.join(files)}, next to a config.json with its "
            "model_type or a tokenizer_config.json with its tokenizer_class. Correct these files, or fetch them again."
        ) from error
    if described is None:
        core = _core_of(own, folder / files[0])
    else:
        core = described
        if own.is_fast:
            _check_agreement(core, own.backend_tokenizer, folder, {names.get(name) for name in _NAMES})
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
        _add(core, [special["mask_token"]], f"mask_token = {mask_token!r}")
    backend = PreTrainedTokenizerFast(
        tokenizer_object=core, model_input_names=INPUTS, split_special_tokens=own.split_special_tokens, **special
    )
    return TextTokenizer(backend).save(tokenizer_dir)


def _check_agreement(core: Tokenizer, own: Tokenizer, folder: Path, named: Collection[str | None]) -> None:
    """Check that files next to a tokenizer.json change neither its vocabulary nor the case or the spaces of texts.

    The rest is as tokenizer.json says: classes of transformers rebuild some tokenisers, and not always alike.

    Args:
        core: as tokenizer.json describes it.
        own: as transformers reads the whole folder.
        folder: with the files.
        named: tokens of `own` that `_NAMES` are names of; those that tokenizer.json lacks are left out later.

    Raises:
        DataError: they do.
    """
    stated = fields_of(folder / "tokenizer_config.json")
    listed = stated.get("added_tokens_decoder")
    tokens = [*fields_of(folder / "added_tokens.json")]
    tokens += [each.get("content") for each in listed.values()] if isinstance(listed, dict) else []
    tokens += [each.content for each in own.get_added_tokens_decoder().values() if each.content not in named]
    differences = [
        f"id of the token {token!r}: {core.token_to_id(token)} or {own.token_to_id(token)}"
        for token in tokens
        if core.token_to_id(token) != own.token_to_id(token)
    ]
    for part, theirs in ((core.normalizer, own.normalizer), (core.pre_tokenizer, own.pre_tokenizer)):
        flags = [flag for flag in _FLAGS.get(type(part), ()) if stated.get(flag) is not None]
        if flags and type(theirs) is type(part) and _seen(part) != _seen(theirs):
            values = ", ".join(f"{flag}: {json.dumps(stated[flag])}" for flag in flags)
            differences.append(f"{values}: texts become {_seen(part)!r} or {_seen(theirs)!r}")
    if differences:
        raise DataError(
            f"{folder}: {PUBLISHED} differs from the tokeniser that transformers reads with the files next to it "
            f"({differences[0]}). Expected both alike. Save the latter with AutoTokenizer.from_pretrained('{folder}')"
            f".save_pretrained('FOLDER'); or, if {PUBLISHED} is right, correct tokenizer_config.json and "
            "added_tokens.json, and take the corrected folder with source: local."
        )


def _seen(part: Any) -> Any:
    """Return the result of a normaliser, or a pre-tokeniser, for a text that shows the effect of its flags."""
    if isinstance(part, normalizers.Normalizer):
        return part.normalize_str(_FLAGGED)
    return [piece for piece, _ in part.pre_tokenize_str(_FLAGGED.strip())]


def _add(core: Tokenizer, tokens: list[AddedToken], setting: str) -> None:
    """Add special tokens to a vocabulary that has none of them.

    Raises:
        ConfigError: it has gaps, so that the library would give one of them the id of another token.
    """
    taken = {number: token for token, number in core.get_vocab().items()}
    core.add_special_tokens(tokens)
    for token in tokens:
        number = core.token_to_id(token.content)
        if number in taken:
            raise ConfigError(
                f"{setting}: the vocabulary has {len(taken)} tokens, but ids up to {max(taken)}, so "
                f"{token.content!r} would take the id {number} of {taken[number]!r}. Expected ids without gaps. Give "
                f"the gaps tokens in the tokeniser's {PUBLISHED}, or leave the setting out."
            )


def _loader(folder: Path) -> Any:
    """Return the class that loads a tokeniser: BERT's for a vocab.txt, unless a file next to it names another."""
    from transformers import AutoTokenizer  # it imports torch

    for name in NEXT_TO_IT:
        fields = fields_of(folder / name)
        if fields.get("tokenizer_class") or fields.get("model_type"):
            return AutoTokenizer
    bare = (folder / VOCABULARY).is_file() and not (folder / PUBLISHED).is_file()
    return BertTokenizerFast if bare else AutoTokenizer


def _core_of(own: Any, path: Path) -> Tokenizer:
    """Return what tokenises in `own`, which was made from the vocabulary in `path`.

    Raises:
        DataError: it is Python code, which does not say where in a text a token stands; or a token of the vocabulary is
            missing, as where the class reads another file; or as `check_core` raises it.
    """
    kind = type(own).__name__
    if not own.is_fast:
        raise slow_tokenizer(path.parent, kind)
    core: Tokenizer = own.backend_tokenizer
    try:
        text = path.read_text(encoding="utf-8")
        # Not `splitlines`: a token may hold another character that ends lines.
        vocabulary = list(json.loads(text)) if path.suffix == ".json" else text.split("\n")
    except ValueError as error:
        raise DataError(f"{path}: cannot be read ({error}). Expected a vocabulary; fetch the file again.") from error
    missing = [token for token in vocabulary if token.strip() and core.token_to_id(token.rstrip("\r")) is None]
    if missing:
        raise DataError(
            f"{path}: {kind} has no token {missing[0]!r} of it, so it reads another file. Correct 'tokenizer_class' in "
            f"the tokenizer_config.json next to it, or add a {PUBLISHED}."
        )
    check_core(core, path)
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
    backend = bert(vocabulary, lowercase, strip_accents)
    # BERT's own class would put [CLS] and [SEP] back as soon as its folder is loaded.
    return TextTokenizer(backend if enclose else _wrapped(backend.backend_tokenizer, enclose)).save(tokenizer_dir)


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
            f"{capitals[-1]!r}, and no lower-cased text has them. Set 'lowercase: false' (usually with "
            "'strip_accents: false') for the tokeniser, or take the vocabulary of lower-cased texts."
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
    wrapped = _wrapped(core, enclose)
    backend = PreTrainedTokenizerFast(
        tokenizer_object=wrapped.backend_tokenizer,
        model_input_names=INPUTS,
        split_special_tokens=True,
        **wrapped.special_tokens_map,
    )
    return TextTokenizer(backend).save(tokenizer_dir)


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
    if found := sentinel_ids(backend):
        raise ConfigError(
            f"sentinels = {number}: the vocabulary has {len(found)} of its own ({sentinel(0)} and so on). Leave it out."
        )
    added = [AddedToken(sentinel(each), special=True, normalized=False) for each in range(number)]
    _add(backend.backend_tokenizer, added, f"sentinels = {number}")
    backend.save_pretrained(tokenizer_dir)


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


def _wrapped(core: Tokenizer, enclose: bool) -> PreTrainedTokenizerFast:
    """Return a tokeniser of transformers that leaves `core` as it is, but for [CLS] and [SEP]."""
    single, pair = ("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1") if enclose else ("$A", "$A $B:1")
    special_tokens = [(token, core.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
    core.post_processor = processors.TemplateProcessing(single=single, pair=pair, special_tokens=special_tokens)
    names = {f"{token[1:-1].lower()}_token": token for token in SPECIAL_TOKENS}
    return PreTrainedTokenizerFast(tokenizer_object=core, model_input_names=INPUTS, **names)
