"""Complete an experiment with the backbones, tokenisers and weights that follow from names of published models."""

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from lib.backbones.settings import BACKBONES
from lib.core.errors import ProjectError
from lib.core.model_folder import FIELDS, read_fields
from lib.core.settings import problem
from lib.core.weights import ForeignStart

KIND = "pretrained"


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
    given = {key: values.get(key, {}) for key in ("backbones", "tokenizers", "models")}
    completed = {key: dict(each) if isinstance(each, dict) else {} for key, each in given.items()}
    backbones, tokenizers, models = completed.values()
    for name, entry in published.items():
        try:
            place = ForeignStart.model_validate(entry).model_dump(exclude_unset=True)
        except ValidationError:
            continue  # the field itself says so
        if not isinstance(own := backbones.get(name, {}), dict):
            continue  # likewise
        backbones[name] = {"kind": KIND, **own}
        if "architecture" not in own:
            fields, rules = _config(name, place), BACKBONES.load(KIND, "fields")
            if reason := rules.config_error(fields):
                raise problem(f"published.{name}: its {FIELDS} {reason}")
            backbones[name]["architecture"] = rules.architecture_of(fields)
        source = {"source": "local", "path": place["folder"]} if "folder" in place else {"source": "hub", **place}
        tokenizers.setdefault(name, {"algorithm": "published", **source})
        on_it = [name, *(each for each, encoder in _encoders(backbones).items() if encoder == name)]
        for model, settings in models.items():
            if isinstance(settings, dict) and settings.get("backbone") in on_it:
                models[model] = {"tokenizer": name, "start": place, **settings}
    return values | {key: each for key, each in completed.items() if isinstance(given[key], dict)}


def with_encoders(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values of an experiment with the settings of each encoder that a backbone names in place of its name.

    Raises:
        PydanticCustomError: the backbone is unknown, or has an encoder itself.
    """
    backbones = values.get("backbones")
    if not isinstance(backbones, dict):
        return values
    named = _encoders(backbones)
    whole = [name for name in backbones if name not in named]
    for name, encoder in named.items():
        if encoder not in whole:
            place, known = f"backbones.{name}.encoder", ", ".join(whole) or "none"
            raise problem(f"{place}: '{encoder}' is not a backbone that reads whole texts. Known: {known}")
    resolved = {name: backbones[name] | {"encoder": backbones[encoder]} for name, encoder in named.items()}
    return values | {"backbones": backbones | resolved}


def _encoders(backbones: dict[str, Any]) -> dict[str, str]:
    """Return the names of the encoders that backbones name, by backbone."""
    found = {name: each.get("encoder") for name, each in backbones.items() if isinstance(each, dict)}
    return {name: encoder for name, encoder in found.items() if isinstance(encoder, str)}


def _config(name: str, place: dict[str, Any]) -> Any:
    try:
        if "folder" in place:
            return read_fields(Path(place["folder"]))
        from lib.reading.hub_files import read_config  # the library of the hub is slow to import, and seldom needed

        return read_config(place["repository"], revision=place["revision"])
    except (ImportError, OSError, ValueError, ProjectError) as error:
        raise problem(
            f"published.{name}: its {FIELDS} cannot be read ({error}). Expected a folder or a repository with a model "
            f"of transformers. Without a network, copy the architecture into backbones.{name}"
        ) from error
