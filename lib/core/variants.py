"""Variants: the combinations of settings that a stage searches, by their dotted names (`recipe.freeze_layers`)."""

import json
from collections.abc import Mapping
from typing import Any

Setting = bool | int | float | str | None


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
