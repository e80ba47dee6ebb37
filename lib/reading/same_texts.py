"""When two texts are the same: the case of letters, white space and the form of accents make no difference."""

import hashlib
import unicodedata


def text_digest(*texts: str) -> bytes:
    """Return a digest of a text, or of a pair of texts, in 8 bytes. Texts that are the same have the same one.

    They are compared in NFC after case folding (Unicode, D145), with single blanks between words. Half a character
    counts as a question mark.
    """
    folded = [unicodedata.normalize("NFC", unicodedata.normalize("NFD", text).casefold()) for text in texts]
    same = "\n".join(" ".join(text.split()) for text in folded)
    return hashlib.blake2b(same.encode(errors="replace"), digest_size=8).digest()
