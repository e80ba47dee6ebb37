"""Corpora made from nothing, for the demo and for tests, in the raw formats of the real ones.

The same name, number and seed give the same bytes. Real corpora are `lib.data.sources`' affair.
"""

import random
from pathlib import Path

from lib.core.errors import ConfigError
from lib.core.files import atomic_path
from lib.core.randomness import derive_seed
from lib.data.generated import arxiv, hyperpartisan, imdb, wikipedia

GENERATORS = {"wikipedia": wikipedia, "imdb": imdb, "hyperpartisan": hyperpartisan, "arxiv": arxiv}

FEWEST_DOCUMENTS = 110
"""Below that, a split by class into tenths leaves a class of eleven without a document."""


def generate(corpus: str, documents: int, seed: int, folder: str | Path) -> None:
    """Write the raw files of a generated corpus, those of `lib.core.generated.RAW_FILES`.

    Args:
        corpus: name of the corpus.
        documents: documents to generate, over all parts; the preparation drops some of them.
        seed: seed.
        folder: folder to appear.

    Raises:
        ConfigError: there is no such generator, or too few documents are asked for.
    """
    if corpus not in GENERATORS:
        raise ConfigError(f"corpus {corpus!r} has no generator. Expected one of: {', '.join(GENERATORS)}.")
    if documents < FEWEST_DOCUMENTS:
        raise ConfigError(
            f"{corpus}.generated.documents = {documents}: too few to split. Expected at least {FEWEST_DOCUMENTS}."
        )
    with atomic_path(folder) as partial:
        partial.mkdir()
        GENERATORS[corpus].write(documents, random.Random(derive_seed("generate", corpus, seed)), partial)
