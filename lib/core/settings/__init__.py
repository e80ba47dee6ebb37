"""The typed configuration, one module a subject. Field descriptions are the reference of every key."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError


class Section(BaseModel):
    """Base of every section of the configuration: unknown keys are errors, values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


Fraction = Annotated[float, Field(ge=0, le=1)]
Probability = Annotated[float, Field(ge=0, lt=1)]


def describe(error: ValidationError) -> str:
    """Return every problem that validation found, one a line: the key, what is wrong, what to do."""
    lines = []
    for problem in error.errors():
        place = ".".join(str(part) for part in problem["loc"]) or "settings"
        if problem["type"] == "extra_forbidden":
            lines.append(f"{place}: unknown key. Remove it or mend its spelling (config/README.md lists the keys).")
        elif problem["type"] == "missing":
            lines.append(f"{place}: missing. Add it (config/README.md describes it).")
        else:
            message = problem["msg"].removeprefix("Value error, ").rstrip(".")
            found = problem["input"]
            shown = "" if isinstance(found, dict | list) else f" Found {found!r}."
            lines.append(f"{place}: {message}.{shown}")
    return "the configuration has problems:\n- " + "\n- ".join(lines)
