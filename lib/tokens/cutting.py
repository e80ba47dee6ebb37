"""Which tokens of a text are kept where it has more than a model reads: the first ones, or its head and its tail.

The part that a tokeniser keeps is stored in its folder, so that all users of it, or of a run's model folder, truncate
alike.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from lib.core.enclosing import enclosing
from lib.core.files import write_json
from lib.preparing.settings.document_form import Cut
from lib.tokens.tokenizer import TextTokenizer, require_room

CONFIG = "tokenizer_config.json"
KEY = "cut"
HEAD_SHARE = 128 / 510
"""Share of a cut text that is its head, if the rest is its tail: the first 128 of 510 tokens, as in Sun et al. 2019."""
WHOLE = 2**31
"""More tokens than any text has."""

Entry = TypeVar("Entry")


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
    if cut_of(tokenizer.backend) == "head":
        return tokenizer.encode_ragged(texts, max_tokens)
    require_room(max_tokens)
    return _ends(tokenizer, tokenizer.encode_ragged(texts, WHOLE), max_tokens)


def encode_cut_words(
    tokenizer: TextTokenizer, texts: Sequence[str], max_tokens: int
) -> tuple[list[list[int]], list[list[int | None]]]:
    """Return the ids that a tokeniser keeps of each text, and which word each begins.

    Arguments and errors are those of `encode_cut`, and words those of `TextTokenizer.encode_words`.
    """
    if cut_of(tokenizer.backend) == "head":
        return tokenizer.encode_words(texts, max_tokens)
    require_room(max_tokens)
    ids, begun = tokenizer.encode_words(texts, WHOLE)
    return _ends(tokenizer, ids, max_tokens), _ends(tokenizer, begun, max_tokens)


def encode_cut_pairs(
    tokenizer: TextTokenizer, pairs: Sequence[tuple[str, str]], max_tokens: int
) -> tuple[list[list[int]], list[list[int]]]:
    """Return the ids that a tokeniser keeps of each pair of texts, as one sequence, and the segment of each token.

    The note does not change the number of tokens that each text keeps. With `head_tail`, they are its head and tail.
    Arguments and errors are those of `TextTokenizer.encode_pairs`.
    """
    ids, segments, texts = tokenizer.encode_pairs(pairs, max_tokens)
    if cut_of(tokenizer.backend) == "head":
        return ids, segments
    found: tuple[list[list[int]], list[list[int]]] = ([], [])
    for kept, *whole, whole_texts in zip(texts, *tokenizer.encode_pairs(pairs, WHOLE), strict=True):
        places = {place for place, text in enumerate(whole_texts) if text is None}
        for text in (0, 1):
            of_text = [place for place, each in enumerate(whole_texts) if each == text]
            places |= set(_head_and_tail(of_text, kept.count(text)))
        for rows, row in zip(found, whole, strict=True):
            rows.append([row[place] for place in sorted(places)])
    return found


def _ends(tokenizer: TextTokenizer, rows: Sequence[list[Entry]], max_tokens: int) -> list[list[Entry]]:
    """Return the head and the tail of each row, with the tokens that enclose it."""
    before, behind = enclosing(tokenizer.backend)
    return [_head_and_tail(row, max_tokens, before, behind) for row in rows]


def _head_and_tail(row: list[Entry], kept: int, before: int = 0, behind: int = 0) -> list[Entry]:
    """Return the head and the tail of a row, `kept` entries in all; `before` and `behind` of them enclose the text."""
    head = before + round((kept - before - behind) * HEAD_SHARE)
    return row if len(row) <= kept else row[:head] + row[len(row) - kept + head :]
