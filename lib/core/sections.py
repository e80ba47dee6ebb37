"""The typed configuration, one module per subject. Field descriptions are the reference of every key."""

import functools
import re
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

Fraction = Annotated[float, Field(ge=0, le=1)]
Probability = Annotated[float, Field(ge=0, lt=1)]

Count = Annotated[int, Field(gt=0, le=10**9)]
"""Number of epochs, steps or documents. The bound is far above any use; beyond it, libraries overflow or never end."""
Seed = Annotated[int, Field(ge=0, lt=2**32)]
"""NumPy takes no larger one."""


def _distinct(seeds: list[int]) -> list[int]:
    if len(set(seeds)) < len(seeds):
        raise ValueError(f"seeds {seeds} repeat one, but a seed names one run. Name each once")
    return seeds


Seeds = Annotated[list[Seed], Field(min_length=1), AfterValidator(_distinct)]

# Names and folders become parts of paths and of commands.
NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
FOLDER = r"^[\w./][\w./+@=,:%-]*$"
REPOSITORY = r"^[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*$"
REVISION = r"^[A-Za-z0-9][A-Za-z0-9._/-]*$"
PATTERNS = {
    NAME: "expected letters, digits, '.', '_' and '-', the first one a letter or digit",
    FOLDER: "expected a path of letters, digits and the signs . / _ + @ = , : % -, without spaces, quotes or braces",
    REPOSITORY: "expected owner/name, each of letters, digits, '.', '_' and '-'",
    REVISION: "expected a commit, tag or branch: letters, digits, '.', '_', '/' and '-'",
}
"""What a text that does not match is told."""
Name = Annotated[str, Field(pattern=NAME, description="Letters, digits, '.', '_' and '-'.")]
Folder = Annotated[str, Field(pattern=FOLDER)]
Repository = Annotated[str, Field(pattern=REPOSITORY)]
Revision = Annotated[str, Field(pattern=REVISION)]

_ABSENT = object()
_PLACE = re.compile(r"([\w-]+(?:\.[\w-]+)*): ")


def check(method: Callable[[Any], Iterator[str]]) -> Callable[[Any], Iterator[str]]:
    """Mark a method of a section that yields what is wrong across its fields, one sentence per problem.

    A sentence may begin with the place that it is about, as seen from the section: `models.sdpa: ...`.
    """
    method.is_check = True  # type: ignore[attr-defined]
    return method


class Section(BaseModel):
    """Base of every section of the configuration: unknown keys are errors, values do not change.

    Methods marked with `check` run even if some fields are wrong, on the fields that are right, so that one message
    holds all problems.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def prepared(cls, values: Any) -> Any:
        """Return the values that are validated in place of `values`."""
        return values

    @model_validator(mode="wrap")
    @classmethod
    def _with_all_problems(cls, values: Any, handler: Callable[[Any], "Section"]) -> "Section":
        if isinstance(values, Section):
            return handler(values)
        values = cls.prepared(values)
        problems: list[InitErrorDetails] = []
        try:
            section = handler(values)
        except ValidationError as error:
            problems = [_again(details) for details in error.errors()]
            section = _as_far_as_valid(cls, values)
        unfinished: list[Exception] = []
        for name in _checks(cls) if isinstance(values, dict) else []:
            try:
                for text in getattr(section, name)():
                    problems.append(_problem(text, values))
            except Exception as error:  # it asked for what is wrong itself
                unfinished.append(error)
        if problems:
            raise ValidationError.from_exception_data(cls.__name__, problems)
        if unfinished:
            raise unfinished[0]
        return section


def without_null(values: Any, *sections: str) -> Any:
    """Return `values` without the entries of `sections` that are null."""
    if not isinstance(values, dict):
        return values
    kept = {
        section: {name: entry for name, entry in values[section].items() if entry is not None}
        for section in sections
        if isinstance(values.get(section), dict)
    }
    return values | kept


Answer = TypeVar("Answer")


def remembered(method: Callable[..., Answer]) -> Callable[..., Answer]:
    """Decorate a method of a section, whose answer depends on the section and the arguments alone, to work it out once.

    An answer is kept with the section, which is never copied, and must not be changed.
    """

    @functools.wraps(method)
    def answer(self: Section, *arguments: Any) -> Answer:
        answers = self.__dict__.setdefault("answers of methods", {})
        question = (method.__name__, *arguments)
        if question not in answers:
            answers[question] = method(self, *arguments)
        return answers[question]

    return answer


Entry = TypeVar("Entry", bound=Section)


def whole(entries: Mapping[str, Entry]) -> dict[str, Entry]:
    """Return those of `entries` that have no wrong field, for checks that run although some have."""
    return {
        name: entry
        for name, entry in entries.items()
        if type(entry) is not Section and set(type(entry).model_fields) <= set(entry.__dict__)
    }


def describe(error: ValidationError, origin: Callable[[tuple[str, ...]], str] = ".".join) -> str:
    """Return every problem that validation found, one per line: the key, what is wrong, what to do.

    Args:
        error: what validation raised.
        origin: returns how the place of a problem is written, for instance with the file that the key stands in.
    """
    lines = [f"{origin(place) or 'settings'}: {sentence}." for place, sentence in sentences(error)]
    return "the configuration has problems:\n- " + "\n- ".join(dict.fromkeys(lines))


def sentences(error: ValidationError) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the place of every problem that validation found, and what is wrong there, without the last full stop."""
    for problem in error.errors():
        place, message = tuple(str(part) for part in problem["loc"]), problem["msg"]
        if problem["type"] == "problem" and (match := _PLACE.match(message)):
            place, message = (*place, *match[1].split(".")), message[match.end() :]
        if problem["type"] == "extra_forbidden":
            yield place, "unknown key. Remove it or correct its spelling (config/README.md lists the keys)"
        elif problem["type"] == "missing":
            yield place, "missing. Add it (config/README.md describes it)"
        else:
            if problem["type"] == "string_pattern_mismatch":
                message = PATTERNS.get(problem["ctx"]["pattern"], message)
            message = message.removeprefix("Value error, ").rstrip(".")
            found = problem["input"]
            silent = isinstance(found, dict | list) or problem["type"] == "problem"
            yield place, message if silent else f"{message}. Found {found!r}"


@functools.cache
def _checks(section: type[Section]) -> list[str]:
    return [name for name in dir(section) if getattr(getattr(section, name, None), "is_check", False)]


def _problem(text: str, values: Any) -> InitErrorDetails:
    # As an argument, so that braces in the text are not taken for a template's.
    return InitErrorDetails(type=PydanticCustomError("problem", "{text}", {"text": text}), input=values)


def _again(details: Any) -> InitErrorDetails:
    """Return a problem that another validation found, in the form that an error is made from."""
    kind = details["type"]
    if kind == "problem":
        kind = PydanticCustomError("problem", "{text}", details["ctx"])
    return InitErrorDetails(type=kind, loc=details["loc"], input=details["input"], ctx=details.get("ctx", {}))


def _as_far_as_valid(section: type[Section], values: Any) -> Section:
    """Return a section that has only those of its fields that are right; asking for another raises AttributeError."""
    given = values if isinstance(values, dict) else {}
    built = section.model_construct()
    for name, field in section.model_fields.items():
        if name in given:
            value = _valid_part(field.annotation, field.metadata, given[name])
            built.__dict__.pop(name, None)
            if value is not _ABSENT:
                built.__dict__[name] = value
    return built


def _valid_part(annotation: Any, metadata: list[Any], value: Any) -> Any:
    try:
        return TypeAdapter(Annotated[annotation, *metadata] if metadata else annotation).validate_python(value)
    except ValidationError:
        arguments = typing.get_args(annotation)
        if isinstance(annotation, type) and issubclass(annotation, Section) and isinstance(value, dict):
            return _as_far_as_valid(annotation, annotation.prepared(value))
        if typing.get_origin(annotation) is dict and isinstance(value, dict):
            parts = {key: _valid_part(arguments[1], [], part) for key, part in value.items()}
            entry = typing.get_args(arguments[1])[0] if typing.get_origin(arguments[1]) is Annotated else arguments[1]
            if _ABSENT in parts.values() and not (isinstance(entry, type) and issubclass(entry, Section)):
                return _ABSENT
            # A wrong entry is there all the same, so that whoever names it is not told that it is unknown.
            return {key: Section.model_construct() if part is _ABSENT else part for key, part in parts.items()}
        return _ABSENT
