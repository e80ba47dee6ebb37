"""The corpus: articles chosen by keywords, one raw file at a time, in file order."""

import logging
from collections.abc import Callable, Collection
from pathlib import Path

from lib.core.files import atomic_path
from lib.preparing.parts import PartWriter
from lib.preparing.settings.corpus import ArticleFilter
from lib.reading.readers import read_records

logger = logging.getLogger(__name__)

# All bytes but a to z become blanks; multi-byte characters of UTF-8 hold no ASCII byte, so they become blanks too.
_LETTERS_ONLY = bytes(byte if ord("a") <= byte <= ord("z") else ord(" ") for byte in range(256))


def keyword_filter(keywords: Collection[str], min_keywords: int) -> Callable[[str], bool]:
    """Return a function that tells whether at least `min_keywords` different `keywords` occur in a text.

    A word is a maximal run of the letters a to z in the lower-cased text.
    """
    wanted = frozenset(keyword.encode() for keyword in keywords)

    def keep(text: str) -> bool:
        # Half a character (a lone surrogate) is no letter either: it becomes "?", then a blank.
        words = text.lower().encode(errors="replace").translate(_LETTERS_ONLY).split()
        return len(wanted.intersection(words)) >= min_keywords

    return keep


def filter_corpus(source: str | Path, target: str | Path, settings: ArticleFilter, part: str = "train") -> None:
    """Write the articles of one raw file that have enough keywords to one prepared part, in file order.

    Articles without text are left out. The result depends on nothing but the arguments, so the files of a corpus
    may be filtered at the same time.

    Args:
        source: raw file of any known format.
        target: Parquet file to appear, with `id`, `text` and an empty `label`.
        settings: columns and keywords.
        part: prefix of the ids where the raw file has none; different for every file of a corpus.

    Raises:
        DataError: the file cannot be read, or an id comes twice in it.
    """
    keep = keyword_filter(settings.keywords, settings.min_keywords)
    read = 0
    with atomic_path(target) as partial, PartWriter(partial) as kept:
        for record in read_records({part: [source]}, text=settings.text, id=settings.id, dialect=settings.dialect):
            read += 1
            if keep(record.text) and not record.text.isspace() and record.text:
                kept.write(record.id, record.text, None)
    logger.info("%s: kept %d of %d articles", source, kept.documents, read)
