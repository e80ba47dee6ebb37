"""Parameters of an architecture of transformers."""

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field, PositiveInt

from lib.backbones.pretrained.families import FAMILIES, Direction
from lib.core.kinds import VOCABULARY, Ability, BackboneParameters
from lib.core.settings import check


class Parameters(BackboneParameters):
    """An architecture of transformers, of the sizes that its `config.json` gives. A model's `start` brings weights."""

    kind: Literal["pretrained"] = "pretrained"
    architecture: dict[str, Any] = Field(
        description="Fields of its `config.json`: `model_type`, sizes and what else is not that type's default. "
        "`vocab_size` and the numbers of special tokens follow from the tokeniser."
    )
    attention: Direction | Literal["gradual"] = Field(
        "bidirectional",
        description="Which tokens a token sees: `causal`, itself and those before it; `bidirectional`, all; `gradual`, "
        "in training ever more of those after it, and all from step `opening_steps` on.",
    )
    opening_steps: PositiveInt | None = Field(
        None, description="Optimiser steps over which `gradual` attention opens, evenly; required there."
    )

    @check
    def _family_is_known(self) -> Iterator[str]:
        kind = self.architecture.get("model_type")
        if kind not in FAMILIES:
            yield (
                f"architecture.model_type: {kind!r} has no entry in lib/backbones/pretrained/families.py. Choose one "
                f"of {', '.join(FAMILIES)}, or add one"
            )

    @check
    def _sizes_are_there(self) -> Iterator[str]:
        for name in ("hidden_size", "num_hidden_layers", "intermediate_size", "num_attention_heads"):
            if not isinstance(self.architecture.get(name), int):
                yield f"architecture.{name}: missing, or no whole number. Copy it from the model's config.json"

    @check
    def _nothing_is_set_twice(self) -> Iterator[str]:
        switches = {name for family in FAMILIES.values() for fields in family.switches.values() for name in fields}
        for name in sorted(switches & set(self.architecture)):
            yield f"architecture.{name}: follows from `attention`. Leave it out"

    @check
    def _only_what_opens_takes_steps(self) -> Iterator[str]:
        if (self.attention == "gradual") != (self.opening_steps is not None):
            yield (
                f"opening_steps = {self.opening_steps}, but attention = {self.attention}. Give steps for gradual "
                "attention, and for no other"
            )

    @property
    def abilities(self) -> frozenset[Ability]:
        """See `BackboneParameters.abilities`."""
        return frozenset({"states", "past_states"} if self.attention == "causal" else {"states"})

    @property
    def family(self) -> str:
        """The type of the architecture and its direction."""
        return f"{self.architecture['model_type']}, {self.attention}"

    def longest(self) -> int | None:
        """See `BackboneParameters.longest`."""
        return self.architecture.get("max_position_embeddings")

    def blocks(self) -> int | None:
        """See `BackboneParameters.blocks`."""
        return self.architecture["num_hidden_layers"]

    def obstacles(self, before: BackboneParameters) -> Iterator[str]:
        """See `BackboneParameters.obstacles`: all but the direction must agree."""
        if not isinstance(before, Parameters):
            yield from super().obstacles(before)
            return
        for name in sorted(self.architecture.keys() | before.architecture.keys()):
            own, found = self.architecture.get(name), before.architecture.get(name)
            if own != found:
                yield f"architecture.{name} is {own}, but the weights come from {found}"

    def products_per_token(self, tokens: int, predicted_share: float) -> float:
        """See `BackboneParameters.products_per_token`."""
        size = self.architecture
        width, heads = size["hidden_size"], size["num_attention_heads"]
        head = size.get("head_dim") or width // heads
        keys = size.get("num_key_value_heads") or heads
        projections = 2 * width * head * (heads + keys)
        block = projections + 2 * heads * head * tokens + 3 * width * size["intermediate_size"]
        return size["num_hidden_layers"] * block + predicted_share * width * size.get("vocab_size", VOCABULARY)
