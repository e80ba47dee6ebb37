"""The parameters of the attention mechanisms, typed, without torch.

One module a mechanism, found by itself: `lib/core/mechanisms/<kind>.py` defines `class Parameters`, derived
from `MechanismParameters`, with a literal field `kind`. Its arithmetic is `lib/attention/<kind>.py`.
"""

import importlib
import pkgutil
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict

from lib.core.errors import ConfigError


class MechanismParameters(BaseModel):
    """Base of every mechanism's parameters."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: str
    shares_query_and_key: ClassVar[bool] = False
    """Whether one projection serves as query and key; weights move only between mechanisms that agree."""
    takes_attention_dropout: ClassVar[bool] = True
    """Whether there are attention weights that dropout could act on."""

    def name(self) -> str:
        """Return the spelling of these parameters, used in configuration, paths and tables."""
        raise NotImplementedError(f"{type(self).__name__} needs a name()")

    def keys_per_query(self, tokens: int) -> int:
        """Return with how many keys' worth of work a query costs in a sequence of `tokens`."""
        return tokens


def kinds() -> list[str]:
    """Return the known kinds of mechanism, sorted."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def parse(values: dict[str, Any]) -> MechanismParameters:
    """Return the typed parameters of `values`, whose key `kind` names the mechanism.

    Raises:
        ConfigError: the kind is unknown.
        pydantic.ValidationError: a parameter is unknown, missing or out of range.
    """
    kind = values.get("kind")
    if kind not in kinds():
        raise ConfigError(f"kind: {kind!r} is not a known attention mechanism. Expected one of: {', '.join(kinds())}.")
    return importlib.import_module(f"{__name__}.{kind}").Parameters.model_validate(values)
