"""Generated corpora, found by name: the generators are the modules of `lib.data.generated`.

They are imported by a name made at run time, so that the digest of a corpus' code holds its own generator and no other.
"""

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from types import ModuleType

_PACKAGE = "lib.data.generated"


def generators() -> list[str]:
    """Return the corpora that can be generated, sorted."""
    folder = importlib.import_module(_PACKAGE).__path__
    return sorted(module.name for module in pkgutil.iter_modules(folder))


def generator(corpus: str) -> ModuleType:
    """Return the generator of `corpus`, one of `generators()`."""
    return importlib.import_module(f"{_PACKAGE}.{corpus}")


class _RawFiles(Mapping[str, dict[str, dict[str, list[str]]]]):
    """Asks a corpus' generator for its files when they are looked up."""

    def __getitem__(self, corpus: str) -> dict[str, dict[str, list[str]]]:
        if corpus not in generators():
            raise KeyError(corpus)
        found = generator(corpus)
        return {"files": found.FILES, "ground_truth": found.GROUND_TRUTH}

    def __iter__(self) -> Iterator[str]:
        return iter(generators())

    def __len__(self) -> int:
        return len(generators())


RAW_FILES = _RawFiles()
"""Raw files of the generated corpora: `files` and `ground_truth` by corpus, each by part, in dataset order."""
