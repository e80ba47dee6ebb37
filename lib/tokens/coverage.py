"""How much of its texts a tokeniser keeps: unknown tokens, documents without a known one, dropped characters."""

import logging
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from lib.core.errors import DataError
from lib.tokens.tokenizer import TextTokenizer

logger = logging.getLogger(__name__)

MOST_LOST = 0.01
"""Share of tokens, documents or characters that may be lost without a warning."""
MOST_EMPTY = 0.5
"""Share of documents without a known token above which a split is refused."""
UNKNOWN_REMEDY = "Set algorithm: bpe and source: trained for the tokeniser, or name a published one for this language."
DROPPED_REMEDY = "Set strip_accents: false for a tokeniser of WordPiece, or algorithm: bpe with source: trained."
_ASCII = re.compile(r"[\x00-\x7f]+")


class Coverage:
    """Counts unknown tokens, documents without a known one, and dropped characters of a split.

    Args:
        tokenizer: that made their ids.
    """

    def __init__(self, tokenizer: TextTokenizer) -> None:
        backend = tokenizer.backend
        self._core = backend.backend_tokenizer
        special = {name: token for name, token in backend.special_tokens_map.items() if name != "unk_token"}
        self._special = set(backend.convert_tokens_to_ids(list(special.values())))
        # Byte-level vocabularies know every text; some call their end-of-text token the unknown one, too.
        self._unknown = None if backend.unk_token_id in self._special else backend.unk_token_id
        self.counts = Counter[str]()

    def add(self, texts: Sequence[str], ids: Sequence[Sequence[int]]) -> None:
        """Count documents.

        Args:
            texts: their texts, which are counted whole.
            ids: their tokens, one list per document or window.
        """
        counts = self.counts
        for document in ids:
            tokens = [token for token in document if token not in self._special]
            unknown = sum(token == self._unknown for token in tokens)
            counts.update(documents=1, empty=unknown == len(tokens), tokens=len(tokens), unknown=unknown)
        text = "\n".join(texts)
        other = _ASCII.sub("", text)  # no normaliser drops a letter of ASCII
        signs = _signs(other)
        counts["characters"] += len(text) - len(other) - sum(map(text.count, " \n")) + signs.total()
        if self._core.normalizer is not None:
            counts["dropped"] += (signs - _signs(self._core.normalizer.normalize_str(other))).total()

    def warnings(self) -> list[str]:
        """Return a sentence for each share above `MOST_LOST`, with its remedy."""
        lost, found = {name: share or 0.0 for name, share in shares(self.counts).items()}, []
        if max(lost["unknown"], lost["empty"]) > MOST_LOST:
            found.append(
                f"{lost['unknown']:.1%} of the tokens are unknown to the vocabulary, and {lost['empty']:.1%} of the "
                f"documents have no known token. {UNKNOWN_REMEDY}"
            )
        if lost["dropped"] > MOST_LOST:
            found.append(
                f"the tokeniser drops {lost['dropped']:.1%} of the characters, such as accents, so that words become "
                f"one. {DROPPED_REMEDY}"
            )
        return found

    def check(self, place: str | Path) -> None:
        """Warn of shares above `MOST_LOST`.

        Args:
            place: file or split of the documents.

        Raises:
            DataError: most documents have no known token.
        """
        documents, empty = self.counts["documents"], self.counts["empty"]
        if empty > MOST_EMPTY * documents:
            remedy = UNKNOWN_REMEDY if self.counts["tokens"] else "Raise max_tokens, or check the texts."
            raise DataError(f"{place}: {empty:,} of {documents:,} documents have no token of the vocabulary. {remedy}")
        for warning in self.warnings():
            logger.warning("%s: %s", place, warning)


def shares(counts: Mapping[str, int]) -> dict[str, float | None]:
    """Return the shares of unknown tokens, documents without a known one, and dropped characters; None = of none."""
    wholes = {"unknown": "tokens", "empty": "documents", "dropped": "characters"}
    return {name: counts[name] / counts[whole] if counts[whole] else None for name, whole in wholes.items()}


def _signs(text: str) -> Counter[str]:
    """Return how often each character of a text occurs, whatever its case, with accents as signs of their own."""
    signs = Counter(unicodedata.normalize("NFKD", text).casefold())
    for sign in [sign for sign in signs if sign.isspace()]:
        del signs[sign]
    return signs
