"""Base of the typed configuration. The docstrings of its fields are the reference of every key."""

import difflib
import functools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from lib.core.errors import MOST_OF_VALUE, cut, printable

Fraction = Annotated[float, Field(ge=0, le=1)]
Probability = Annotated[float, Field(ge=0, lt=1)]

MOST = 10**9
"""Default bound of numbers, above any use; with larger ones, libraries overflow or never end."""
LARGE = 10**6
"""Bound of widths and other sizes, which cost memory: below it, a single one fits a machine."""
FEW = 1_000
"""Bound of layers, heads, processes and copies, whose cost is proportional to their number."""
Size = Annotated[int, Field(gt=0, le=LARGE)]
SizeOrZero = Annotated[int, Field(ge=0, le=LARGE)]
Few = Annotated[int, Field(gt=0, le=FEW)]
FewOrZero = Annotated[int, Field(ge=0, le=FEW)]
WholeNumber = Annotated[int, Field(ge=-MOST, le=MOST)]
PositiveInt = Annotated[int, Field(gt=0, le=MOST)]
NonNegativeInt = Annotated[int, Field(ge=0, le=MOST)]
PositiveFloat = Annotated[float, Field(gt=0, le=MOST)]
NonNegativeFloat = Annotated[float, Field(ge=0, le=MOST)]
BoundedFloat = Annotated[float, Field(ge=-MOST, le=MOST)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]
"""The largest seed that NumPy accepts."""


def _distinct(seeds: list[int]) -> list[int]:
    if len(set(seeds)) < len(seeds):
        raise ValueError(f"seeds {seeds} repeat one, but a seed names one run. Give each once")
    return seeds


Seeds = Annotated[list[Seed], Field(min_length=1), AfterValidator(_distinct)]

# Names and folders become parts of paths and commands.
NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
FOLDER = r"^[\w./][\w./+@=,:%-]*$"
REPOSITORY = r"^[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*$"
REVISION = r"^[A-Za-z0-9][A-Za-z0-9._/-]*$"
MESSAGES = {
    "int_type": "expected a whole number such as 5, in digits alone and without quotes",
    "float_type": "expected a number such as 0.5 or 1.0e-5, without quotes",
    "list_type": "expected a list such as [1, 2]",
    "dict_type": "expected keys with their values, such as {key: value}",
    "model_type": "expected keys with their values, indented below it; without any, remove it",
    "string_type": "expected a text; put it in quotes if YAML takes it for something else",
}
"""Messages by pydantic's error type."""
PATTERNS = {
    NAME: "expected letters, digits, '.', '_' and '-', the first one a letter or digit",
    FOLDER: "expected a path of letters, digits and the signs . / _ + @ = , : % -, without spaces, quotes or braces",
    REPOSITORY: "expected owner/name, each of letters, digits, '.', '_' and '-'",
    REVISION: "expected a commit, tag or branch: letters, digits, '.', '_', '/' and '-'",
}
"""Error message per pattern."""
Name = Annotated[str, Field(pattern=NAME, max_length=200)]
"""A name that becomes part of a file's name; file systems take about 255 bytes."""
FolderName = Annotated[Name, Field(max_length=100)]
"""A name that comes from outside a study, and shares the name of a folder with others."""
Folder = Annotated[str, Field(pattern=FOLDER)]
Repository = Annotated[str, Field(pattern=REPOSITORY)]
Revision = Annotated[str, Field(pattern=REVISION)]


@dataclass(frozen=True)
class Reference:
    """Marks a field whose texts are names of entries of other sections of an experiment.

    Args:
        sections: the sections, any of which may have the entry.
    """

    sections: tuple[str, ...]


MechanismName = Annotated[str, Reference(("mechanisms",))]
BackboneName = Annotated[str, Reference(("backbones",))]
TokenizerName = Annotated[str, Reference(("tokenizers",))]
VectorsName = Annotated[str, Reference(("word_vectors",))]
EncoderName = Annotated[str, Reference(("encoders",))]
CorpusName = Annotated[str, Reference(("corpora",))]
DatasetName = Annotated[str, Reference(("datasets",))]
EntryName = Annotated[str, Reference(("corpora", "datasets"))]
StageName = Annotated[str, Reference(("stages",))]
ModelName = Annotated[str, Reference(("models",))]

_PLACE = re.compile(r"([\w-]+(?:\.[\w-]+)*): ")


def check(method: Callable[[Any], Iterator[str]]) -> Callable[[Any], Iterator[str]]:
    """Mark a method of a section that checks its fields together and yields one sentence per error.

    A sentence may begin with its key, relative to the section: `models.sdpa: ...`.
    """
    method.is_check = True  # type: ignore[attr-defined]
    return method


def unset(value: Any) -> bool:
    """Whether a value is omitted from stored settings, so that runs without the field keep their settings."""
    return value is None


class BaseSettings(BaseModel):
    """Base of every section of the configuration: unknown keys are errors, and values are immutable.

    Values are not converted: `true`, `"5"` and infinity are not numbers.

    Methods marked with `check` run when all fields are valid, and report all their errors together.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )

    @classmethod
    def prepared(cls, values: Any) -> Any:
        """Return the values that are validated instead of `values`."""
        return values

    @model_validator(mode="wrap")
    @classmethod
    def _checked(cls, values: Any, handler: Callable[[Any], "BaseSettings"]) -> "BaseSettings":
        if isinstance(values, BaseSettings):
            return handler(values)
        section = handler(without_null(cls, cls.prepared(values)))
        errors = (problem(text) for name in _checks(cls) for text in getattr(section, name)())
        if details := [InitErrorDetails(type=error, input=values) for error in errors]:
            raise ValidationError.from_exception_data(cls.__name__, details)
        return section


def problem(text: str) -> PydanticCustomError:
    """Return an error of several fields together, whose text may begin with the key; see `check`."""
    # As an argument, so that braces in the text are not read as placeholders.
    return PydanticCustomError("problem", "{text}", {"text": printable(text)})


def repeats(name: str, values: Sequence[Any]) -> Iterator[str]:
    """Yield the error of a list that has a name or a number twice; the remedy included."""
    plain = [value for value in values if isinstance(value, str | int | float)]
    if twice := [str(value) for value, count in Counter(plain).items() if count > 1]:
        yield f"{name} = {values} names {', '.join(twice)} twice. Name each once"


def references(section: BaseModel, *place: str) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield each name in a section, and in those inside it, that refers to entries: its place, it, their sections."""
    for key, field in type(section).model_fields.items():
        value = getattr(section, key)
        for found in dict.fromkeys(_names(value, field.annotation, field.metadata)):
            yield ".".join([*place, key]), *found
        for name, entry in (value if isinstance(value, dict) else {None: value}).items():
            if isinstance(entry, BaseModel):
                yield from references(entry, *place, key, *filter(None, [name]))


def _names(value: Any, kind: Any, marks: Iterable[Any] = ()) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the names in a value of a type, each with the sections that it refers to."""
    origin, parts = get_origin(kind), get_args(kind)
    if isinstance(value, str):
        yield from ((value, mark.sections) for mark in marks if isinstance(mark, Reference))
    if origin is Annotated:
        yield from _names(value, parts[0], parts[1:])
    elif origin in (Union, UnionType):
        yield from (name for part in parts for name in _names(value, part))
    elif origin in (list, dict) and isinstance(value, origin):
        yield from (name for each in value for name in _names(each, parts[0]))


def known(name: str, names: Iterable[str]) -> str:
    """Return the end of a message about a name that is not one of `names`: the nearest of them, and all."""
    nearest = difflib.get_close_matches(name, names := list(names), n=1)
    meant = f"Did you mean '{nearest[0]}'? " if nearest else ""
    return f"{meant}Known: {', '.join(names) or 'none'}"


def overlaid(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return `below` with `above` laid over it: sections are merged, at any depth; lists and values are replaced."""
    result = dict(below)
    for key, value in above.items():
        both = isinstance(value, Mapping) and isinstance(result.get(key), Mapping)
        result[key] = overlaid(result[key], value) if both else value
    return result


NOT_SET = "not set"


def differences(before: Mapping[str, Any], now: Mapping[str, Any], place: str = "") -> dict[str, tuple[Any, Any]]:
    """Return the settings that differ, before and now, by dotted name; `NOT_SET` where there is none."""
    found: dict[str, tuple[Any, Any]] = {}
    for name in [*now, *(name for name in before if name not in now)]:
        old, new = before.get(name, NOT_SET), now.get(name, NOT_SET)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            found |= differences(old, new, f"{place}{name}.")
        elif old != new:
            found[f"{place}{name}"] = (old, new)
    return found


def without_null(section: type[BaseModel], values: Any) -> Any:
    """Return the values of a section without its mappings that are null, and without their entries that are null.

    So a file can remove entries of the file that it extends. Null stays where the type includes it.
    """
    if not isinstance(values, dict):
        return values
    kept = dict(values)
    for name, entries_may_be_null in _mappings(section).items():
        if name in kept and kept[name] is None:
            del kept[name]
        elif isinstance(kept.get(name), dict) and not entries_may_be_null:
            kept[name] = {key: entry for key, entry in kept[name].items() if entry is not None}
    return kept


@functools.cache
def _mappings(section: type[BaseModel]) -> dict[str, bool]:
    """Return the fields that are mappings and not null, and whether their entries may be null."""
    types = {name: field.annotation for name, field in section.model_fields.items()}
    return {name: _may_be_null(get_args(kind)[-1]) for name, kind in types.items() if get_origin(kind) is dict}


def _may_be_null(kind: Any) -> bool:
    parts = get_args(kind) if get_origin(kind) in (Annotated, Union, UnionType) else ()
    return kind in (Any, NoneType) or any(map(_may_be_null, parts))


def describe(error: ValidationError, origin: Callable[[tuple[str, ...]], str] = ".".join) -> str:
    """Describe all validation errors, one per line: the key, the error, the remedy.

    Args:
        error: the validation error.
        origin: returns the displayed place of an error, for instance with the file of the key.
    """
    lines = [f"{origin(place) or 'settings'}: {sentence}." for place, sentence in sentences(error)]
    return "the configuration has problems:\n- " + "\n- ".join(dict.fromkeys(lines))


def sentences(error: ValidationError) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the key and the message of every validation error, without the final full stop."""
    for detail in error.errors():
        place, message = tuple(str(part) for part in detail["loc"]), detail["msg"]
        if detail["type"] == "problem" and (match := _PLACE.match(message)):
            place, message = (*place, *match[1].split(".")), message[match.end() :]
        is_key = place[-1:] == ("[key]",) or detail["type"] == "invalid_key"
        place = place[:-1] if place[-1:] == ("[key]",) else place
        if is_key and not isinstance(detail["input"], str):
            key = detail["input"]  # of true, the place is 1
            kind = {"bool": "true or false", "NoneType": "null"}.get(type(key).__name__, "a number")
            yield (*place[:-1], str(key)), f"YAML reads this key as {kind}, but names are texts. Put it in quotes"
        elif detail["type"] == "extra_forbidden":
            yield place, "unknown key. Remove it or correct its spelling (config/README.md lists the keys)"
        elif detail["type"] == "missing":
            yield place, "missing. Add it (config/README.md describes it)"
        else:
            if detail["type"] == "string_pattern_mismatch":
                message = PATTERNS.get(detail["ctx"]["pattern"], message)
            message = MESSAGES.get(detail["type"], message)
            message = message.removeprefix("Value error, ").rstrip(".")
            found = detail["input"]
            is_complete = isinstance(found, dict | list) or detail["type"] == "problem"
            yield place, message if is_complete else f"{message}. Found {cut(repr(found), MOST_OF_VALUE)}"


@functools.cache
def _checks(section: type[BaseSettings]) -> list[str]:
    return [name for name in dir(section) if getattr(getattr(section, name, None), "is_check", False)]
