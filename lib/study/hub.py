"""Complete an experiment with the backbones, tokenisers and weights that follow from names of published models."""

import json
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from lib.backbones.settings import BACKBONES
from lib.core.errors import DownloadError
from lib.core.model_folder import files_of
from lib.core.weights import ForeignStart

KIND = "pretrained"
CONFIG = "config.json"


def with_published(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values of an experiment with the entries that follow from each published model.

    These are a backbone, a tokeniser and, for models on this backbone or on one with this encoder, the tokeniser and
    the initial weights. Entries that the configuration gives itself stay.

    Raises:
        PydanticCustomError: the model's `config.json` cannot be read, or describes no model of a known family.
        RunError: as `files_of` raises it.
    """
    published = values.get("published")
    if not isinstance(published, dict):
        return values
    given = {key: values.get(key) for key in ("backbones", "tokenizers", "models")}
    backbones, tokenizers, models = (dict(each) if isinstance(each, dict) else {} for each in given.values())
    for name, entry in published.items():
        try:
            place = ForeignStart.model_validate(entry).model_dump(exclude_unset=True)
        except ValidationError:
            continue  # the field itself says so
        if not isinstance(own := backbones.get(name), dict | None):
            continue  # likewise
        backbone = {"kind": KIND, **(own or {})}
        if "architecture" not in backbone:
            fields, rules = _config(name, place), BACKBONES.load(KIND, "fields")
            if reason := rules.config_error(fields):
                raise PydanticCustomError("problem", "{text}", {"text": f"published.{name}: its {CONFIG} {reason}"})
            backbone["architecture"] = rules.architecture_of(fields)
        backbones[name] = backbone
        hub = {"source": "hub", **place}
        local = {"source": "local", "path": place.get("folder")}
        tokenizers.setdefault(name, {"algorithm": "published", **(local if "folder" in place else hub)})
        for model, settings in models.items():
            if isinstance(settings, dict) and name in _read_by(settings.get("backbone"), backbones):
                models[model] = {"tokenizer": name, "start": place, **settings}
    completed = {"backbones": backbones, "tokenizers": tokenizers, "models": models}
    return values | {key: completed[key] for key in given if isinstance(given[key], dict | None)}


def with_encoders(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values of an experiment with the settings of each encoder that a backbone names in place of its name.

    Raises:
        PydanticCustomError: the backbone is unknown, or has an encoder itself.
    """
    backbones = values.get("backbones")
    if not isinstance(backbones, dict):
        return values
    resolved = dict(backbones)
    for name in backbones:
        _, *encoders = _read_by(name, backbones)
        for encoder in encoders:
            if encoder not in backbones or len(_read_by(encoder, backbones)) > 1:
                known = ", ".join(each for each in backbones if len(_read_by(each, backbones)) == 1) or "none"
                text = f"backbones.{name}.encoder: '{encoder}' is not a backbone that reads whole texts. Known: {known}"
                raise PydanticCustomError("problem", "{text}", {"text": text})
            resolved[name] = backbones[name] | {"encoder": backbones[encoder]}
    return values | {"backbones": resolved}


def _read_by(backbone: Any, backbones: dict[str, Any]) -> list[Any]:
    """Return the name of a backbone, and that of the encoder that it names, if it names one."""
    settings = backbones.get(backbone) if isinstance(backbone, str) else None
    encoder = settings.get("encoder") if isinstance(settings, dict) else None
    return [backbone, encoder] if isinstance(encoder, str) else [backbone]


def _config(name: str, place: dict[str, Any]) -> Any:
    try:
        if "folder" in place:
            files_of(Path(place["folder"]))
            return json.loads((Path(place["folder"]) / CONFIG).read_text(encoding="utf-8"))
        from lib.reading.hub_files import read_config  # the library of the hub is slow to import, and seldom needed

        return read_config(place["repository"], revision=place["revision"])
    except (ImportError, OSError, ValueError, DownloadError) as error:
        text = (
            f"published.{name}: its {CONFIG} cannot be read ({error}). Expected a folder or a repository with a model "
            f"of transformers. Without a network, copy the architecture into backbones.{name}"
        )
        raise PydanticCustomError("problem", "{text}", {"text": text}) from error
