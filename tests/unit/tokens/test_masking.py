import hashlib
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from lib.core.labels import IGNORED
from lib.tokens.masking import TokenMasker
from lib.tokens.tokenizer import SPECIAL_TOKENS
from lib.tokens.vocabularies import from_published, from_vocabulary

WORDS = [f"word{i}" for i in range(200)]
MASKINGS = ("random", "spans", "words")
HIDE_ALL = {"mask_token_probability": 1.0, "random_token_probability": 0.0}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    vocabulary = {token: i for i, token in enumerate([*SPECIAL_TOKENS, "[unused0]", *WORDS])}
    return from_vocabulary(vocabulary, tmp_path_factory.mktemp("t") / "t").backend


@pytest.fixture(scope="module")
def masker(tokenizer):
    return TokenMasker.of(tokenizer, seed=3)


def test_reserved_and_unused_tokens(tmp_path):
    """Of published tokenisers: not all special tokens have a name, and some tokens are there for later use."""
    core = Tokenizer(models.WordLevel({"<eos>": 0, "<mask>": 1, "<unused0>": 2, "a": 3, "b": 4}, unk_token="a"))
    core.add_special_tokens(["<eos>", "<mask>", "<image>"])
    core.save(str(tmp_path / "tokenizer.json"))
    names = {"eos_token": "<eos>", "mask_token": "<mask>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(names))
    masker = TokenMasker.of(from_published(tmp_path, tmp_path / "made").backend, seed=3)
    assert masker.is_special.tolist() == [True, True, False, False, False, True]
    assert masker.replacements.tolist() == [3, 4]


@pytest.fixture
def document():
    return np.array([2, *range(6, 206), 1, 3])  # [CLS] words [UNK] [SEP]


def test_masks_by_seed_epoch_and_example(tokenizer, masker, document):
    first = masker(document, 1, 7)
    masker(document, 5, 5)
    for left, right in zip(first, TokenMasker.of(tokenizer, seed=3)(document, 1, 7), strict=True):
        np.testing.assert_array_equal(left, right)
    others = [masker(document, 2, 7), masker(document, 1, 8), masker(document, "evaluation", 7)]
    others.append(TokenMasker.of(tokenizer, seed=4)(document, 1, 7))
    for other in others:
        assert not np.array_equal(first[1], other[1])


def test_shares_of_fates(masker, document):
    pairs = [masker(document, 0, example) for example in range(600)]
    masked = np.array([pair[0] for pair in pairs])
    labels = np.array([pair[1] for pair in pairs])
    chosen = labels != IGNORED
    assert not chosen[:, [0, -2, -1]].any()  # [CLS], [UNK], [SEP]
    np.testing.assert_array_equal(labels[chosen], np.broadcast_to(document, labels.shape)[chosen])
    np.testing.assert_array_equal(masked[~chosen], np.broadcast_to(document, labels.shape)[~chosen])
    n = chosen.sum()  # about 18,000 of 120,000
    assert n / (200 * 600) == pytest.approx(0.15, abs=0.005)
    assert (masked[chosen] == 4).mean() == pytest.approx(0.8, abs=0.015)
    kept = masked[chosen] == labels[chosen]
    random = ~kept & (masked[chosen] != 4)
    assert random.mean() == pytest.approx(0.1 * 199 / 200, abs=0.01)
    assert kept.mean() == pytest.approx(0.1 * 201 / 200, abs=0.01)
    drawn = masked[chosen][random]
    assert drawn.min() >= 6  # neither special nor [unused0]
    assert len(np.unique(drawn)) == 200


def test_random_masks_of_earlier_releases(masker):
    """So that runs which were trained before can be repeated."""
    generator, digest = np.random.default_rng(0), hashlib.sha256()
    for example in range(300):
        document = generator.integers(0, 206, generator.integers(1, 300))
        for part in masker(document, example % 3, example):
            digest.update(part.astype("<i8").tobytes())
    assert digest.hexdigest() == "d6540cd89419a6343eeff68188c33ce4df367243814dcecdbc22dee59ebb28b7"


@pytest.fixture(scope="module")
def pieces(tmp_path_factory):
    """A WordPiece vocabulary in which ids 5 to 24 begin words and 25 to 44 go on with them."""
    letters = [chr(ord("a") + i) for i in range(20)]
    vocabulary = [*SPECIAL_TOKENS, *letters, *(f"##{letter}" for letter in letters)]
    ids = {token: i for i, token in enumerate(vocabulary)}
    return from_vocabulary(ids, tmp_path_factory.mktemp("p") / "p").backend


def words_of(document):
    """Return the positions of each word of a document of `pieces`."""
    found, inside = [], False
    for position, number in enumerate(document):
        if number < 5:
            inside = False
        elif number < 25 or not inside:
            found.append([position])
            inside = True
        else:
            found[-1].append(position)
    return found


DOCUMENTS = st.lists(st.integers(0, 44), min_size=1, max_size=60).map(np.array)


@settings(max_examples=60, deadline=None)
@given(
    document=DOCUMENTS,
    masking=st.sampled_from(MASKINGS),
    share=st.sampled_from([0.0, 0.01, 0.2, 0.5, 0.95, 1.0]),
    hidden=st.sampled_from([0.0, 0.5, 1.0]),
    length=st.sampled_from([0.01, 1.0, 3.0, 40.0]),
    seed=st.integers(0, 9),
    start=st.integers(0, 1),
)
def test_masking_in_general(pieces, document, masking, share, hidden, length, seed, start):
    options = {"mask_probability": share, "mask_token_probability": hidden, "random_token_probability": 1 - hidden}
    options |= {"masking": masking, "span_length": length}
    (masked, labels), again = (
        TokenMasker.of(pieces, seed=seed, **options)(document, 1, 2, start=start) for _ in range(2)
    )
    np.testing.assert_array_equal([masked, labels], again)
    chosen = labels != IGNORED
    ordinary = document >= 5
    ordinary[:start] = False
    assert not chosen[~ordinary].any()
    assert chosen.any() == ordinary.any()
    assert (labels[chosen] == document[chosen]).all()
    assert (masked[~chosen] == document[~chosen]).all()
    assert (chosen == ordinary).all() or share < 1
    if masking == "words":
        for word in words_of(document):
            positions = [position for position in word if position >= start]
            assert len(set(chosen[positions])) <= 1
            assert len(set(masked[positions] == 4)) <= 1 or not chosen[positions].any()
    if masking == "spans":
        expected = min(max(1, share * ordinary.sum()), ordinary.sum())
        assert abs(chosen.sum() - expected) < 1


def predicted(masker, document, examples):
    return np.array([masker(document, 0, example)[1] != IGNORED for example in range(examples)])


@pytest.mark.parametrize("masking", MASKINGS)
def test_share_of_masked_tokens(pieces, masking):
    generator = np.random.default_rng(1)
    document = np.array([2, *generator.integers(5, 45, 200), 1, *generator.integers(5, 45, 100), 3])
    masker = TokenMasker.of(pieces, seed=0, masking=masking)
    chosen = predicted(masker, document, 600)
    # The mean of 600 documents of 300 tokens; the longest words have some 10.
    assert chosen.sum(axis=1).mean() / 300 == pytest.approx(0.15, abs=0.006)


def test_words_after_special_tokens(pieces):
    """What goes on with a word begins one where a special token stands before it."""
    masker = TokenMasker.of(pieces, seed=0, masking="words", mask_probability=0.5)
    chosen = predicted(masker, np.array([5, 25, 1, 25]), 100)
    assert (chosen[:, 0] == chosen[:, 1]).all()
    assert (chosen[:, 0] != chosen[:, 3]).any()


def runs(chosen):
    """Return the lengths of the runs of chosen tokens."""
    edges = np.diff(np.r_[0, chosen.astype(int), 0])
    return np.flatnonzero(edges < 0) - np.flatnonzero(edges > 0)


def test_lengths_of_spans(pieces):
    document = np.full(5000, 7)
    masker = TokenMasker.of(pieces, seed=0, masking="spans", span_length=3.0, mask_probability=0.02)
    found = np.concatenate([runs(row) for row in predicted(masker, document, 100)])
    poisson = stats.poisson(3.0)
    # Few of so few spans touch, or are cut.
    assert found.mean() == pytest.approx(3.0 / (1 - poisson.pmf(0)), rel=0.05)
    for count in range(1, 6):
        assert (found == count).mean() == pytest.approx(poisson.pmf(count) / (1 - poisson.pmf(0)), abs=0.03)


def test_spans_over_special_tokens(pieces):
    masker = TokenMasker.of(pieces, seed=0, masking="spans", span_length=30.0, mask_probability=0.5, **HIDE_ALL)
    document = np.array([2, *[7, 7, 7, 7, 1] * 8, 3])
    masked, labels = masker(document, 0, 0)
    places = np.flatnonzero(labels != IGNORED)
    assert len(places) == 16  # one span, with [UNK] inside it
    assert set(document[places[0] : places[-1] + 1]) == {7, 1}
    assert set(masked[places[0] : places[-1] + 1]) == {4, 1}


def test_fate_of_a_span(pieces):
    masker = TokenMasker.of(pieces, seed=0, masking="spans", mask_probability=0.02, span_length=6.0)
    hidden = total = 0
    for example in range(100):
        masked, labels = masker(np.full(500, 7), 0, example)
        fates = (masked == 4)[labels != IGNORED]
        assert np.abs(np.diff(fates.astype(int))).sum() <= len(runs(labels != IGNORED)) + 1
        hidden, total = hidden + fates.sum(), total + fates.size
    assert hidden / total == pytest.approx(0.8, abs=0.08)


@pytest.fixture(scope="module")
def decoder_tokenizer():
    """Byte-level BPE without a mask token, as of published decoders, with a reserved token."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("Ġ", "a"), ("a", "b"), ("Ġ", "_")]
    vocabulary = [*alphabet, *("".join(merge) for merge in merges)]
    core = Tokenizer(models.BPE({token: i for i, token in enumerate(vocabulary)}, merges))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens([AddedToken("<|begin|>", special=True), AddedToken("<|reserved|>", special=True)])
    return PreTrainedTokenizerFast(tokenizer_object=core, bos_token="<|begin|>", eos_token="<|begin|>")


@pytest.mark.parametrize("token", ["_", "<|reserved|>"])
def test_mask_token_of_the_vocabulary(decoder_tokenizer, token):
    text = "ab_ab ab _b"
    before = decoder_tokenizer(text)["input_ids"]
    masker = TokenMasker.of(decoder_tokenizer, seed=0, mask_token=token, mask_probability=1.0, **HIDE_ALL)
    number = decoder_tokenizer.get_vocab()[token]
    masked, labels = masker(np.array(before), 0, 0)
    assert (masked == number).all() or token != "_"
    # A text's own mask tokens are not predicted.
    assert ((labels == IGNORED) == (np.array(before) == number)).all()
    assert decoder_tokenizer.mask_token is None
    assert decoder_tokenizer(text)["input_ids"] == before
    assert not {number, *decoder_tokenizer.all_special_ids} & set(masker.replacements)
    assert decoder_tokenizer.get_vocab()["<|reserved|>"] not in masker.replacements
