"""Names in the source of the installed transformers. It is read, not imported: an import takes seconds."""

import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from lib.core.errors import RunError

_FIELD = re.compile(r"^    (\w+) ?[:=]", re.MULTILINE)
_SIZE = re.compile(r"^    (\w+): int = (\d+)$", re.MULTILINE)
_READ = re.compile(r"config\.(\w+)|\"(\w+)\"")
_CLASS = re.compile(r"^class (\w+)", re.MULTILINE)


@cache
def fields(model_type: str) -> frozenset[str]:
    """Return the names that a configuration declares, or that the code of the architecture mentions.

    A field with another name changes no state.
    """
    found = set(_FIELD.findall(_text("configuration_utils.py")))
    own = [path.read_text(encoding="utf-8") for path in _files(model_type)]
    for text in [*own, _text("modeling_rope_utils.py")]:
        found |= {name for pair in _READ.findall(text) for name in pair}
    return frozenset(found | set(_FIELD.findall(own[0])))


@cache
def sizes(model_type: str) -> dict[str, int]:
    """Return the whole numbers of a configuration that says nothing of them."""
    configuration, _ = _files(model_type)
    return {name: int(value) for name, value in _SIZE.findall(configuration.read_text(encoding="utf-8"))}


@cache
def classes(model_type: str) -> frozenset[str]:
    """Return the names of the classes of models of a type."""
    _, modelling = _files(model_type)
    return frozenset(_CLASS.findall(modelling.read_text(encoding="utf-8")))


def _files(model_type: str) -> tuple[Path, Path]:
    """Return the files of the configuration and of the models of a type; gemma3_text is a part of gemma3."""
    own = model_type.replace("-", "_")
    for name in (own, own.rpartition("_")[0]):
        for path in _root().glob(f"models/*/configuration_{name}.py"):
            return path, path.with_name(f"modeling_{name}.py")
    raise LookupError(f"{model_type}: not in {_root()}")


def _text(name: str) -> str:
    return (_root() / name).read_text(encoding="utf-8")


@cache
def _root() -> Path:
    spec = find_spec("transformers")
    if spec is None or spec.origin is None:  # Snakemake may run in an environment of its own
        raise RunError("transformers is not installed here. Planning a published model reads its source; install it.")
    return Path(spec.origin).parent
