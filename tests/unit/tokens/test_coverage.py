"""What a tokeniser loses of texts: it is counted per split, recorded, warned of, and refused if nothing is left."""

import json
import logging
import random

import pandas as pd
import pytest

from lib.core.errors import DataError
from lib.preparing.settings.tokenizer import Tokenizer
from lib.tokens.coverage import MOST_LOST, Coverage, shares
from lib.tokens.tokenizer import TextTokenizer
from lib.tokens.tokenizing import tokenize_dataset, train_tokenizer

THAI = ["ดี", "ร้าน", "อาหาร", "ที่นี่", "อร่อย", "มาก", "บริการ", "แย่", "สวย", "ไม่", "ชอบ"]
HINDI = ["नमस्ते", "दुनिया", "अच्छा", "बुरा", "फिल्म"]
ENGLISH = ["a", "naive", "cat", "sat", "on", "the", "mat"]


def texts(words, glue, count=60):
    draws = random.Random(0)
    return [glue.join(draws.choices(words, k=40)) for _ in range(count)]


def tokenised(tmp_path, written, **settings):
    """Return the statistics of texts tokenised by a tokeniser that is trained on them."""
    options = {"source": "trained", "vocab_size": 500} | settings
    train_tokenizer(written, Tokenizer(**options), tmp_path / "tokenizer")
    source = tmp_path / "train.parquet"
    pd.DataFrame({"id": [str(i) for i in range(len(written))], "text": written, "label": 0}).to_parquet(source)
    lengths = tmp_path / "lengths.json"
    tokenizer = TextTokenizer.load(tmp_path / "tokenizer")
    tokenize_dataset({"train": source}, tokenizer, max_tokens=64, folder=tmp_path / "tokens", lengths=lengths)
    return json.loads(lengths.read_text())["train"]


def warned(caplog):
    return [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]


def test_texts_without_a_known_token(tmp_path, caplog):
    written = texts(THAI, "")
    with pytest.raises(DataError, match="58 of 60"):
        tokenised(tmp_path / "wordpiece", written)
    assert tokenised(tmp_path, written, algorithm="bpe")["unknown"] == 0
    assert not warned(caplog)


def test_texts_partly_without_a_known_token(tmp_path, caplog):
    found = tokenised(tmp_path, texts(THAI, "", 6) + texts(ENGLISH, " ", 54))
    assert found["empty"] == pytest.approx(0.1)
    assert 0 < found["unknown"] < 0.1
    assert any("10.0% of the documents have no known token" in each for each in warned(caplog))


@pytest.mark.parametrize(("words", "glue"), [(HINDI, " "), (["für", "schön", "Tür"], " ")])
def test_dropped_signs(tmp_path, caplog, words, glue):
    written = texts(words, glue)
    assert tokenised(tmp_path / "dropping", written)["dropped"] > MOST_LOST
    assert any("Set strip_accents: false" in each for each in warned(caplog))
    caplog.clear()
    assert tokenised(tmp_path, written, strip_accents=False)["dropped"] == 0
    assert not warned(caplog)


@pytest.mark.parametrize("text", ["Straße ΟΔΥΣΣΕΥΣ", "한국어 영화 ㎏ ﬁne"])
def test_case_and_composition(tmp_path, text):
    train_tokenizer([text] * 3, Tokenizer(source="trained", strip_accents=False), tmp_path / "tokenizer")
    coverage = Coverage(TextTokenizer.load(tmp_path / "tokenizer"))
    coverage.add([text], [[7, 8]])
    assert shares(coverage.counts)["dropped"] == 0
