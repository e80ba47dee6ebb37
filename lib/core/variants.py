"""Settings that a stage searches, by dotted names (`recipe.freeze_layers`): how they are written and laid over."""

import json
import math
import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field


def _number(value: Any) -> Any:
    """Return the number that a text like `1e-5` stands for: YAML wants a dot and a sign to take it for a number."""
    is_number = isinstance(value, str) and re.fullmatch(r"[+-]?\d+(\.\d*)?[eE][+-]?\d+", value)
    return float(value) if is_number else value


def _finite(value: Any) -> Any:
    """Return a number as it is, or the one that a text stands for; anything else is refused."""
    value = _number(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError("expected a finite number")
    return value


Setting = Annotated[bool | int | float | str | None, BeforeValidator(_number)]
Number = Annotated[int | float, BeforeValidator(_finite)]

VariedSetting = Annotated[str, Field(pattern=r"^(task|recipe)\.\w+$")]
"""Dotted name of a setting of a stage's task or recipe."""


def variant_name(settings: Mapping[str, Setting]) -> str:
    """Return what a variant is called in paths, whatever the order of its settings: `freeze_layers-2+epochs-4`.

    Settings go by their dotted names; without any the name is empty.
    """
    parts = (f"{short_name(place)}-{spelled(value)}" for place, value in sorted(settings.items()))
    return "+".join(parts)


def short_name(place: str) -> str:
    """Return the last part of a dotted name: `recipe.freeze_layers` is `freeze_layers`."""
    return place.rpartition(".")[2]


def spelled(value: Setting) -> str:
    """Return a value as YAML has it."""
    return value if isinstance(value, str) else json.dumps(value)


def laid_over(values: Mapping[str, Any], settings: Mapping[str, Setting]) -> dict[str, Any]:
    """Return `values` with settings in the place of their own: `recipe.epochs` is `values["recipe"]["epochs"]`."""
    result = dict(values)
    for place, value in settings.items():
        section, _, name = place.partition(".")
        result[section] = {**(result.get(section) or {}), name: value}
    return result
