"""What a stage measures of attention's geometry while it trains."""

from pydantic import Field

from lib.core.settings import BaseSettings, NonNegativeInt, PositiveInt, Size, WholeNumber


class Geometry(BaseSettings):
    """Symmetry, directionality and gradients of queries and keys, and where attention looks, during training."""

    every: PositiveInt = Field(
        description="Optimiser steps between two measurements; first and last weights are measured, too."
    )
    positions: list[WholeNumber] = Field(
        [0],
        min_length=1,
        description="Tokens from a query to its key (negative = the key stands before it), for rotary positions; 0 "
        "= the projections alone.",
    )
    documents: NonNegativeInt = Field(
        8, description="Documents of validation, the first ones, on which attention maps are measured; 0 = none."
    )
    length: Size = Field(
        128,
        ge=2,
        description="Length in tokens to which documents are cut for the maps; the cost of maps is quadratic in it.",
    )
