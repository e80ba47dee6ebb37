"""Parameters of FAVOR+ attention (Performer)."""

from typing import ClassVar, Literal

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from lib.core.kinds import MechanismParameters


class Parameters(MechanismParameters):
    """Linear attention through positive random features."""

    takes_attention_dropout: ClassVar[bool] = False

    kind: Literal["favor"]
    nb_features: PositiveInt = Field(
        description="Columns of the feature map; even for `exp`, whose draws come in +/- pairs."
    )
    phi: Literal["exp", "relu", "elu"] = Field(
        "exp",
        description="Feature map: `exp` (softmax kernel, cosh estimator), `relu` (generalised attention: ReLU of the "
        "random projections), `elu` (ELU + 1 of the head's own dimensions, no draws).",
    )
    ortho_features: bool = Field(True, description="Draw orthogonal instead of independent Gaussian features.")
    redraw_interval: NonNegativeInt = Field(0, description="Optimiser steps between two draws of features; 0 = never.")
    stabilize: bool = Field(True, description="Keep `exp` features within range, so that no norm overflows.")
    eps: PositiveFloat = Field(
        1e-6,
        description="Added to the features (`relu`) and to the normaliser; stabilised `exp` features have the "
        "normaliser 1 and need none.",
    )

    @model_validator(mode="after")
    def _pairs_need_an_even_count(self) -> "Parameters":
        if self.phi == "exp" and self.nb_features % 2:
            raise ValueError(
                f"nb_features = {self.nb_features} is odd; expected an even number, since `exp` draws its features in "
                f"+/- pairs. Use {self.nb_features + 1} or {max(2, self.nb_features - 1)}."
            )
        return self

    def name(self) -> str:
        """Return the canonical name."""
        return f"favor-m{self.nb_features}"

    def keys_per_query(self, tokens: int) -> int:
        """Return the features, met once to sum over keys and once to read."""
        return 2 * self.nb_features
