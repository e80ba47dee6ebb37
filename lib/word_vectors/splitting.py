"""Split texts into the words that have vectors."""

from collections.abc import Iterator


def split_words(text: str, lowercase: bool) -> Iterator[str]:
    """Yield the words of a text: runs of letters, without digits and punctuation, as in gensim."""
    from gensim.utils import tokenize

    return tokenize(text, lowercase=lowercase)
