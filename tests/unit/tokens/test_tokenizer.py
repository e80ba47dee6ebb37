import json
import os
import subprocess
import sys

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer, BertTokenizerFast

from lib.core.errors import ConfigError, DataError
from lib.core.labels import word_spans
from lib.core.vocabulary import rows
from lib.tokens.cutting import encode_cut_pairs, encode_cut_words
from lib.tokens.tokenizer import SPECIAL_TOKENS, TextTokenizer
from lib.tokens.vocabularies import (
    add_sentinels,
    from_published,
    from_vocabulary,
    save_bytes,
    train_byte_pairs,
    train_wordpiece,
    train_words,
)
from studies.hate_speech.tokens.span_corruption import sentinel_ids

TEXTS = ["The cat sat on the mat.", "A dog sat on the log, naïve café!", "The cats and the dogs ran 42 miles."] * 3


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return train_wordpiece(tmp_path_factory.mktemp("trained") / "tokenizer", TEXTS, vocab_size=120)


def whole(tokenizer, text, max_tokens):
    return tokenizer.backend(text, truncation=True, max_length=max_tokens)["input_ids"]


PIECES = st.one_of(
    st.text(max_size=12),
    st.sampled_from([" ", "\n", "\t", "\r\n", "\x0b", "\x1c", "\x85", "\u00a0", "\u200b", "\u2028", "\u3000", "\x00"]),
    st.sampled_from(["e\u0301", "\u0301", "\u0323\u0307", "\ufeff", "\u4e2d\u6587", "\uac00", "İ", "Σ", "ß", "[MASK]"]),
    st.sampled_from(["the cat sat ", "dog" * 60, "x" * 101, "...", "!?", "a b c d e f g h ", "     " * 20]),
)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.lists(PIECES, max_size=40).map("".join), min_size=1, max_size=4), st.integers(2, 12))
@example(["the cat " * 3 + " " * 300 + "sat on the mat"], 8)
@example([("x" * 150 + " ") * 4], 5)
@example(["a\x0bb" * 40], 4)
@example(["", " ", "\u200b"], 2)
def test_cut_ids_against_the_whole_text(tokenizer, texts, max_tokens):
    assert tokenizer.encode_ragged(texts, max_tokens) == [whole(tokenizer, text, max_tokens) for text in texts]


@pytest.mark.extended
def test_training_in_another_process(tmp_path):
    program = (
        "import sys; from lib.tokens.vocabularies import train_byte_pairs, train_wordpiece\n"
        "texts = ['banana bandana cabana', 'canal panama мій'] * 3\n"
        "train_wordpiece(sys.argv[1] + '/pieces', texts, 60); train_byte_pairs(sys.argv[1] + '/bytes', texts, 300)"
    )
    for name in "ab":
        subprocess.run([sys.executable, "-c", program, tmp_path / name], check=True, env={**os.environ})
    for file in ("pieces/vocab.txt", "bytes/tokenizer.json"):
        assert (tmp_path / "a" / file).read_text() == (tmp_path / "b" / file).read_text()


def test_vocabulary_with_a_token_twice(tmp_path):
    (tmp_path / "vocab.txt").write_text("".join(f"{token}\n" for token in [*SPECIAL_TOKENS, "a", "a"]))
    with pytest.raises(DataError, match="twice"):
        from_vocabulary(tmp_path / "vocab.txt", tmp_path / "out")
    assert not (tmp_path / "out").exists()


CASED = {
    "cased": (["the", "The", "##s", "Paris"], True),
    "uncased": (["the", "##s", "київ", "é", "中", "[unused1]", "[Name]", "<SEP>", "7"], False),
    "a stray capital": ([*(f"w{number}" for number in range(200)), "K"], False),
}
"""Tokens of a vocabulary, and whether lower-casing texts would leave a part of it without use."""


@pytest.mark.parametrize("name", CASED)
def test_vocabulary_with_capitals(name, tmp_path):
    tokens, refused = CASED[name]
    path = tmp_path / "vocab.txt"
    path.write_text("".join(f"{token}\n" for token in [*SPECIAL_TOKENS, *tokens]), encoding="utf-8")
    if refused:
        with pytest.raises(DataError, match="lowercase"):
            from_vocabulary(path, tmp_path / "made")
        assert not (tmp_path / "made").exists()
    made = from_vocabulary(path, tmp_path / "made", lowercase=not refused, strip_accents=not refused)
    assert made.backend.tokenize(tokens[0]) == tokens[:1]


MOVES = ["[MAX 4 [MIN 7 2 ] 9 ]", "[MIN 2 4 ]", "Ä ä \x1c"]


def test_words_as_tokens(tmp_path):
    tokenizer = train_words(tmp_path / "t", MOVES)
    vocabulary = tokenizer.backend.get_vocab()
    # The most frequent ones first, then in the order of characters.
    frequent, rare = ["]", "2", "4", "[MIN"], ["\x1c", "7", "9", "[MAX", "Ä", "ä"]
    assert sorted(vocabulary, key=vocabulary.get) == [*SPECIAL_TOKENS, *frequent, *rare]
    ids = tokenizer.encode_ragged(["[MIN\n4 2  4", "ä [min 2]"], 20)
    assert ids == [[2, 8, 7, 6, 7, 3], [2, 14, 1, 1, 3]]


def test_vocabulary_size_and_frequency(tmp_path):
    texts = ["a a a b b c", "d"]
    found = [
        train_words(tmp_path / str(number), texts, **options).backend.get_vocab()
        for number, options in enumerate([{}, {"vocab_size": 7}, {"min_frequency": 2}, {"vocab_size": 1}])
    ]
    ordered = [sorted(vocabulary, key=vocabulary.get)[5:] for vocabulary in found]
    assert ordered == [["a", "b", "c", "d"], ["a", "b"], ["a", "b"], []]


@pytest.mark.parametrize(
    ("algorithm", "enclose"), [("wordpiece", True), ("words", False), ("pairs", True), ("bytes", True)]
)
def test_folder_with_and_without_enclosing(tmp_path, algorithm, enclose):
    train = {"wordpiece": train_wordpiece, "words": train_words, "pairs": train_byte_pairs}
    if algorithm == "bytes":
        trained = save_bytes(tmp_path / "t", enclose=enclose)
    else:
        trained = train[algorithm](tmp_path / "t", TEXTS, vocab_size=320, enclose=enclose)
    text = "the cat sat on a mat, unheard-of [MASK]"
    expected = trained.backend(text)
    assert (expected["input_ids"][0] == 2) == (expected["input_ids"][-1] == 3) == enclose
    loaded = TextTokenizer.load(tmp_path / "t")
    assert loaded.encode_ragged([text], 50) == trained.encode_ragged([text], 50) == [expected["input_ids"]]
    # As a run saves it beside its model, and as others load that.
    loaded.backend.model_max_length = 6
    loaded.backend.save_pretrained(tmp_path / "model")
    again = AutoTokenizer.from_pretrained(tmp_path / "model")
    assert again(text) == expected
    assert again(text, truncation=True)["input_ids"] == loaded.encode_ragged([text], 6)[0]
    assert again.decode(expected["input_ids"], skip_special_tokens=True).startswith("the cat sat on")
    assert [getattr(again, f"{name}_token_id") for name in ("pad", "unk", "cls", "sep", "mask")] == [0, 1, 2, 3, 4]
    assert (tmp_path / "t" / "vocab.txt").exists() == (algorithm == "wordpiece")


PIECES_OF_WORDS = ["so", "-", "call", "##ed", ".", "u", "s", "cat", "##s", ",", "the", "\u4e2d", "\u6587"]


@pytest.fixture(scope="module")
def pieces(tmp_path_factory):
    vocabulary = {token: i for i, token in enumerate([*SPECIAL_TOKENS, *PIECES_OF_WORDS])}
    return from_vocabulary(vocabulary, tmp_path_factory.mktemp("pieces") / "t")


@pytest.mark.parametrize(
    ("text", "max_tokens", "tokens", "begun"),
    [
        ("the cats", 9, "[CLS] the cat ##s [SEP]", [None, 0, 1, None, None]),
        # One word each, although BERT takes them apart at the punctuation.
        (
            "so-called  cats,",
            9,
            "[CLS] so - call ##ed cat ##s , [SEP]",
            [None, 0, None, None, None, 1, None, None, None],
        ),
        ("\u4e2d\u6587 the", 9, "[CLS] \u4e2d \u6587 the [SEP]", [None, 0, None, 1, None]),
        ("so-called cats the", 6, "[CLS] so - call ##ed [SEP]", [None, 0, None, None, None, None]),
        ("dog THE", 9, "[CLS] [UNK] the [SEP]", [None, 0, 1, None]),
        # A character that BERT drops makes no token; nor does it shift the words after it.
        ("the \u200b cat", 9, "[CLS] the cat [SEP]", [None, 0, 2, None]),
        ("", 9, "[CLS] [SEP]", [None, None]),
    ],
)
def test_word_numbers_of_pieces(pieces, text, max_tokens, tokens, begun):
    (ids,), found = encode_cut_words(pieces, [text], max_tokens)
    assert pieces.backend.convert_ids_to_tokens(ids) == tokens.split()
    assert found == [begun]


UKRAINIAN = [
    "Київ — столиця України. Їжачок з'їв яблуко, й пішов.",
    "мій твій подъезд ёлка",
    "The cat sat on the mat",
] * 3


@pytest.fixture(scope="module")
def of_bytes(tmp_path_factory):
    return train_byte_pairs(tmp_path_factory.mktemp("bytes") / "t", UKRAINIAN, vocab_size=340)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(PIECES, st.sampled_from(UKRAINIAN)), max_size=20).map("".join))
@example("Й й и\u0306 Ї ё 😀 \u202eabc")
def test_byte_pairs_of_any_text(of_bytes, text):
    (ids,) = of_bytes.encode_ragged([text], 10_000)
    assert of_bytes.backend.backend_tokenizer.decode(ids[1:-1], skip_special_tokens=False) == text


def test_byte_pairs_by_frequency(of_bytes, tmp_path):
    assert len(of_bytes.backend) == 340
    assert of_bytes.backend.tokenize("мій") == ["Ð¼ÑĸÐ¹"]  # each letter is two bytes
    bare = train_byte_pairs(tmp_path / "t", ["aaab"], vocab_size=1000, min_frequency=2)
    assert len(bare.backend) == 256 + 5 + 1


@pytest.fixture(scope="module")
def single_bytes(tmp_path_factory):
    """The tokeniser as it is loaded from its folder."""
    folder = tmp_path_factory.mktemp("single") / "t"
    save_bytes(folder)
    return TextTokenizer.load(folder)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(PIECES, st.sampled_from(UKRAINIAN), st.text()), max_size=20).map("".join))
@example("[CLS] spelt [SEP]\x00\r\n 😀  [PAD]")
def test_bytes_of_any_text(single_bytes, text):
    (ids,) = single_bytes.encode_ragged([text], 100_000)
    assert (ids[0], ids[-1]) == (2, 3)
    assert len(ids) - 2 == len(text.encode())
    assert all(5 <= number < 261 for number in ids[1:-1])
    assert single_bytes.backend.decode(ids[1:-1], skip_special_tokens=False) == text


# Published tokenisers, made small: the same kinds of model, normaliser and pre-tokeniser.

LLAMA_3 = Regex(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def llama():
    core = Tokenizer(models.BPE(ignore_merges=True))
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(LLAMA_3, "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    core.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    core.train_from_iterator(UKRAINIAN, trainers.BpeTrainer(initial_alphabet=alphabet, show_progress=False))
    core.add_special_tokens(["<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>"])
    begin = [("<|begin_of_text|>", core.token_to_id("<|begin_of_text|>"))]
    template = processors.TemplateProcessing(single="<|begin_of_text|> $A", special_tokens=begin)
    core.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), template])
    core.enable_truncation(7)  # some are saved with the settings of their last use
    return core


def gemma():
    special = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", *(f"<0x{byte:02X}>" for byte in range(256))]
    core = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    core.normalizer = normalizers.Replace(" ", "\u2581")
    core.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    words = [word for text in UKRAINIAN for word in text.replace(" ", " \u2581").split(" ")]
    core.train_from_iterator(words, trainers.BpeTrainer(special_tokens=special, show_progress=False))
    core.post_processor = processors.TemplateProcessing(single="<bos> $A", special_tokens=[("<bos>", 2)])
    return core


def deberta():
    special = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"]
    core = Tokenizer(models.Unigram())
    core.normalizer = normalizers.Sequence(
        [normalizers.Replace(Regex(r"\s{2,}|[\n\r\t]"), " "), normalizers.NFC(), normalizers.Strip(left=False)]
    )
    core.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    trainer = trainers.UnigramTrainer(vocab_size=150, special_tokens=special, unk_token="[UNK]", show_progress=False)
    core.train_from_iterator(UKRAINIAN, trainer)
    core.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    return core


PUBLISHED = {
    "llama": (llama, {"bos_token": "<|begin_of_text|>", "eos_token": "<|end_of_text|>"}, "llama"),
    "gemma": (gemma, {"tokenizer_class": "GemmaTokenizer", "bos_token": "<bos>", "eos_token": "<eos>"}, "gemma3"),
    "deberta": (deberta, {"vocab_type": "spm"}, "deberta-v2"),  # names no token: the class does
}


@pytest.fixture(scope="module", params=PUBLISHED)
def published(request, tmp_path_factory):
    """A tokeniser of the library itself, the folder in which it was published, and what is made of it here."""
    make, config, model_type = PUBLISHED[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    core = make()
    core.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "config.json").write_text(json.dumps({"model_type": model_type}))
    core.no_truncation()
    return core, folder, from_published(folder, folder / "made")


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(st.one_of(PIECES, st.sampled_from(UKRAINIAN)), max_size=20).map("".join), min_size=1, max_size=3),
    st.integers(2, 12),
)
@example(["cat.\n" * 60, "a  b   c \r\n\n d" * 30, " " * 300, "'s 1234567" * 20], 9)
def test_published_ids_against_the_whole_text(published, texts, max_tokens):
    core, _, tokenizer = published
    core.enable_truncation(max_tokens)
    expected = [core.encode(text).ids for text in texts]
    assert tokenizer.encode_ragged(texts, max_tokens) == expected
    assert encode_cut_words(tokenizer, texts, max_tokens)[0] == expected


@settings(max_examples=40, deadline=None)
@given(st.lists(st.one_of(PIECES, st.sampled_from(UKRAINIAN)), max_size=20).map("".join))
@example("  мій\u00a0😀 a.\n\nb e\u0301  ")
def test_published_word_numbers(published, text):
    """Whether white space is a part of the token behind it, of the one before it, or a token by itself."""
    core, _, tokenizer = published
    core.no_truncation()
    ((ids,), (begun,)) = encode_cut_words(tokenizer, [text], 100_000)
    encoding = core.encode(text)
    assert ids == encoding.ids
    spans, numbers = word_spans(text), [number for number in begun if number is not None]
    assert numbers == sorted(set(numbers))
    for number, (start, end), special in zip(begun, encoding.offsets, encoding.special_tokens_mask, strict=True):
        touched = [place for place, span in enumerate(spans) if not special and span[0] < end and start < span[1]]
        if number is None:
            assert not set(touched[:1]) - set(numbers)
        else:
            assert touched[0] == number


def test_published_special_tokens(published, tmp_path):
    core, folder, tokenizer = published
    loaded = TextTokenizer.load(folder / "made")
    (ids,) = loaded.encode_ragged(["мій cat"], 50)
    core.no_truncation()
    assert ids == core.encode("мій cat").ids
    loaded.backend.save_pretrained(tmp_path / "model")
    again = AutoTokenizer.from_pretrained(tmp_path / "model")
    assert again("мій cat") == {"input_ids": ids, "attention_mask": [1] * len(ids)}
    assert again.pad_token == loaded.backend.pad_token == tokenizer.backend.pad_token
    expected = {
        "<|begin_of_text|>": ("<|end_of_text|>", None),  # no padding is meant: the end of text serves
        "<bos>": ("<pad>", "<mask>"),
        "[CLS]": ("[PAD]", "[MASK]"),
    }
    assert (again.pad_token, again.mask_token) == expected[core.id_to_token(ids[0])]
    assert len(again) == core.get_vocab_size()


def test_new_mask_token(published, tmp_path):
    core, folder, tokenizer = published
    made = from_published(folder, tmp_path / "made", mask_token="<a new one>")
    backend = TextTokenizer.load(tmp_path / "made").backend
    assert backend.mask_token == "<a new one>"
    assert backend.mask_token_id == core.get_vocab_size() == len(made.backend) - 1
    assert backend.mask_token_id in backend.all_special_ids
    texts = ["мій cat < a new one >", "a\n\nnew one"]
    assert made.encode_ragged(texts, 50) == tokenizer.encode_ragged(texts, 50)
    taken = core.id_to_token(core.get_vocab_size() - 1)
    with pytest.raises(ConfigError, match="mask_token"):
        from_published(folder, tmp_path / "twice", mask_token=taken)
    assert not (tmp_path / "twice").exists()


WORDPIECES = [*SPECIAL_TOKENS, *"abcdefghijklmnopqrstuvwxyzABC.,-", *(f"##{each}" for each in "abcdefghijklmnopqrstuv")]
LAYOUTS = {
    "config": (WORDPIECES, {"config.json": {"model_type": "bert"}}),
    "cased, without a type": (WORDPIECES, {"tokenizer_config.json": {"do_lower_case": False}}),
    "special tokens": (
        WORDPIECES,
        {
            "special_tokens_map.json": {"mask_token": "[MASK]", "pad_token": "[PAD]"},
            "added_tokens.json": {"[NEW]": len(WORDPIECES)},
            "config.json": {"model_type": "bert"},
        },
    ),
    "GPT-2": (None, {"tokenizer_config.json": {"tokenizer_class": "GPT2Tokenizer"}}),
}
"""Lines of a vocab.txt, none for vocab.json with merges.txt, and the files next to it."""


def layout(folder, name):
    """Write a tokeniser in one of the layouts without a tokenizer.json."""
    lines, others = LAYOUTS[name]
    folder.mkdir()
    if lines:
        (folder / "vocab.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    else:
        core = Tokenizer(models.BPE())
        core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "<|endoftext|>"]
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(special_tokens=special, initial_alphabet=alphabet, show_progress=False)
        core.train_from_iterator(UKRAINIAN, trainer)
        core.model.save(str(folder))
    for file, content in others.items():
        (folder / file).write_text(json.dumps(content))
    return folder


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts_without_tokenizer_json(name, tmp_path):
    folder = layout(tmp_path / "published", name)
    named = any("model_type" in each or "tokenizer_class" in each for each in LAYOUTS[name][1].values())
    theirs = (AutoTokenizer if named else BertTokenizerFast).from_pretrained(folder)
    made = from_published(folder, tmp_path / "made")
    loaded = TextTokenizer.load(tmp_path / "made")
    texts = ["abc. ABC, éa-b [NEW] \u2028c", "мій cat", ""]
    for tokenizer in (made, loaded):
        assert tokenizer.encode_ragged(texts, 50) == theirs(texts)["input_ids"]
        assert len(tokenizer.backend) == len(theirs)
        for special in ("pad_token", "mask_token", "unk_token"):
            ours = getattr(tokenizer.backend, special)
            assert ours == (getattr(theirs, special) or (theirs.eos_token if special == "pad_token" else None))
    if theirs.cls_token:
        ids, types = encode_cut_pairs(loaded, [("abc", "b")], 50)
        both = theirs("abc", "b", return_token_type_ids=True)
        assert (ids, types) == ([both["input_ids"]], [both["token_type_ids"]])
    ((window,),) = loaded.encode_windows(["abc cab"], 50, 0.5)
    assert max(window.ends) == 7


UNCASED = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "lowercase": True}


@pytest.mark.parametrize(
    ("config", "added"),
    [
        ({"do_lower_case": False}, {}),
        ({}, {"<e1>": len(WORDPIECES)}),
        ({"tokenizer_class": "TokenizersBackend", "do_lower_case": False}, {}),
    ],
)
def test_settings_against_tokenizer_json(config, added, tmp_path):
    core = Tokenizer(models.WordPiece({token: i for i, token in enumerate(WORDPIECES)}, unk_token="[UNK]"))
    core.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    values = json.loads(core.to_str()) | {"normalizer": UNCASED | {"strip_accents": None}}
    (tmp_path / "tokenizer.json").write_text(json.dumps(values | {"pre_tokenizer": {"type": "BertPreTokenizer"}}))
    config = {"tokenizer_class": "BertTokenizer", "pad_token": "[PAD]"} | config
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    (tmp_path / "added_tokens.json").write_text(json.dumps(added))
    made = from_published(tmp_path, tmp_path / "made")
    text = "a A é 中文 <e1>"
    assert made.encode_ragged([text], 50) == [Tokenizer.from_file(str(tmp_path / "tokenizer.json")).encode(text).ids]


WORDS = {"[PAD]": 0, "[UNK]": 1, "a": 2, "b": 3}


@pytest.mark.extended
@pytest.mark.parametrize("ids", [(0, 1, 2, 4, 5), (0, 1, 2, 4, 7), (0, 1, 2, 3)])
def test_vocabulary_with_gaps(ids, tmp_path):
    """The library numbers a new token by how many there are, whichever token has that id."""
    names = ["[PAD]", "[UNK]", "a", "b", "c"][: len(ids)]
    core = Tokenizer(models.WordLevel(dict(zip(names, ids, strict=True)), unk_token="[UNK]"))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    core.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "TokenizersBackend", "pad_token": "[PAD]"}')
    made = from_published(tmp_path, tmp_path / "made")
    assert rows(made.backend) == max(ids) + 1
    assert made.encode_ragged(["a b"], 9) == [[ids[2], ids[3]]]
    with pytest.raises(DataError):
        TextTokenizer.of_model(tmp_path / "made", max(ids))
    assert len(TextTokenizer.of_model(tmp_path / "made", max(ids) + 1).backend) == len(ids)
    if len(ids) not in ids:
        masked = from_published(tmp_path, tmp_path / "masked", "<m>").backend
        assert masked.convert_ids_to_tokens(masked.mask_token_id) == "<m>"
        assert masked.mask_token_id not in ids
    else:
        with pytest.raises(ConfigError, match="mask_token"):
            from_published(tmp_path, tmp_path / "masked", "<m>")
    added = range(len(ids), len(ids) + 3)
    if set(added) & set(ids):
        with pytest.raises(ConfigError, match="sentinels"):
            add_sentinels(tmp_path / "made", 3)
        assert TextTokenizer.load(tmp_path / "made").backend.get_vocab() == made.backend.get_vocab()
    else:
        add_sentinels(tmp_path / "made", 3)
        assert sentinel_ids(TextTokenizer.load(tmp_path / "made").backend) == [*added]


NAMELESS = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "[X]", "type_id": 0}}]}
"""A post-processor that names a token without saying which it is."""
SPOILT = {
    "unknown token": {"model": {"type": "BPE", "unk_token": "[NO]", "vocab": WORDS, "merges": []}},
    "no unknown token": {"model": {"type": "Unigram", "unk_id": None, "vocab": [["a", -1.0]]}},
    "panic at a text": {"post_processor": NAMELESS | {"pair": [], "special_tokens": {}}},
}


@pytest.mark.parametrize("change", SPOILT)
def test_tokeniser_that_cannot_serve(tmp_path, change):
    core = Tokenizer(models.WordPiece(WORDS, unk_token="[UNK]"))
    spoilt = json.loads(core.to_str()) | SPOILT[change]
    (tmp_path / "tokenizer.json").write_text(json.dumps(spoilt))
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "TokenizersBackend", "pad_token": "[PAD]"}')
    with pytest.raises(DataError):
        from_published(tmp_path, tmp_path / "made")
    with pytest.raises(DataError):
        TextTokenizer.load(tmp_path)
