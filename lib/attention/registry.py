"""Finds and builds mechanisms: `lib/attention/<kind>.py` defines `class Mechanism`, derived from `Attention`.

Modules are imported by a name made at run time, so that a digest of a mechanism's code holds that mechanism's
file and no other one's.
"""

import importlib
from importlib.util import find_spec

from lib.attention.contract import Attention
from lib.core import mechanisms
from lib.core.errors import ConfigError

_ROOM = __name__.rpartition(".")[0]


def kinds() -> list[str]:
    """Return the kinds of mechanism that have both parameters and arithmetic, sorted."""
    return [kind for kind in mechanisms.kinds() if find_spec(f"{_ROOM}.{kind}")]


def build(
    parameters: mechanisms.MechanismParameters,
    *,
    num_heads: int,
    head_size: int,
    layer: int,
    seed: int,
    dropout: float = 0.0,
) -> Attention:
    """Return the mechanism that `parameters` describe; the arguments are those of `Attention`.

    Raises:
        ConfigError: the kind has no mechanism, or the mechanism cannot honour its settings.
    """
    if parameters.kind not in kinds():
        raise ConfigError(
            f"kind: {parameters.kind!r} is not a known attention mechanism. Expected one of: {', '.join(kinds())}."
        )
    mechanism = importlib.import_module(f"{_ROOM}.{parameters.kind}").Mechanism
    return mechanism(
        parameters=parameters, num_heads=num_heads, head_size=head_size, layer=layer, seed=seed, dropout=dropout
    )
