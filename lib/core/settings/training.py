"""Settings of the masked-language-model stages, and what all stages have in common."""

from typing import Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, model_validator

from lib.core.settings import Fraction, Section

Precision = Literal["fp32", "bf16", "fp16"]


class Optimisation(Section):
    """How a stage optimises: AdamW, linear warm-up, then cosine to a minimum."""

    epochs: PositiveInt = Field(description="Passes over the training documents.")
    learning_rate: PositiveFloat = Field(description="Peak learning rate.")
    min_lr_ratio: Fraction = Field(description="Final learning rate as a share of the peak.")
    batch_size: PositiveInt = Field(description="Documents to an optimiser step.")
    warmup_ratio: Fraction = Field(0.1, description="Share of the steps that warm up.")
    weight_decay: NonNegativeFloat = Field(0.01, description="Weight decay, not on norms and biases.")
    max_grad_norm: NonNegativeFloat = Field(1.0, description="Gradient norm above which gradients are clipped; 0 = no.")


class Masking(Section):
    """Masked language modelling: which tokens are predicted, and what stands in their place."""

    mask_probability: Fraction = Field(0.15, description="Share of the ordinary tokens that are predicted.")
    mask_token_probability: Fraction = Field(0.8, description="Of those, the share replaced by [MASK].")
    random_token_probability: Fraction = Field(0.1, description="Of those, the share replaced by a random token.")

    @model_validator(mode="after")
    def _shares_fit(self) -> "Masking":
        total = self.mask_token_probability + self.random_token_probability
        if total > 1:
            raise ValueError(f"mask_token_probability + random_token_probability = {total:g}; expected at most 1.")
        return self
