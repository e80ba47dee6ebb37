"""The reference of every configuration key: config/README.md and config/schema.json, made from the typed settings.

The prose is in `config_reference.md` in the same folder.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from lib.analysis.settings import ANALYSES
from lib.attention.settings import MECHANISMS
from lib.backbones.settings import BACKBONES
from lib.core.extensions import SHIPPED, shipped, use
from lib.core.files import write_text
from lib.core.kinds import Axis
from lib.preparing.generators import GeneratorOptions, generators, options_class
from lib.results.settings import FIGURES, TABLES
from lib.study.configuration import EXTENDS
from lib.study.run import RunSettings
from lib.study.study import Study
from lib.tasks.settings import TASKS

TEMPLATE = Path(__file__).with_suffix(".md")
STUDY_KEYS, RUN_KEYS = "<!-- keys of a study -->", "<!-- keys of a run -->"

AXES: tuple[Axis[Any], ...] = (MECHANISMS, BACKBONES, TASKS, TABLES, FIGURES, ANALYSES)
SHARED = ("task", "recipe")
"""Keys of a stage that are laid below those of each entry of its `data`; a model may change them."""
PLACEHOLDERS = {"data": "<dataset>", "files": "<part>", "ground_truth": "<part>", "changes": "<stage>"}
"""What the user's own names are called below these keys; `<name>` elsewhere."""
SIGNS = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
TYPES = {"string": "text", "boolean": "true, false", "array": "list", "object": "mapping"}
"""What types of JSON are called; the others have their own names."""
OF_A_RUN = " of a run"

NULL = {"type": "null"}

Schema = dict[str, Any]


class Reference:
    """All settings of studies and runs, those of all shipped kinds too, as JSON schemas.

    Attributes:
        definitions: sections by name; for a section of one of several kinds, the alternatives.
        kinds: the kind of each section that is of one, and the key that names it.
        places: where a section may stand, in studies first; the first place is the one that describes it.
        in_studies: the sections of studies.
    """

    def __init__(self) -> None:
        use(shipped())
        options = [(name, options_class(name)) for name in generators()]
        kinds: dict[type[BaseModel], tuple[str, str]] = {
            section: ("generator", name) for name, section in options if section is not GeneratorOptions
        }
        able: dict[type[BaseModel], tuple[str, list[type[BaseModel]]]] = {GeneratorOptions: ("options", list(kinds))}
        for axis in AXES:
            able[axis.base] = axis.noun, [axis.settings(kind) for kind in axis.kinds()]
            kinds |= {axis.settings(kind): ("kind", kind) for kind in axis.kinds()}
        sections: list[type[BaseModel]] = [Study, RunSettings, *able, *kinds]
        references, schema = models_json_schema([(section, "validation") for section in sections])
        place_of = {section: reference for (section, _), reference in references.items()}
        self.definitions: dict[str, Schema] = schema["$defs"]
        for definition in self.definitions.values():
            for field in definition.get("properties", {}).values():
                if "description" in field:
                    field["description"] = " ".join(field["description"].split())  # docstrings have several lines
        self.kinds = {_name(place_of[section]): kind for section, kind in kinds.items()}
        for section in kinds:
            house, place, *_ = section.__module__.split(".")
            if house == SHIPPED:
                definition = self.definitions[_name(place_of[section])]
                first, *rest = definition["description"].split("\n")
                definition["description"] = "\n".join([f"{first} Of the extension `{house}/{place}`.", *rest])
        for base, (noun, ways) in able.items():
            alternatives = [place_of[section] for section in ways]
            self.definitions[_name(place_of[base])] = {"anyOf": alternatives, "description": f"Any {noun}."}
        stage, change, work = (self.definitions[name]["properties"] for name in ("Stage", "Change", "Work"))
        for each in (stage, change):
            each.update({key: {**work[key], "description": each[key]["description"]} for key in SHARED})
        generated = self.definitions["GeneratedSource"]["properties"]
        generated["options"] = generated["options"] | {"anyOf": [place_of[GeneratorOptions]]}
        self.places: dict[str, list[str]] = {}
        self._collect(Study.__name__, "", "")
        del self.places[Study.__name__]  # its keys are in the template
        self.in_studies = list(self.places)
        self._collect(RunSettings.__name__, "", OF_A_RUN)

    def able(self, name: str) -> list[str]:
        """Return the possible sections where one named so may stand: those of all kinds, if it is their base."""
        return [_name(each) for each in self.definitions[name].get("anyOf", ())] or [name]

    def summary(self, name: str) -> str:
        """Return the first line that describes a section."""
        return str(self.definitions[name].get("description", "")).partition("\n")[0]

    def _collect(self, name: str, place: str, suffix: str) -> None:
        """Add every section at or below a place to `places`, depth first."""
        for section in self.able(name):
            self.places.setdefault(section, []).append(f"`{place or 'config.yaml'}`{suffix}")
            for key, field in self.definitions[section]["properties"].items():
                found = list(nested(field))
                for each, below in found:
                    if below == "[]" and (each, "") in found:  # one, or a list of such
                        continue
                    path = key + below.replace("<>", PLACEHOLDERS.get(key, "<name>"))
                    self._collect(each, f"{place}.{path}" if place else path, suffix)

    def table(self, name: str) -> str:
        """Return the heading of a section and the table of its keys."""
        first, *others = self.places[name]
        kind = f" with `{': '.join(self.kinds[name])}`" if name in self.kinds else ""
        lines = [f"### {first.removesuffix(OF_A_RUN)}{kind}", "", self.summary(name)]
        if others:
            lines += ["", f"Also: {', '.join(dict.fromkeys(others))}."]
        lines += ["", "| key | type | default | meaning |", "| --- | --- | --- | --- |"]
        required = self.definitions[name].get("required", ())
        for key, field in self.definitions[name]["properties"].items():
            default = "required" if key in required else _default(field)
            if name == "Work" and key in SHARED:
                default = "the stage's"
            cells = [f"`{_spelled(field)}`", default, self._meaning(field)]
            lines.append(" | ".join([f"| `{key}`", *(cell.replace("|", "\\|") for cell in cells)]) + " |")
        return "\n".join(lines)

    def _meaning(self, field: Schema) -> str:
        """Return what a key means; of a section, also which heading lists its keys."""
        text = field.get("description", "The kind." if "const" in field else "")
        for section in {each: None for each, _ in nested(field)}:
            able = self.able(section)
            text = text or self.summary(section)
            named = (self.kinds.get(each, ("", "")) for each in able)
            if kinds := [f"`{name}`" for key, name in named if key == "kind"]:
                text += f" Kinds: {', '.join(kinds)}."
            text += f" Keys: {self.places[able[0]][0].removesuffix(OF_A_RUN)}."
        return str(text)


def config_readme() -> str:
    """Return the text of `config/README.md`."""
    reference = Reference()
    in_runs = [section for section in reference.places if section not in reference.in_studies]
    text = TEMPLATE.read_text(encoding="utf-8")
    for placeholder, sections in ((STUDY_KEYS, reference.in_studies), (RUN_KEYS, in_runs)):
        text = text.replace(placeholder, "\n\n".join(map(reference.table, sections)))
    return text


def config_schema() -> str:
    """Return the text of `config/schema.json`.

    Nothing is required in it, since a file that extends another one holds only what differs.
    """
    definitions = Reference().definitions
    del definitions[RunSettings.__name__]
    for definition in definitions.values():
        for unused in ("title", "required"):
            definition.pop(unused, None)
        for field in definition.get("properties", {}).values():
            field.pop("title", None)
            _let_null_remove(field)
    study = definitions.pop(Study.__name__)
    study["properties"]["report"] = {"anyOf": [study["properties"]["report"], NULL]}
    study["properties"][EXTENDS] = {"type": "string", "description": "File that this one is laid over."}
    return json.dumps({**study, "$defs": definitions}, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def write_reference(folder: str | Path) -> None:
    """Write README.md and schema.json to `folder`."""
    write_text(Path(folder) / "README.md", config_readme())
    write_text(Path(folder) / "schema.json", config_schema())


def nested(schema: Schema, below: str = "") -> Iterator[tuple[str, str]]:
    """Yield the sections in a field, each with the path between key and section: `.<>` for a name, `[]` for a list."""
    if "$ref" in schema:
        yield _name(schema), below
    for part in schema.get("anyOf", ()):
        yield from nested(part, below)
    for values in _entries(schema):
        yield from nested(values, f"{below}{'[]' if schema['type'] == 'array' else '.<>'}")


def _entries(schema: Schema) -> list[Schema]:
    """Return the schemas of the entries of a list or mapping."""
    found = [*schema.get("prefixItems", ()), schema.get("items"), schema.get("additionalProperties")]
    return [each for each in (*found, *schema.get("patternProperties", {}).values()) if isinstance(each, dict)]


def _spelled(schema: Schema) -> str:
    if "$ref" in schema:
        return "section"
    if "anyOf" in schema:
        return " | ".join(map(_spelled, schema["anyOf"]))
    if values := schema.get("enum", [schema["const"]] if "const" in schema else []):
        return ", ".join(map(str, values))
    kind = schema.get("type", "any value")
    if entries := " | ".join(dict.fromkeys(map(_spelled, _entries(schema)))):
        return f"{TYPES[kind]} of {f'({entries})' if ' | ' in entries else entries}"
    bounds = " and ".join(f"{sign} {schema[name]}" for name, sign in SIGNS.items() if name in schema)
    return f"{TYPES.get(kind, kind)} {bounds}".rstrip()


def _default(field: Schema) -> str:
    if "$ref" in field:
        return ""
    first, *_ = field.get("anyOf", [field])
    empty = {"array": "[]", "object": "{}"}.get(first.get("type"), "null")
    return f"`{json.dumps(field['default']) if 'default' in field else empty}`"


def _let_null_remove(field: Schema) -> None:
    """Let a field be null if it is a mapping, and its entries, too."""
    if field.get("type") != "object":
        return
    field["type"] = ["object", "null"]
    patterns = field.get("patternProperties", {})
    for entries, key in [*((patterns, key) for key in patterns), (field, "additionalProperties")]:
        if isinstance(values := entries.get(key), dict) and NULL not in values.get("anyOf", ()):
            entries[key] = {"anyOf": [values, NULL]}


def _name(reference: Schema) -> str:
    return str(reference["$ref"]).rpartition("/")[2]
