"""Settings of FAVOR+ attention (Performer)."""

from collections.abc import Iterator
from typing import ClassVar, Literal

from pydantic import Field

from lib.attention.settings import MechanismSettings
from lib.core.settings import PositiveFloat, Size, SizeOrZero, check


class Settings(MechanismSettings):
    """Linear attention through positive random features."""

    takes_attention_dropout: ClassVar[bool] = False

    kind: Literal["favor"]
    nb_features: Size | None = None
    """Columns of the feature map; even for `exp`, whose draws come in +/- pairs; none for `elu`."""
    phi: Literal["exp", "relu", "elu"] = "exp"
    """Feature map: `exp` (softmax kernel, cosh estimator), `relu` (generalised attention: ReLU of the random
    projections), `elu` (ELU + 1 of the head's own dimensions, no draws)."""
    # Left out where it is the default, so that the settings of earlier runs stay as they were.
    features: Literal["positive", "saderf"] = Field("positive", exclude_if=lambda value: value == "positive")
    """Features of `exp`: `positive`, those of FAVOR+; `saderf`, fitted to the queries and keys of each text for a
    smaller variance (FAVOR#)."""
    ortho_features: bool = True
    """Draw orthogonal instead of independent Gaussian features."""
    redraw_interval: SizeOrZero = 0
    """Optimiser steps between two draws of features; 0 = never."""
    stabilize: bool = True
    """Scale `exp` features so that large norms do not overflow."""
    eps: PositiveFloat = 1e-6
    """Added to the features (`relu`) and to the normaliser; stabilised `exp` features have the normaliser 1 and need
    none."""

    @check
    def _features_are_drawn_as_said(self) -> Iterator[str]:
        if self.phi != "elu" and self.nb_features is None:
            yield f"nb_features is missing. Expected the number of columns that phi = '{self.phi}' draws"
        if self.phi == "exp" and self.nb_features is not None and self.nb_features % 2:
            yield f"nb_features = {self.nb_features} is odd; `exp` draws +/- pairs. Use {self.nb_features + 1}"

        if self.phi == "elu" and self.nb_features is not None:
            yield f"nb_features = {self.nb_features}, but phi = 'elu' draws none. Leave it out"
        if self.features == "saderf" and (self.phi != "exp" or not self.stabilize):
            yield "features = 'saderf' are of phi = 'exp', and stabilised. Leave out phi and stabilize"

    @property
    def draws(self) -> int:
        """Number of rows drawn per head: half the columns for `exp`, none for `elu`."""
        return (self.nb_features or 0) // (2 if self.phi == "exp" else 1)

    def name(self) -> str:
        """Return the canonical name."""
        kind = "favor" if self.features == "positive" else f"favor-{self.features}"
        return f"{kind}-m{self.nb_features}" if self.nb_features else f"favor-{self.phi}"

    def keys_per_query(self, tokens: int) -> int:
        """Return the features, met once to sum over keys and once to read; `elu` has one per dimension of a head."""
        return 2 * (self.nb_features or 64)

    def state_numbers(self, tokens: int, head_size: int) -> int:
        """Return the sums over keys of M features, and of their products with values: M (d + 1); `elu` has M = d."""
        return (self.nb_features or head_size) * (head_size + 1)
