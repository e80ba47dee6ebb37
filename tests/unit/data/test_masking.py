import time

import numpy as np
import pytest

from lib.data.labels import IGNORED
from lib.data.masking import TokenMasker
from lib.data.tokenizer import SPECIAL_TOKENS, TextTokenizer

WORDS = [f"word{i}" for i in range(200)]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    vocabulary = {token: i for i, token in enumerate([*SPECIAL_TOKENS, "[unused0]", *WORDS])}
    return TextTokenizer.from_vocabulary(vocabulary, tmp_path_factory.mktemp("t") / "t").backend


@pytest.fixture(scope="module")
def masker(tokenizer):
    return TokenMasker.of(tokenizer, seed=3)


@pytest.fixture
def document():
    return np.array([2, *range(6, 206), 1, 3])  # [CLS] words [UNK] [SEP]


def test_a_mask_is_a_function_of_seed_epoch_and_example(tokenizer, masker, document):
    first = masker(document, 1, 7)
    masker(document, 5, 5)
    for left, right in zip(first, TokenMasker.of(tokenizer, seed=3)(document, 1, 7), strict=True):
        np.testing.assert_array_equal(left, right)
    others = [masker(document, 2, 7), masker(document, 1, 8), masker(document, "evaluation", 7)]
    others.append(TokenMasker.of(tokenizer, seed=4)(document, 1, 7))
    for other in others:
        assert not np.array_equal(first[1], other[1])


def test_the_input_is_left_alone(masker, document):
    before = document.copy()
    masker(document, 0, 0)
    np.testing.assert_array_equal(document, before)


def test_shares(masker, document):
    pairs = [masker(document, 0, example) for example in range(2000)]
    masked = np.array([pair[0] for pair in pairs])
    labels = np.array([pair[1] for pair in pairs])
    chosen = labels != IGNORED
    assert not chosen[:, [0, -2, -1]].any()  # [CLS], [UNK], [SEP]
    np.testing.assert_array_equal(labels[chosen], np.broadcast_to(document, labels.shape)[chosen])
    np.testing.assert_array_equal(masked[~chosen], np.broadcast_to(document, labels.shape)[~chosen])
    n = chosen.sum()  # about 60,000 of 400,000
    assert n / (200 * 2000) == pytest.approx(0.15, abs=0.003)
    assert (masked[chosen] == 4).mean() == pytest.approx(0.8, abs=0.01)
    kept = masked[chosen] == labels[chosen]
    random = ~kept & (masked[chosen] != 4)
    assert random.mean() == pytest.approx(0.1 * 199 / 200, abs=0.006)
    assert kept.mean() == pytest.approx(0.1 * 201 / 200, abs=0.006)
    drawn = masked[chosen][random]
    assert drawn.min() >= 6  # neither special nor [unused0]
    assert len(np.unique(drawn)) == 200


def test_the_shares_are_settings(tokenizer, document):
    shares = {"mask_probability": 0.5, "mask_token_probability": 0.0, "random_token_probability": 1.0}
    masked, labels = TokenMasker.of(tokenizer, seed=0, **shares)(document, 0, 0)
    assert 70 < (labels != IGNORED).sum() < 130
    assert (masked != 4).all()
    assert (masked != document).sum() > 60


def test_a_short_document_always_has_something_to_predict(masker):
    for example in range(100):
        _, labels = masker(np.array([2, 9, 10, 3]), 0, example)
        assert (labels[1:3] != IGNORED).any()


def test_a_document_of_special_tokens_has_nothing_to_predict(masker):
    masked, labels = masker(np.array([2, 3]), 0, 0)
    assert masked.tolist() == [2, 3]
    assert (labels == IGNORED).all()


def test_drawing_is_fast(masker):
    document = np.arange(6, 134)
    start = time.process_time()
    for example in range(5000):
        masker(document, 0, example)
    assert (time.process_time() - start) / 5000 < 200e-6  # seen: 35 microseconds
