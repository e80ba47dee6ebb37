"""Span corruption: the published lengths, texts that can be put together again, draws that depend on their key."""

from collections import Counter
from itertools import combinations, pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from lib.core.errors import DataError
from lib.core.labels import IGNORED
from lib.preparing.settings.tokenizer import Tokenizer as TokenizerSettings
from lib.tokens.sentinels import sentinel
from lib.tokens.tokenizer import SPECIAL_TOKENS, TextTokenizer
from lib.tokens.tokenizing import train_tokenizer
from lib.tokens.vocabularies import add_sentinels, from_vocabulary
from studies.hate_speech.tokens.dropping import dropped
from studies.hate_speech.tokens.span_corruption import SpanCorruption, SpanCorruptionCollator, sentinel_ids

pytestmark = pytest.mark.extended

WORDS = [f"word{number}" for number in range(400)]
FIRST = len(SPECIAL_TOKENS)
CLS, SEP = 2, 3


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    """Of words, with 100 sentinel tokens behind them."""
    folder = tmp_path_factory.mktemp("t") / "t"
    from_vocabulary({token: i for i, token in enumerate([*SPECIAL_TOKENS, *WORDS])}, folder)
    add_sentinels(folder, 100)
    return TextTokenizer.load(folder).backend


@pytest.fixture(scope="module")
def like_t5():
    """Of words, with `</s>` behind a text; the sentinel tokens end with number 0, as T5's do."""
    tokens = ["<pad>", "</s>", "<unk>", *WORDS]
    core = Tokenizer(models.WordLevel({token: i for i, token in enumerate(tokens)}, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    core.add_special_tokens([AddedToken(sentinel(number)) for number in reversed(range(100))])
    core.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return PreTrainedTokenizerFast(tokenizer_object=core, eos_token="</s>", unk_token="<unk>", pad_token="<pad>")


def corruption(tokenizer, seed=3, rate=0.15, mean_length=3.0):
    return SpanCorruption(tokenizer, seed=seed, rate=rate, mean_length=mean_length)


def document(tokens):
    return np.array([CLS, *(FIRST + np.arange(tokens) % len(WORDS)), SEP])


def put_together(left, written, sentinels):
    """Return the document of what is left of it and of the spans that were dropped."""
    spans, last = {}, None
    for token in written[:-1].tolist():
        if token in sentinels:
            last = spans.setdefault(token, [])
        else:
            last.append(token)
    used = [token for token in left.tolist() if token in spans]
    assert used == list(spans), "each sentinel stands once, in the order of the spans"
    return [each for token in left.tolist() for each in spans.get(token, [token])]


def published_lengths(tokens, rate, mean_length):
    """Return the tokens that are read and written of a packed text, their ends included, as T5's code counts them.

    Source: `random_spans_helper` of the code of Raffel et al. 2020.
    """
    noise = round(tokens * rate)
    spans = round(noise / mean_length)
    return tokens - noise + spans + 1, noise + spans + 1


def test_lengths_as_published(like_t5):
    """568 tokens become the 512 that T5 reads, and 114 that it writes."""
    assert published_lengths(568, 0.15, 3.0) == (512, 114)
    for tokens in (20, 64, 100, 250, 568):
        text = " ".join(WORDS[number % 400] for number in range(tokens))
        left, written = corruption(like_t5)(np.array(like_t5(text)["input_ids"]), 0, tokens)
        assert (left.size, written.size) == published_lengths(tokens, 0.15, 3.0)
        assert left[-1] == written[-1] == like_t5.eos_token_id
        assert written[0] == like_t5.get_vocab()["<extra_id_0>"]
    assert dropped(568, 0.15, 3.0) == (85, 28)
    assert dropped(9, 0.15, 3.0) == (1, 1)  # never none
    assert dropped(10, 0.9, 1.0) == (9, 1)  # one kept token cannot part more spans
    assert [dropped(tokens, 0.15, 3.0) for tokens in (-1, 0, 1, 2)] == [(0, 0), (0, 0), (0, 0), (1, 1)]


@given(
    tokens=st.lists(st.integers(1, FIRST + len(WORDS) + 99), max_size=120),
    rate=st.floats(0.01, 0.99),
    mean_length=st.floats(1, 10),
    key=st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 50), st.integers(0, 10**6)),
)
@settings(deadline=None, max_examples=300)
def test_spans_give_the_document_back(tokenizer, tokens, rate, mean_length, key):
    """Of any tokens, special ones and some sentinels among them."""
    sentinels = set(sentinel_ids(tokenizer))
    kept = [token for token in tokens if token not in sentinels or token > FIRST + len(WORDS) + 70]
    seed, epoch, example = key
    ids = np.array([CLS, *kept, SEP])
    lost, spans = dropped(len(kept), rate, mean_length)
    left, written = corruption(tokenizer, seed, rate, mean_length)(ids, epoch, example)
    assert put_together(left, written, sentinels - set(kept)) == ids.tolist()
    assert (left[0], left[-1], written[-1]) == (CLS, SEP, SEP)
    assert (left.size, written.size) == (ids.size - lost + spans, lost + spans + 1)


def test_rate_and_mean_length(tokenizer):
    ids = document(400)
    for rate, mean_length in ((0.15, 3.0), (0.5, 3.0), (0.15, 5.0)):
        lengths, places = [], np.zeros(ids.size)
        for example in range(300):
            left, written = corruption(tokenizer, rate=rate, mean_length=mean_length)(ids, 0, example)
            starts = np.flatnonzero(written[:-1] >= FIRST + len(WORDS))
            lengths += np.diff(starts, append=written.size - 1).tolist()
            places[~np.isin(ids, left)] += 1
        lengths = np.array(lengths) - 1
        assert places.mean() / 300 == pytest.approx(rate, abs=0.01)
        assert lengths.mean() == pytest.approx(mean_length, rel=0.01)
        assert lengths.min() == 1
        # Wherever a token stands, it is dropped as often, but near the ends, where fewer spans reach it or touch it.
        inner = places[20:-20]
        assert stats.chisquare(inner).statistic / inner.size < 2


def test_spans_equally_likely(tokenizer):
    tokens, rate, mean_length = 7, 0.45, 1.5
    lost, spans = dropped(tokens, rate, mean_length)
    ways = {
        way
        for way in combinations(range(tokens), lost)
        if 1 + sum(after - before > 1 for before, after in pairwise(way)) == spans
    }
    ids, found = document(tokens), Counter()
    for example in range(200 * len(ways)):
        left, _ = corruption(tokenizer, rate=rate, mean_length=mean_length)(ids, 1, example)
        found[tuple(np.flatnonzero(~np.isin(ids, left)) - 1)] += 1
    assert found.keys() == ways
    assert stats.chisquare(list(found.values())).pvalue > 0.001


def test_draws_by_seed_epoch_and_example(tokenizer):
    ids, before = document(300), document(300)
    drops = corruption(tokenizer)
    first = drops(ids, 1, 7)
    drops(ids, 5, 5)
    for left, right in zip(first, corruption(tokenizer)(ids, 1, 7), strict=True):
        np.testing.assert_array_equal(left, right)
    others = [drops(ids, 2, 7), drops(ids, 1, 8), drops(ids, "evaluation", 7), corruption(tokenizer, seed=4)(ids, 1, 7)]
    for other in others:
        assert not np.array_equal(first[1], other[1])
    np.testing.assert_array_equal(ids, before)


def row(index, tokens, epoch=0):
    return {"id": f"d{index}", "input_ids": document(tokens), "epoch": epoch, "index": index}


def test_draws_with_another_batch(tokenizer):
    collator = SpanCorruptionCollator(corruption(tokenizer), pad_token_id=0)
    alone, together = collator([row(3, 30, epoch=2)]), collator([row(8, 90, epoch=2), row(3, 30, epoch=2)])
    assert set(together) == {"input_ids", "attention_mask", "labels"}
    assert {tensor.dtype for tensor in together.values()} == {torch.int64}
    for name, padding in (("input_ids", 0), ("attention_mask", 0), ("labels", IGNORED)):
        length = alone[name].shape[1]
        assert torch.equal(alone[name][0], together[name][1, :length])
        assert together[name].shape[1] > length
        assert (together[name][1, length:] == padding).all()
    with pytest.raises(DataError, match="d4.* have no token"):
        collator([row(3, 30), {"id": "d4", "input_ids": np.array([], int), "epoch": 0, "index": 4}])


def test_sentinel_in_a_text(tokenizer):
    text = " ".join([*WORDS[:20], "<extra_id_0>", *WORDS[20:40]])
    ids = np.array(tokenizer(text)["input_ids"])
    taken = tokenizer.get_vocab()["<extra_id_0>"]
    assert ids.tolist().count(taken) == 1
    left, written = corruption(tokenizer)(ids, 0, 0)
    assert [token for token in left if token >= FIRST + len(WORDS) and token != taken] == [taken + 1, taken + 2]
    assert [token for token in written if token > taken] == [taken + 1, taken + 2]


@pytest.mark.parametrize("algorithm", ["wordpiece", "bpe"])
def test_sentinels_behind_the_vocabulary(algorithm, tmp_path):
    texts = ["Café au lait <extra id> [SEP] 0", "a b", "under_score <extra_id_ 0>"]
    source = None if algorithm == "bytes" else "trained"
    values = {"algorithm": algorithm, "source": source, "vocab_size": 600}
    train_tokenizer(texts * 3, TokenizerSettings.model_validate(values), tmp_path / "t")
    made = TextTokenizer.load(tmp_path / "t")
    before, size = made.encode_ragged(texts, 40), len(made.backend)
    add_sentinels(tmp_path / "t", 3)
    loaded = TextTokenizer.load(tmp_path / "t")
    assert loaded.encode_ragged(texts, 40) == before
    assert sentinel_ids(loaded.backend) == [size, size + 1, size + 2]
    assert len(loaded.backend) == size + 3
