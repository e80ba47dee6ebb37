"""Writing a generated corpus: the generators themselves are the modules of `lib.generators`.

The same name, number, seed and options give the same bytes.
"""

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lib.core.errors import ConfigError
from lib.core.files import atomic_path
from lib.core.randomness import derive_seed
from lib.preparing.generators import generator, options_class, problems_of


def generate(
    corpus: str,
    documents: int,
    seed: int,
    folder: str | Path,
    generator_name: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> None:
    """Write the raw files of a generated corpus, those of `lib.preparing.generators.raw_files`.

    Args:
        corpus: name of the corpus; corpora of other names get other documents.
        documents: documents to generate, over all parts; the preparation drops some of them.
        seed: seed.
        folder: folder to appear.
        generator_name: name of the generator; None = that of the corpus.
        options: options of the generator.

    Raises:
        ConfigError: the generator is unknown, or does not support the request.
    """
    name, values = generator_name or corpus, options or {}
    if problems := list(problems_of(name, documents, values)):
        raise ConfigError("\n".join(f"{corpus}.generated.{problem}." for problem in problems))
    rng = random.Random(derive_seed("generate", corpus, seed))
    contents = generator(name).make(documents, rng, options_class(name).model_validate(values))
    with atomic_path(folder) as partial:
        partial.mkdir()
        for file, content in contents.items():
            if isinstance(content, bytes):
                (partial / file).write_bytes(content)
            else:
                pq.write_table(pa.table(content), partial / file)
