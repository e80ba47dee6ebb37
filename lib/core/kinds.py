"""Mechanisms, backbones, tasks, tables, figures and analyses: axes whose kinds are found by name.

A kind is a folder in that of its axis with one module per part (`lib/attention/lsh/settings.py`, `mechanism.py`), or a
single module that holds all parts (`lib/tasks/regression.py`). A mechanism without the module `reference` has this part
in `mechanism`. The part `settings` defines
`class Settings` with a literal field `kind` and imports no torch, since the workflow reads it. Tables and figures are
classes in modules of their subject (`lib.results.settings`). Kinds are imported by a name made at run time, so that
the code digest of a rule covers only the kinds that it uses.
"""

import functools
import importlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Generic, TypeVar

from lib.core.errors import ConfigError
from lib.core.extensions import claim, load, packages, remedy
from lib.core.files import files_in
from lib.core.settings import BaseSettings

_SETTINGS = re.compile(r"^class Settings\b", re.MULTILINE)


class KindSettings(BaseSettings):
    """Base of the settings of every kind."""

    kind: str


Settings = TypeVar("Settings", bound=KindSettings)


@dataclass(frozen=True)
class Axis(Generic[Settings]):
    """One of the axes.

    Args:
        package: dotted name of the folder in `lib`; extensions in use have more of them.
        noun: word for one of its kinds in messages.
        base: base class of the settings of its kinds.
        default: kind of settings without the key `kind`.
    """

    package: str
    noun: str
    base: type[Settings]
    default: str | None = None

    def kinds(self) -> list[str]:
        """Return the known kinds, sorted."""
        return sorted(_kinds(tuple(packages(self.package))))

    def check(self, kind: Any) -> None:
        """Refuse an unknown kind.

        Raises:
            ConfigError: the kind is unknown.
        """
        if kind not in self.kinds():
            known = f"Expected one of: {', '.join(self.kinds())}.{remedy(self.package, kind)}"
            raise ConfigError(f"kind: {kind!r} is not a known {self.noun}. {known}")

    def module(self, kind: Any, part: str = "settings") -> str:
        """Return the dotted name of the module with a part of `kind`.

        Raises:
            ConfigError: the kind is unknown.
        """
        name = self.place(kind)
        if part == "reference" and not self.has(kind, part):
            part = "mechanism"
        return f"{name}.{part}" if self.is_folder(kind) else name

    def place(self, kind: Any) -> str:
        """Return the dotted name of `kind`: a folder with modules, or a single module.

        Raises:
            ConfigError: the kind is unknown.
        """
        self.check(kind)
        return _kinds(tuple(packages(self.package)))[kind]

    def load(self, kind: Any, part: str) -> ModuleType:
        """Import and return the module with a part of `kind`.

        Raises:
            ConfigError: the kind is unknown.
        """
        return load(self.module(kind, part))

    def settings(self, kind: Any) -> type[Settings]:
        """Return the class of the settings of `kind`.

        Raises:
            ConfigError: the kind is unknown.
        """
        return self.load(kind, "settings").Settings

    @functools.cache  # noqa: B019 - one instance per axis
    def has(self, kind: str, part: str) -> bool:
        """Whether the folder of `kind` has a module for a part."""
        return self.is_folder(kind) and find_spec(f"{self.place(kind)}.{part}") is not None

    def is_folder(self, kind: str) -> bool:
        """Whether `kind` is a folder with modules rather than a single module."""
        return hasattr(load(self.place(kind)), "__path__")

    def parse(self, values: Mapping[str, Any] | Settings) -> Settings:
        """Return the typed settings of `values`, whose key `kind` names the kind.

        Raises:
            ConfigError: the kind is unknown.
            pydantic.ValidationError: a setting is unknown, missing or out of range.
        """
        if isinstance(values, self.base):
            return values
        kind = values.get("kind", self.default) if isinstance(values, Mapping) else values
        return self.settings(kind).model_validate(values)


@functools.cache
def _kinds(names: tuple[str, ...]) -> dict[str, str]:
    """Return the dotted names of what defines `class Settings` in packages; nothing is imported, as some need torch.

    Raises:
        ConfigError: two packages have a kind of one name.
    """
    found: dict[str, str] = {}
    for package in names:
        for folder in importlib.import_module(package).__path__:
            files = {path.stem: path for path in files_in(folder, "*.py")}
            files |= {path.parent.name: path for path in files_in(folder, "*/settings.py")}
            for name, file in files.items():
                if _SETTINGS.search(file.read_text(encoding="utf-8")):
                    claim(found, name, f"{package}.{name}")
    return found
