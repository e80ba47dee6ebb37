"""Changes of a dataset's settings that let a preparation succeed that failed; each was tried on the documents."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from lib.core.errors import ConfigError, DataError
from lib.core.files import mapping_text
from lib.data.settings.preparation import Preparation

SHARES = (0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4)
"""Shares of validation and test that are tried."""
MOST = 3
"""Changes that are named, at most."""

Changes = dict[str, Any]


def remedies(
    settings: Preparation,
    sizes: Mapping[str, int],
    available: Mapping[str, int],
    split: Callable[[Preparation, Collection[str]], object],
    prepare: Callable[[Preparation], object],
) -> list[Changes]:
    """Return the changes that work; each one is enough alone.

    Args:
        settings: those that failed.
        sizes: number of documents of each class.
        available: number of documents of each split that asks for more than it has.
        split: splits the documents that were read, except those of some classes; raises `DataError` if it fails.
        prepare: reads and splits the documents; raises `DataError` if it fails.
    """

    def splits(changes: Changes, gone: Collection[str] = ()) -> bool:
        return _works(settings, changes, lambda chosen: split(chosen, gone))

    tried = [changes for changes in _of_splits(settings, available) if splits(changes)][:1]
    if kept := {name: size for name, size in available.items() if size}:
        tried.append({"split": {"documents": settings.split.documents | kept}})
    if settings.balance:
        tried.append({"balance": False})
    found = [changes for changes in tried if splits(changes)]
    gone = next((gone for gone in _rarest(settings, sizes) if splits({}, gone)), ())
    again = [*_without(settings, sizes, gone)] if gone else []
    again += [{"min_chars": 0}] if settings.min_chars else []
    again += [{"max_chars": None}] if settings.max_chars else []
    found += [changes for changes in again if _works(settings, changes, prepare)]
    return found[:MOST]


def sentence(found: Sequence[Changes]) -> str:
    """Return changes that work as a sentence with the YAML of each; without any, that documents are missing."""
    if not found:
        return "No share of the documents and no choice of classes would do. Add documents."
    return f"With these documents, this works: {'; or '.join(map(written, found))}. Or add documents."


def written(changes: Changes) -> str:
    """Return changes of settings as YAML in one line, for each key."""
    return " and ".join(f"`{mapping_text({key: value}, one_line=True)[1:-1]}`" for key, value in changes.items())


def changed(settings: Preparation, changes: Changes) -> Preparation:
    """Return settings with changes; those of `split` keep its other keys.

    Raises:
        ValidationError: they are not allowed together.
    """
    values = settings.model_dump(exclude_unset=True)
    return Preparation.model_validate(
        values | {key: values.get(key, {}) | value if key == "split" else value for key, value in changes.items()}
    )


def _works(settings: Preparation, changes: Changes, attempt: Callable[[Preparation], object]) -> bool:
    try:
        attempt(changed(settings, changes))
    except (ConfigError, DataError, ValidationError):
        return False
    return True


def _of_splits(settings: Preparation, available: Mapping[str, int]) -> Iterator[Changes]:
    """Yield shares of validation and test above those of the settings, the least first."""
    split = settings.split
    if split.given or split.held_out:
        return
    for share in SHARES:
        shares = {"validation": max(share, split.validation), "test": max(share, split.test)}
        if available:  # the other split need not grow
            shares = {name: value for name, value in shares.items() if name in available}
        if any(value > getattr(split, name) for name, value in shares.items()):
            yield {"split": shares}


def _rarest(settings: Preparation, sizes: Mapping[str, int]) -> Iterator[list[str]]:
    """Yield the rarest class, the two rarest, and so on, as long as two classes are left."""
    if settings.label_per == "document" and settings.label_range is None:
        order = sorted(settings.labels, key=lambda name: sizes.get(name, 0))
        yield from (order[:count] for count in range(1, len(order) - 1))


def _without(settings: Preparation, sizes: Mapping[str, int], gone: Collection[str]) -> Iterator[Changes]:
    """Yield settings that drop classes, whose labels may be names or numbers."""
    labels = [name for name in settings.labels if name not in gone]
    spelt = {value: None if name in gone else name for value, name in settings.values.items()}
    spelt |= {name: None for name in gone if sizes.get(name, 0)}  # the others occur nowhere
    yield {"labels": labels} | ({"values": spelt} if spelt else {})
    if not settings.values:
        numbers = {str(number): None if name in gone else name for number, name in enumerate(settings.labels)}
        yield {"labels": labels, "values": numbers}
