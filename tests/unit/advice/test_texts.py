import numpy as np
import pytest

from lib.advice.texts import kept_of, lost, ngram_settings
from lib.tokens.vocabularies import train_wordpiece


def test_limit_loses_tokens_and_documents():
    lengths = np.array([100, 300, 600])
    assert lost(lengths, 300) == pytest.approx((0.3, 1 / 3))
    assert lost(lengths, 600) == (0.0, 0.0)


def chinese(count=40):
    """Reviews without spaces, no two of which are alike."""
    kinds = ["房间很小不干净", "服务很好位置方便", "菜太咸了不好吃"]
    return [f"{kinds[n % 3]}{chr(0x4E00 + 17 * n)}{chr(0x5E00 + 13 * n)}" for n in range(count)]


def test_tfidf_counts_characters_where_words_are_few():
    assert ngram_settings(["the film was good", "this play is bad", "the play was good"] * 9) == {}
    assert ngram_settings(chinese()) == {"unit": "characters", "ngram_max": 3}
    assert ngram_settings(["different", "words", "qxz"]) == {"unit": "characters", "ngram_max": 3}, "no word is left"
    assert ngram_settings(["ab", "cd", "ef"]) is None
    hindi = ["यह फिल्म बहुत अच्छी थी", "मुझे कहानी पसंद नहीं आई", "खिलाड़ियों ने शानदार काम किया"] * 9
    assert ngram_settings(hindi) == {"unit": "characters", "ngram_max": 3}, "words would be cut at their marks"
    french = ["le film était très réussi", "la soirée était ratée", "une très belle soirée"] * 9
    assert ngram_settings(french) == {}


def test_vocabulary_that_loses_texts_has_a_remedy(tmp_path):
    thai = ["ที่นี่อร่อย บริการดี", "อาหารไม่ดี ที่นี่แย่", "ร้านสวย ชอบมาก"] * 5
    _, found = kept_of(thai, train_wordpiece(tmp_path / "dropping", thai))
    assert any("strip_accents: false" in each for each in found)
    _, found = kept_of(thai, train_wordpiece(tmp_path / "keeping", thai, strip_accents=False))
    assert not any("strip_accents" in each for each in found)
    empty, _ = kept_of(["".join(thai).replace(" ", "")] * 3, train_wordpiece(tmp_path / "unread", thai))
    assert empty == 1
