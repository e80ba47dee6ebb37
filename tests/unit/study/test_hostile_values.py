"""Whatever value stands at a key: it is what the key expects, or one short message says so."""

import json

from pydantic import ValidationError

from lib.core.settings import BaseSettings
from lib.workflow.commands.config_reference import config_schema

VALUES = [
    None, True, "yes", "5", "1_0", "0o17", "12:30:45", "2024-01-01", "1e3", "a\0b", "", " ", "\udc80", "n" * 300,
    "n" * 5000, "{stage:99999}", "{0..99999999}", "/dev/zero", 0, -1, 1, 3.0, 0.5, 2**31, 2**63, -(2**63), 10**30,
    10**400, 1e300, -1e300, float("inf"), float("-inf"), float("nan"), [], [[]],
    [None], {}, {"a": {}}, {1: 2}, {None: None},
]  # fmt: skip
LAID_OVER = ("Dimension.properties.values", "Stage.properties.variants", "NumberedLabels")
"""Values that lie over those of other keys, which have bounds; and one whose message is that of expansions."""


def test_number_of_any_setting_has_bounds():
    """Without one, a huge number ends in an overflow, or never, far from the key at which it stands."""
    without = []

    def visit(part, place):
        if isinstance(part, dict):
            low, high = ({"minimum", "exclusiveMinimum"}, {"maximum", "exclusiveMaximum"})
            bounded = low & part.keys() and high & part.keys()
            if part.get("type") in ("integer", "number") and not bounded and "enum" not in part:
                without.append(place)
            for key, value in part.items():
                visit(value, f"{place}.{key}")
        elif isinstance(part, list):
            for number, value in enumerate(part):
                visit(value, f"{place}.{number}")

    visit(json.loads(config_schema()), "")
    assert [place for place in without if not any(name in place for name in LAID_OVER)] == []


def sections(section=BaseSettings):
    for each in section.__subclasses__():
        yield each
        yield from sections(each)


def test_value_of_any_kind_is_kept_or_refused():
    config_schema()  # imports all of them
    found = set(sections())
    assert len(found) > 120
    for section in found:
        for name, field in section.model_fields.items():
            for value in VALUES:
                try:
                    result = section.model_validate({"kind": field.default, name: value})
                except ValidationError:
                    continue
                stored = getattr(result, name)
                if isinstance(stored, int | float | str) and isinstance(value, int | float | str):
                    assert stored == value
                    assert isinstance(stored, bool) == isinstance(value, bool), (section, name, value)
