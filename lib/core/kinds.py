"""Mechanisms, backbones and tasks: three axes whose kinds are found by name, each in a folder of its own.

A kind is a package of its axis' folder with one module per part (`lib/attention/lsh/parameters.py`, `mechanism.py`), or
a single module that holds all parts. Its part `parameters` defines `class Parameters` with a literal field `kind` and
imports no torch, since the workflow reads it. Kinds are imported by a name made at run time, so that the digest of a
run's code holds the kinds that the run uses and no others.
"""

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar, Generic, TypeVar

from lib.core.errors import ConfigError
from lib.core.settings import Section

SHARED_MODULES = frozenset({"contract", "interface", "registry"})
"""Modules of an axis' folder that are no kinds."""


class KindParameters(Section):
    """Base of the parameters of every kind."""

    kind: str


Parameters = TypeVar("Parameters", bound=KindParameters)


@dataclass(frozen=True)
class Axis(Generic[Parameters]):
    """One of the three axes.

    Args:
        package: dotted name of its folder.
        noun: what one of its kinds is called in messages.
        base: base class of its kinds' parameters.
    """

    package: str
    noun: str
    base: type[Parameters]

    def kinds(self) -> list[str]:
        """Return the known kinds, sorted."""
        folder = importlib.import_module(self.package).__path__
        return sorted(module.name for module in pkgutil.iter_modules(folder) if module.name not in SHARED_MODULES)

    def module(self, kind: Any, part: str) -> str:
        """Return the dotted name of the module that holds a part of `kind`.

        Raises:
            ConfigError: the kind is unknown.
        """
        if kind not in self.kinds():
            raise ConfigError(f"kind: {kind!r} is not a known {self.noun}. Expected one of: {', '.join(self.kinds())}.")
        name = f"{self.package}.{kind}"
        is_package = hasattr(importlib.import_module(name), "__path__")
        return f"{name}.{part}" if is_package else name

    def load(self, kind: Any, part: str) -> ModuleType:
        """Return the module that holds a part of `kind`, imported.

        Raises:
            ConfigError: the kind is unknown.
        """
        return importlib.import_module(self.module(kind, part))

    def parse(self, values: Mapping[str, Any] | Parameters) -> Parameters:
        """Return the typed parameters of `values`, whose key `kind` names the kind.

        Raises:
            ConfigError: the kind is unknown.
            pydantic.ValidationError: a parameter is unknown, missing or out of range.
        """
        if isinstance(values, self.base):
            return values
        kind = values.get("kind") if isinstance(values, Mapping) else values
        return self.load(kind, "parameters").Parameters.model_validate(values)


class MechanismParameters(KindParameters):
    """Base of the parameters of every attention mechanism; a kind defines `name`."""

    shares_query_and_key: ClassVar[bool] = False
    """Whether one projection serves as query and key; weights move only between mechanisms that agree."""
    takes_attention_dropout: ClassVar[bool] = True
    """Whether there are attention weights that dropout could act on."""

    def name(self) -> str:
        """Return the spelling of these parameters, used in configuration, paths and tables."""
        return self.kind

    def keys_per_query(self, tokens: int) -> int:
        """Return with how many keys' worth of work a query costs in a sequence of `tokens`."""
        return tokens


MECHANISMS = Axis("lib.attention", "attention mechanism", MechanismParameters)
