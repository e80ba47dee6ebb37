"""Builds mechanisms: the part `mechanism` of a kind defines `class Mechanism`, derived from `Attention`."""

from collections.abc import Sequence

from lib.attention.contract import Attention
from lib.attention.settings import MECHANISMS, MechanismSettings


def build(
    parameters: MechanismSettings,
    *,
    num_heads: int,
    head_size: int,
    layer: int,
    seed: int,
    dropout: float = 0.0,
    slopes: Sequence[float] | None = None,
) -> Attention:
    """Return the mechanism that `parameters` describe; the arguments are those of `Attention`.

    Raises:
        ConfigError: the kind is unknown, or the mechanism does not support its settings.
    """
    mechanism = MECHANISMS.load(parameters.kind, "mechanism").Mechanism
    return mechanism(
        parameters=parameters,
        num_heads=num_heads,
        head_size=head_size,
        layer=layer,
        seed=seed,
        dropout=dropout,
        slopes=slopes,
    )
