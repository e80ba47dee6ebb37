"""Which tokens of a text are kept where it has more than a model reads: the first ones, or its head and its tail.

The part that a tokeniser keeps is stored in its folder, so that all users of it, or of a run's model folder, truncate
alike.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tokenizers import Encoding

from lib.core.files import write_json
from lib.preparing.settings.document_form import Cut
from lib.tokens.tokenizer import TextTokenizer, words_begun

CONFIG = "tokenizer_config.json"
KEY = "cut"
HEAD_SHARE = 128 / 510
"""Share of a cut text that is its head, if the rest is its tail: the first 128 of 510 tokens, as in Sun et al. 2019."""
WHOLE = 2**31
"""More tokens than any text has."""


def note_cut(folder: str | Path, cut: Cut) -> None:
    """Store in the folder of a tokeniser which part of long texts it keeps; the first tokens are the default."""
    if cut != "head":
        path = Path(folder) / CONFIG
        write_json(path, json.loads(path.read_text(encoding="utf-8")) | {KEY: cut})


def cut_of(backend: Any) -> Cut:
    """Return the part of long texts that a tokeniser of transformers keeps."""
    return backend.init_kwargs.get(KEY, "head")


def encode_cut(tokenizer: TextTokenizer, texts: Sequence[str], max_tokens: int) -> list[list[int]]:
    """Return the ids that a tokeniser keeps of each text.

    Args:
        tokenizer: with or without a note.
        texts: the texts themselves, not paths of files.
        max_tokens: ids to keep of each text, at least 2: [CLS] and [SEP] are included.

    Raises:
        ConfigError: `max_tokens` leaves no room for [CLS] and [SEP].
        DataError: the texts are a single string.

    Source:
        Sun et al. 2019, "How to Fine-Tune BERT for Text Classification?", for `head_tail`.
    """
    return [[encoding.ids[place] for place in kept] for encoding, kept in _kept(tokenizer, texts, max_tokens)]


def encode_cut_words(
    tokenizer: TextTokenizer, texts: Sequence[str], max_tokens: int
) -> tuple[list[list[int]], list[list[int | None]]]:
    """Return the ids that a tokeniser keeps of each text, and which word each begins (`words_begun`).

    Arguments and errors are those of `encode_cut`.
    """
    ids, begun = [], []
    for text, (encoding, kept) in zip(texts, _kept(tokenizer, texts, max_tokens, fast=False), strict=True):
        of_text = words_begun(encoding, text)
        ids.append([encoding.ids[place] for place in kept])
        begun.append([of_text[place] for place in kept])
    return ids, begun


def encode_cut_pairs(
    tokenizer: TextTokenizer, pairs: Sequence[tuple[str, str]], max_tokens: int
) -> tuple[list[list[int]], list[list[int]]]:
    """Return the ids that a tokeniser keeps of each pair of texts, as one sequence, and the segment of each token.

    The sequence is the tokeniser's result for a pair, such as [CLS] first [SEP] second [SEP]; segments are 0 or 1, as
    the tokeniser has them (some give 0 to all). The longer text is cut until both fit; the note does not change the
    number of tokens that each text keeps.

    Raises:
        ConfigError: as `TextTokenizer.require_pairs` raises it.
    """
    tokenizer.require_pairs(max_tokens)
    found = list(_kept(tokenizer, pairs, max_tokens))
    ids = [[encoding.ids[place] for place in kept] for encoding, kept in found]
    return ids, [[encoding.type_ids[place] for place in kept] for encoding, kept in found]


def _kept(
    tokenizer: TextTokenizer, texts: Sequence[Any], max_tokens: int, *, fast: bool = True
) -> Iterator[tuple[Encoding, Sequence[int]]]:
    """Yield the tokens of each text or pair, and the places of those that are kept."""
    cut = tokenizer.encodings(texts, max_tokens, fast=fast)
    if cut_of(tokenizer.backend) == "head":
        yield from ((encoding, range(len(encoding))) for encoding in cut)
        return
    for part, whole in zip(cut, tokenizer.encodings(texts, WHOLE, fast=fast), strict=True):
        of_texts = whole.sequence_ids
        places = [place for place, text in enumerate(of_texts) if text is None]
        for text in (0, 1):
            of_text = [place for place, each in enumerate(of_texts) if each == text]
            count = part.sequence_ids.count(text)
            head = round(count * HEAD_SHARE) if count < len(of_text) else count
            places += of_text[:head] + of_text[len(of_text) - count + head :]
        yield whole, sorted(places)
