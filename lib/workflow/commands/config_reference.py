"""The reference of every configuration key: config/README.md and config/schema.json, made from the typed settings.

The prose is in `config_reference.md` in the same folder.
"""

import json
import types
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic.json_schema import models_json_schema

from lib.analysis.settings import ANALYSES
from lib.attention.settings import MECHANISMS
from lib.backbones.settings import BACKBONES
from lib.core.extensions import SHIPPED, shipped, use
from lib.core.files import write_text
from lib.core.kinds import Axis, KindSettings
from lib.preparing.generators import GeneratorOptions, generators, options_class
from lib.preparing.settings.sources import GeneratedSource
from lib.results.settings import FIGURES, TABLES
from lib.study.configuration import EXTENDS
from lib.study.run import RunSettings
from lib.study.stages import Change, Stage, Work
from lib.study.study import Study
from lib.tasks.settings import TASKS

TEMPLATE = Path(__file__).with_suffix(".md")
STUDY_KEYS, RUN_KEYS = "<!-- keys of a study -->", "<!-- keys of a run -->"

AXES: dict[type[BaseModel], Axis[Any]] = {
    axis.base: axis for axis in (MECHANISMS, BACKBONES, TASKS, TABLES, FIGURES, ANALYSES)
}
SHARED = ("task", "recipe")
"""Keys of a stage that are laid below those of each entry of its `data`; a model may change them."""
PLACEHOLDERS = {"data": "<dataset>", "files": "<part>", "ground_truth": "<part>", "changes": "<stage>"}
"""What the user's own names are called below these keys; `<name>` elsewhere."""

Places = dict[type[BaseModel], list[str]]
"""Where a section may stand, by its class; the first place is the one that describes it."""


def config_readme() -> str:
    """Return the text of `config/README.md`."""
    use(shipped())
    places: Places = {}
    _collect(Study, "", "", places)
    in_studies = list(places)
    _collect(RunSettings, "", "run: ", places)
    in_runs = [section for section in places if section not in in_studies]
    text = TEMPLATE.read_text(encoding="utf-8")
    for placeholder, sections in ((STUDY_KEYS, in_studies), (RUN_KEYS, in_runs)):
        text = text.replace(placeholder, "\n\n".join(_table(section, places) for section in sections))
    return text


def config_schema() -> str:
    """Return the text of `config/schema.json`.

    Nothing is required in it, since a file that extends another one holds only what differs.
    """
    use(shipped())
    kinds = [axis.settings(kind) for axis in AXES.values() for kind in axis.kinds()]
    options = _kinds(GeneratorOptions)
    sections: list[type[BaseModel]] = [Study, *AXES, *kinds, *options]
    references, schema = models_json_schema(
        [(section, "validation") for section in sections], ref_template="#/$defs/{model}"
    )
    definitions = schema["$defs"]
    spelled = {section: reference for (section, _), reference in references.items()}
    for base, axis in AXES.items():
        of_axis = [spelled[axis.settings(kind)] for kind in axis.kinds()]
        definitions[_name(spelled[base])] = {"anyOf": of_axis, "description": f"Any {axis.noun}."}
    for definition in definitions.values():
        for field in definition.get("properties", {}).values():
            _let_null_remove(field)
    stage, change, work = (definitions[section.__name__]["properties"] for section in (Stage, Change, Work))
    for section in (stage, change):
        section.update({key: {**work[key], "description": section[key]["description"]} for key in SHARED})
    generated = definitions[GeneratedSource.__name__]["properties"]["options"]
    del generated["additionalProperties"]
    generated["anyOf"] = [spelled[section] for section in options]
    study = definitions.pop(Study.__name__)
    study["properties"]["report"] = {"anyOf": [study["properties"]["report"], {"type": "null"}]}
    study["properties"][EXTENDS] = {"type": "string", "description": "File that this one is laid over."}
    return json.dumps(_lean({**study, "$defs": definitions}), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def write_reference(folder: str | Path) -> None:
    """Write README.md and schema.json to `folder`."""
    write_text(Path(folder) / "README.md", config_readme())
    write_text(Path(folder) / "schema.json", config_schema())


def _collect(section: type[BaseModel], place: str, prefix: str, places: Places) -> None:
    """Add every section below `section` to `places`, depth first."""
    if place or prefix:
        places.setdefault(section, []).append(prefix + (place or "config.yaml"))
    for name, field in _fields(section).items():
        found = _nested(field.annotation)
        alone = [section for section, below in found if not below]
        for nested, below in found:
            if below == "[]" and nested in alone:  # one, or a list of such
                continue
            key = below.replace("<>", PLACEHOLDERS.get(name, "<name>"))
            below_it = f"{place}.{name}{key}" if place else f"{name}{key}"
            for described in _kinds(nested):
                _collect(described, below_it, prefix, places)


def _fields(section: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return the fields of a section; those that a stage shares have the types of what they are laid below.

    Options of generators, which are checked once the generator is known, have the base of their types.
    """
    fields = dict(section.model_fields)
    if section is GeneratedSource:
        fields["options"] = FieldInfo.merge_field_infos(fields["options"], annotation=GeneratorOptions)
    for name in SHARED if section in (Stage, Change) else ():
        fields[name] = FieldInfo.merge_field_infos(Work.model_fields[name], description=fields[name].description)
    return fields


def _kinds(section: type[BaseModel]) -> list[type[BaseModel]]:
    """Return the possible sections for `section`: those of all kinds, if it is the base of an axis."""
    if section is GeneratorOptions:
        return [options for name in generators() if (options := options_class(name)) is not section]
    axis = AXES.get(section)
    return [axis.settings(kind) for kind in axis.kinds()] if axis else [section]


def _nested(annotation: Any) -> list[tuple[type[BaseModel], str]]:
    """Return the sections in a type, each with the path between key and section: `.<>` for a name, `[]` for a list."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [(annotation, "")]
    if origin in (typing.Union, types.UnionType):
        return [found for argument in arguments for found in _nested(argument)]
    if origin is typing.Annotated:
        return _nested(arguments[0])
    if origin in (dict, list):
        between = {dict: ".<>", list: "[]"}[origin]
        return [(section, between + below) for section, below in _nested(arguments[-1])]
    return []


def _table(section: type[BaseModel], places: Places) -> str:
    first, *others = places[section]
    kind = typing.get_args(section.model_fields["kind"].annotation) if issubclass(section, KindSettings) else ()
    heading = f"### `{first.removeprefix('run: ')}`" + (f" with `kind: {kind[0]}`" if kind else "")
    if issubclass(section, GeneratorOptions):
        heading += f" with `generator: {section.__module__.rpartition('.')[2]}`"
    lines = [heading, "", _summary(section)]
    if others:
        lines += ["", "Also: " + ", ".join(_quoted(place) for place in dict.fromkeys(others)) + "."]
    lines += ["", "| key | type | default | meaning |", "| --- | --- | --- | --- |"]
    for name, field in _fields(section).items():
        default = "the stage's" if section is Work and name in SHARED else _default(field)
        meaning = "The kind." if name == "kind" and kind else _meaning(field, places)
        lines.append(f"| `{name}` | {_cell(_type(field))} | {_cell(default)} | {_cell(meaning)} |")
    return "\n".join(lines)


def _summary(section: type[BaseModel]) -> str:
    house, *place = section.__module__.split(".")
    extension = f" Of the extension `{house}/{place[0]}`." if house == SHIPPED else ""
    return (section.__doc__ or "").strip().splitlines()[0] + extension


def _quoted(place: str) -> str:
    return f"`{place.removeprefix('run: ')}` of a run" if place.startswith("run: ") else f"`{place}`"


def _type(field: FieldInfo) -> str:
    if not (nested := _nested(field.annotation)):
        return f"`{_spelled(field.annotation)}{_bounds(field.metadata)}`"
    section, below = nested[-1]
    noun = "kind" if section in AXES else "section"
    found = {"": noun, ".<>": f"{noun}s by name"}.get(below, f"lists of {noun}s by part")
    if below == "[]" and (section, "") in nested:
        found = f"{noun} or list of {noun}s"
    words = [_spelled(part) for part in typing.get_args(field.annotation) if typing.get_origin(part) is typing.Literal]
    return " or ".join([*(f"`{word}`" for word in words), found])


def _spelled(annotation: Any) -> str:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _spelled(arguments[0]) + _bounds(arguments[1:])
    if origin is typing.Literal:
        return ", ".join(str(argument) for argument in arguments)
    if origin in (typing.Union, types.UnionType):
        return " | ".join("null" if argument is type(None) else _spelled(argument) for argument in arguments)
    if origin in (list, dict):
        entries = _spelled(arguments[-1])
        return f"{'list' if origin is list else 'mapping'} of {f'({entries})' if ' | ' in entries else entries}"
    names = {Any: "any value", str: "text", int: "integer", float: "number", bool: "true, false"}
    return names.get(annotation, getattr(annotation, "__name__", str(annotation)))


def _bounds(metadata: Iterable[Any]) -> str:
    """Return how the bounds among a type's metadata read behind the type."""
    flat = [part for entry in metadata for part in getattr(entry, "metadata", [entry])]
    signs = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}
    found = [f"{sign} {getattr(part, name)}" for part in flat for name, sign in signs.items() if hasattr(part, name)]
    return f" {' and '.join(found)}" if found else ""


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True, validated_data={})
    return "" if isinstance(value, BaseModel) else f"`{json.dumps(value)}`"


def _meaning(field: FieldInfo, places: Places) -> str:
    """Return what a key means; of a section, also which heading lists its keys."""
    nested = _nested(field.annotation)
    if not nested:
        return field.description or ""
    section, _ = nested[-1]
    described = _kinds(section)
    text = field.description or _summary(section)
    if section in AXES:
        text += f" Kinds: {', '.join(f'`{kind}`' for kind in AXES[section].kinds())}."
    return f"{text} Keys: `{places[described[0]][0].removeprefix('run: ')}`."


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _let_null_remove(field: dict[str, Any]) -> None:
    """Let a field be null if it is a mapping, and its entries, too."""
    if field.get("type") != "object":
        return
    field["type"] = ["object", "null"]
    patterns, null = field.get("patternProperties", {}), {"type": "null"}
    for entries, key in [*((patterns, key) for key in patterns), (field, "additionalProperties")]:
        if isinstance(values := entries.get(key), dict) and null not in values.get("anyOf", ()):
            entries[key] = {"anyOf": [values, null]}


def _name(reference: Mapping[str, Any]) -> str:
    return str(reference["$ref"]).rpartition("/")[2]


def _lean(schema: Any, names: bool = False) -> Any:
    """Return a schema without titles, requirements, and defaults that are sections.

    Args:
        schema: any part of it.
        names: whether its keys are names of the user's or of fields, which stay whatever they are.
    """
    if isinstance(schema, list):
        return [_lean(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    dropped = () if names else ("title", "required", "discriminator")
    return {key: _lean(value, key in ("properties", "$defs")) for key, value in schema.items() if key not in dropped}
