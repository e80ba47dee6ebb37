"""Settings as the command-line programs take them."""

import json
from pathlib import Path
from typing import TypeVar

import yaml
from pydantic import ValidationError

from lib.core.errors import ConfigError
from lib.core.settings import Section

Settings = TypeVar("Settings", bound=Section)


def read_settings(value: str, kind: type[Settings]) -> Settings:
    """Return the settings in `value`: a JSON object, or the path of a JSON or YAML file.

    Raises:
        ConfigError: the file is missing or broken, or a setting is unknown, missing or wrong; all are named at once.
    """
    inline = value.lstrip().startswith("{")
    place = "--settings" if inline else value
    try:
        values = json.loads(value) if inline else yaml.safe_load(Path(value).read_text(encoding="utf-8"))
        return kind.model_validate(values)
    except ValidationError as error:
        problems = [f"{'.'.join(map(str, e['loc'])) or 'all'}: {e['msg']}" for e in error.errors()]
        raise ConfigError(f"{place}: {'; '.join(problems)}. Expected the settings of {kind.__name__}.") from error
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ConfigError(
            f"{place}: cannot be read ({error}). Expected a JSON object, or a JSON or YAML file."
        ) from error
