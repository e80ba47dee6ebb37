"""Parameters of an architecture of transformers."""

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field, PositiveInt

from lib.backbones.parameters import VOCABULARY, Ability, ArchitectureParameters
from lib.backbones.pretrained.families import FAMILIES, Direction
from lib.core.sections import check


class Parameters(ArchitectureParameters):
    """An architecture of transformers, of the sizes that its `config.json` gives. A model's `start` brings weights."""

    kind: Literal["pretrained"] = "pretrained"
    architecture: dict[str, Any] = Field(
        description="Fields of its `config.json`: `model_type`, sizes and all other values that differ from the "
        "defaults of that type. `vocab_size` and the numbers of special tokens follow from the tokeniser."
    )
    attention: Direction | Literal["gradual"] = Field(
        "bidirectional",
        description="Tokens that a token sees: `causal`, itself and earlier ones; `bidirectional`, all; `gradual`, "
        "in training a growing number of later ones, and all from step `opening_steps` on.",
    )
    opening_steps: PositiveInt | None = Field(
        None, description="Optimiser steps over which `gradual` attention opens, evenly; required there."
    )
    quantization: Literal["nf4"] | None = Field(
        None,
        description="`nf4`: after loading, the linear layers hold their weights in 4 bits (bitsandbytes), and "
        "adapters train beside them (`recipe.lora`, with `merge: false`).",
    )

    @check
    def _family_is_known(self) -> Iterator[str]:
        kind = self.architecture.get("model_type")
        if not isinstance(kind, str) or kind not in FAMILIES:
            yield (
                f"architecture.model_type: {kind!r} has no entry in lib/backbones/pretrained/families.py. Choose one "
                f"of {', '.join(FAMILIES)}, or add one"
            )

    @check
    def _sizes_are_there(self) -> Iterator[str]:
        names = ["hidden_size", "num_hidden_layers", "intermediate_size", "num_attention_heads"]
        if self._learns_positions():
            names.append("max_position_embeddings")
        yield from self.problems_of_sizes(names, dict.fromkeys(("head_dim", "num_key_value_heads", "vocab_size"), int))

    @check
    def _nothing_is_set_twice(self) -> Iterator[str]:
        switches = {name for family in FAMILIES.values() for fields in family.switches.values() for name in fields}
        for name in sorted(switches & set(self.architecture)):
            yield f"architecture.{name}: follows from `attention`. Leave it out"

    @check
    def _family_attends_so(self) -> Iterator[str]:
        kind = self.architecture.get("model_type")
        asked = {"causal", "bidirectional"} if self.attention == "gradual" else {self.attention}
        if kind in FAMILIES and not asked <= FAMILIES[kind].switches.keys():
            yield (
                f"attention = {self.attention}: {kind} is an encoder, made to see both sides. Set attention: "
                "bidirectional, or leave it out"
            )

    def _learns_positions(self) -> bool:
        """Whether positions are looked up in a table, which ends."""
        family = FAMILIES.get(self.architecture.get("model_type", ""))
        return bool(family and family.learns_positions and self.architecture.get("position_biased_input", True))

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
        found: set[Ability] = {"states"}
        if self.attention == "causal":
            found.add("past_states")
        if FAMILIES[self.architecture["model_type"]].queries_and_keys:
            found.add("queries_and_keys")
        return frozenset(found)

    @property
    def quantized(self) -> bool:
        """See `BackboneParameters.quantized`."""
        return self.quantization is not None

    @property
    def family(self) -> str:
        """The type of the architecture and its direction."""
        return f"{super().family}, {self.attention}"

    def longest(self) -> int | None:
        """See `BackboneParameters.longest`.

        Without a table, DeBERTa takes all distances from some one on as the same, so none is too far. In the table of
        RoBERTa, the padding token's row and the one before it belong to no token.
        """
        family, reach = FAMILIES[self.architecture["model_type"]], self.architecture.get("max_position_embeddings")
        if family.learns_positions and not self._learns_positions():
            return None
        return reach if reach is None or family.first_position is None else reach - 2

    def blocks(self) -> int | None:
        """See `BackboneParameters.blocks`."""
        return self.architecture["num_hidden_layers"]

    def products_per_token(self, tokens: int, predicted_share: float) -> float:
        """See `BackboneParameters.products_per_token`."""
        size = self.architecture
        width, heads = size["hidden_size"], size["num_attention_heads"]
        head = size.get("head_dim") or width // heads
        keys = size.get("num_key_value_heads") or heads
        projections = 2 * width * head * (heads + keys)
        family = FAMILIES[size["model_type"]]
        block = projections + 2 * heads * head * tokens + (2 + family.gated) * width * size["intermediate_size"]
        dense = width if "dense" in family.head else 0
        return size["num_hidden_layers"] * block + predicted_share * width * (
            dense + (size.get("vocab_size") or VOCABULARY)
        )
