"""Settings that a stage searches, by dotted names (`recipe.freeze_layers`): spelling and application."""

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from lib.core.settings import MOST, BaseSettings, BoundedFloat, WholeNumber, check


def _bounded(value: Any) -> Any:
    """Return a finite number within the bounds; refuse anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not -MOST <= value <= MOST:
        raise ValueError(f"expected a finite number from {-MOST} to {MOST}, without quotes")
    return value


Setting = bool | int | float | str | None
Number = Annotated[WholeNumber | BoundedFloat, BeforeValidator(_bounded)]

VariedSetting = Annotated[str, Field(pattern=r"^(task|recipe)\.\w+$")]
"""Dotted name of a setting of a stage's task or recipe."""


def variant_name(settings: Mapping[str, Setting]) -> str:
    """Return the name of a variant in paths, independent of the order of its settings: `freeze_layers-2+epochs-4`.

    Settings are sorted by their dotted names; without settings the name is empty.
    """
    return "+".join(f"{short_name(place)}-{spelled(value)}" for place, value in sorted(settings.items()))


def short_name(place: str) -> str:
    """Return the last part of a dotted name: `recipe.freeze_layers` is `freeze_layers`."""
    return place.rpartition(".")[2]


def spelled(value: Setting) -> str:
    """Return a value as YAML spells it."""
    return value if isinstance(value, str) else json.dumps(value)


def laid_over(values: Mapping[str, Any], settings: Mapping[str, Setting]) -> dict[str, Any]:
    """Return `values` with the settings applied: `recipe.epochs` replaces `values["recipe"]["epochs"]`."""
    result = dict(values)
    for place, value in settings.items():
        section, _, name = place.partition(".")
        result[section] = {**(result.get(section) or {}), name: value}
    return result


UNROUND = (5**0.5 - 1) / 2
"""Position between two bounds of an example value that is not a round number."""


class Dimension(BaseSettings):
    """Values of a searched setting: one of `values`, or a number from `low` to `high`."""

    values: list[Setting] | None = Field(None, min_length=1)
    """Values to choose from, in any order."""
    low: Number | None = None
    """Lowest value. Without a decimal point, values are whole numbers."""
    high: Number | None = None
    """Highest value."""
    step: Number | None = None
    """Step between the values, counted from `low`; null = any value, or every whole number."""
    log: bool = False
    """Draw on a logarithmic scale, so that every decade is equally likely."""

    @property
    def whole(self) -> bool:
        """Whether its numbers are integers."""
        return all(isinstance(number, int) for number in (self.low, self.high, self.step or 1))

    def examples(self) -> list[Setting]:
        """Return representative values: those listed, or the bounds and one between them."""
        if self.low is None or self.high is None:
            return list(self.values or [])
        step = self.step or (1 if self.whole else None)
        if step is None:
            return [self.low, self.low + UNROUND * (self.high - self.low), self.high]
        last = self.low + (self.high - self.low) // step * step
        return list(dict.fromkeys([self.low, min(self.low + step, last), last]))

    @check
    def _values_or_bounds(self) -> Iterator[str]:
        bounds = [self.low, self.high, self.step]
        if self.values is not None:
            if self.log or bounds != [None] * 3:
                yield "values are combined with low, high, step or log. Give either values, or bounds"
            if len(set(map(spelled, self.values))) < len(self.values):
                yield f"values = {self.values} has a value twice. Give each once"
        elif None in bounds[:2]:
            yield "expected values, or both low and high. Give either of them"

    @check
    def _bounds_are_in_order(self) -> Iterator[str]:
        if self.low is None or self.high is None:
            return
        if self.low >= self.high:
            yield f"low = {self.low} is not below high = {self.high}. Exchange them, or set the value in the stage"
        elif self.step is not None and not 0 < self.step <= self.high - self.low:
            yield f"step = {self.step} does not fit between low = {self.low} and high = {self.high}. Choose another"
        if self.log and self.low <= 0:
            yield f"low = {self.low} has no logarithm. Raise it above 0, or leave log out"
        if self.log and self.step is not None:
            yield f"step = {self.step} is combined with log: true. Leave one of them out, or list values"
