import sys
import unicodedata

from tokenizers.pre_tokenizers import WhitespaceSplit

from lib.core.labels import word_spans, words


def test_words_are_separated_by_white_space():
    text = "  so-called\tU.S.\u00a0 \u4e2d\u6587\n[MASK]x "
    assert words(text) == ["so-called", "U.S.", "\u4e2d\u6587", "[MASK]x"]
    assert [text[start:end] for start, end in word_spans(text)] == words(text)
    assert words(" \n") == word_spans("") == []


def test_white_space_is_that_of_the_tokeniser():
    """Over all separators and control characters: the words that are counted are those that the tokeniser finds."""
    characters = [chr(code) for code in range(sys.maxunicode + 1)]
    text = "".join(f"a{c}" for c in characters if unicodedata.category(c) in ("Zs", "Zl", "Zp", "Cc", "Cf"))
    split = WhitespaceSplit().pre_tokenize_str(text)
    assert len(split) > 20
    assert words(text) == [word for word, _ in split]
    assert word_spans(text) == [span for _, span in split]
