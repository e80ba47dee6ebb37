"""Generated corpora: the generators are the modules of `lib.generators`, found by name.

They are imported by a name made at run time, so that the digest of a corpus' code holds its own generator and no other.
"""

import functools
import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

from pydantic import ValidationError

from lib.core.extensions import claim, load, packages, remedy
from lib.core.settings import BaseSettings, sentences

PACKAGE = "lib.generators"
FEWEST_DOCUMENTS = 110
"""Below that, a split by class into tenths leaves a class of eleven without a document."""


class GeneratorOptions(BaseSettings):
    """Base of the options of every generator, and those of a generator that has none."""

    def obstacles(self, documents: int) -> Iterator[str]:
        """Yield why that many documents cannot be made, as sentences without the last full stop."""
        if documents < FEWEST_DOCUMENTS:
            yield f"{documents} are too few to split. Expected at least {FEWEST_DOCUMENTS}"


def generators() -> list[str]:
    """Return the names of the generators, sorted."""
    return sorted(_places(tuple(packages(PACKAGE))))


def place_of(name: str) -> str:
    """Return the dotted name of the module of the generator `name`, one of `generators()`."""
    return _places(tuple(packages(PACKAGE)))[name]


@functools.cache
def _places(names: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for package in names:
        for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
            claim(found, module.name, f"{package}.{module.name}")
    return found


def generator(name: str) -> ModuleType:
    """Return the generator `name`, one of `generators()`."""
    return load(place_of(name))


def options_class(name: str) -> type[GeneratorOptions]:
    """Return the class of the options of the generator `name`, one of `generators()`."""
    return getattr(generator(name), "Options", GeneratorOptions)


def group_names(name: str, options: Mapping[str, Any]) -> list[str]:
    """Return the names of the groups of a generator's documents, in order from 0; empty if it has only numbers.

    Args:
        name: name of the generator, one of `generators()`.
        options: its options, which were checked.
    """
    names = getattr(generator(name), "group_names", None)
    return names(options_class(name).model_validate(options)) if names else []


def problems_of(name: str, documents: int, options: Mapping[str, Any]) -> Iterator[str]:
    """Yield problems of a request to a generator.

    Args:
        name: name of the generator.
        documents: documents to generate.
        options: options as they are written in a configuration.

    Yields:
        Sentences without the last full stop, each after the key that it is about: `options.length: ...`.
    """
    if name not in generators():
        known = f"Known: {', '.join(generators())}.{remedy(PACKAGE, name)}"
        yield f"generator: there is no generator '{name}'. {known}".removesuffix(".")
        return
    try:
        found = options_class(name).model_validate(options)
    except ValidationError as error:
        for place, sentence in sentences(error):
            yield f"{'.'.join(('options', *place))}: {sentence}"
    else:
        for sentence in found.obstacles(documents):
            yield f"documents: {sentence}"


def raw_files(name: str, kind: str = "files") -> dict[str, list[str]]:
    """Return the raw files that a generator makes, by part, in dataset order.

    Args:
        name: name of the generator, one of `generators()`.
        kind: `files`, or `ground_truth` for files of labels.
    """
    return getattr(generator(name), kind.upper(), {})
