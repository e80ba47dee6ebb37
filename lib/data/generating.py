"""Writing a generated corpus: the generators themselves are the modules of `lib.data.generated`.

The same name, number and seed give the same bytes.
"""

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from lib.core.errors import ConfigError
from lib.core.files import atomic_path
from lib.core.generated import generator, generators
from lib.core.randomness import derive_seed

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
    if corpus not in generators():
        raise ConfigError(f"corpus {corpus!r} has no generator. Expected one of: {', '.join(generators())}.")
    if documents < FEWEST_DOCUMENTS:
        raise ConfigError(
            f"{corpus}.generated.documents = {documents}: too few to split. Expected at least {FEWEST_DOCUMENTS}."
        )
    contents = generator(corpus).make(documents, random.Random(derive_seed("generate", corpus, seed)))
    with atomic_path(folder) as partial:
        partial.mkdir()
        for name, content in contents.items():
            if isinstance(content, bytes):
                (partial / name).write_bytes(content)
            else:
                pq.write_table(pa.table(content), partial / name)
