"""What follows from the name of a published model: a backbone with its architecture, a tokeniser, first weights."""

import json
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from lib.backbones.parameters import BACKBONES
from lib.core.errors import DownloadError
from lib.core.weights import ForeignStart

KIND = "pretrained"
CONFIG = "config.json"


def with_published(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values of an experiment in which every published model has the entries that follow from it.

    The backbone, the tokeniser and the models' settings that the configuration gives itself stay. A model on such a
    backbone reads by its tokeniser and starts from its weights, unless it names others.

    Raises:
        PydanticCustomError: the model's `config.json` cannot be read, or describes no model of a known family.
    """
    published = values.get("published")
    if not isinstance(published, dict):
        return values
    backbones, tokenizers, models = ({**(values.get(key) or {})} for key in ("backbones", "tokenizers", "models"))
    for name, entry in published.items():
        try:
            place = ForeignStart.model_validate(entry).model_dump(exclude_unset=True)
        except ValidationError:
            continue  # the field itself says so
        backbone = {"kind": KIND, **(backbones.get(name) or {})}
        if "architecture" not in backbone:
            fields, rules = _config(name, place), BACKBONES.load(KIND, "fields")
            if problem := rules.problem_of(fields):
                raise PydanticCustomError("problem", "{text}", {"text": f"published.{name}: its {CONFIG} {problem}"})
            backbone["architecture"] = rules.architecture_of(fields)
        backbones[name] = backbone
        hub = {"source": "hub", **place}
        local = {"source": "local", "path": place.get("folder")}
        tokenizers.setdefault(name, {"algorithm": "published", **(local if "folder" in place else hub)})
        for model, settings in models.items():
            if isinstance(settings, dict) and settings.get("backbone") == name:
                models[model] = {"tokenizer": name, "start": place, **settings}
    return values | {"backbones": backbones, "tokenizers": tokenizers, "models": models}


def _config(name: str, place: dict[str, Any]) -> Any:
    try:
        if "folder" in place:
            return json.loads((Path(place["folder"]) / CONFIG).read_text(encoding="utf-8"))
        from lib.data.published import read_config  # the library of the hub is slow to import, and seldom needed

        return read_config(place["repository"], revision=place["revision"])
    except (OSError, ValueError, DownloadError) as error:
        text = (
            f"published.{name}: its {CONFIG} cannot be read ({error}). Expected a folder or a repository with a model "
            f"of transformers. Without a network, copy the architecture into backbones.{name}"
        )
        raise PydanticCustomError("problem", "{text}", {"text": text}) from error
