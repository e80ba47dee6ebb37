"""Settings of an architecture of transformers."""

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator

from lib.attention.settings import AnyMechanisms, MechanismSettings, kinds_of, least
from lib.backbones.pretrained.families import FAMILIES, Direction, Family
from lib.backbones.pretrained.fields import field_errors, in_shared_names
from lib.backbones.settings import VOCABULARY, Ability, ArchitectureSettings, BackboneSettings
from lib.core.settings import BaseSettings, PositiveInt, Probability, Size, check, problem, unset


class Positions(BaseSettings):
    """More positions than the published model was trained with."""

    length: Size
    """Tokens that a text may have then."""
    fill: Literal["tiled", "linear", "yarn"]
    """`tiled`: the table of positions is repeated behind its end, as Longformer began from RoBERTa; `linear` and `yarn`
    stretch rotary positions, as `rope_type` of the encoder does."""


class Settings(ArchitectureSettings):
    """An architecture of transformers, of the sizes that its `config.json` gives. A model's `start` brings weights."""

    takes_mechanism: ClassVar[bool] = True

    kind: Literal["pretrained"] = "pretrained"
    mechanism: AnyMechanisms | None = Field(None, exclude_if=unset)
    """Parameters of the attention mechanism that takes the place of its own in all layers without a window, or a list
    that repeats over these layers; each model names its own under `mechanism`."""
    shared_projection: Literal["queries", "keys", "mean"] | None = Field(None, exclude_if=unset)
    """Published projection that a mechanism with one for both queries and keys (LSH) begins with."""
    attention_dropout: Probability | None = Field(None, exclude_if=unset)
    """Dropout on the attention weights; null = as the architecture says. Mechanisms without such weights (FAVOR+) need
    0."""
    positions: Positions | None = Field(None, exclude_if=unset)
    """More positions than the architecture has, for longer texts; null = those that it has."""
    architecture: dict[str, Any]
    """Fields of its `config.json`: `model_type`, sizes and all other values that differ from the defaults of that type.
    `vocab_size` and the numbers of special tokens follow from the tokeniser."""
    attention: Direction | Literal["gradual"] = "bidirectional"
    """Tokens that a token sees: `causal`, itself and earlier ones; `bidirectional`, all; `gradual`, in training a
    growing number of later ones, and all from step `opening_steps` on."""
    opening_steps: PositiveInt | None = None
    """Optimiser steps over which `gradual` attention opens, evenly; required there."""
    quantization: Literal["nf4"] | None = None
    """`nf4`: after loading, the linear layers hold their weights in 4 bits (bitsandbytes), and adapters train instead
    (`recipe.lora`, with `merge: false`)."""

    @property
    def _family(self) -> Family:
        return FAMILIES[self.architecture["model_type"]]

    @classmethod
    def prepared(cls, values: Any) -> Any:
        """Return the values with an architecture by the names that families share; see `BaseSettings.prepared`."""
        if isinstance(values, dict) and isinstance(values.get("architecture"), dict):
            return values | {"architecture": in_shared_names(values["architecture"])}
        return values

    @field_validator("architecture")
    @classmethod
    def _family_is_known(cls, architecture: dict[str, Any]) -> dict[str, Any]:
        if (kind := architecture.get("model_type")) not in list(FAMILIES):
            raise problem(f"model_type: {kind!r} is not known. Choose one of {', '.join(FAMILIES)}")
        return architecture

    @check
    def _transformers_follows(self) -> Iterator[str]:
        yield from (f"architecture.{error}" for error in field_errors(self.architecture))

    @check
    def _sizes_are_there(self) -> Iterator[str]:
        names = ["hidden_size", "num_hidden_layers", "intermediate_size", "num_attention_heads"]
        optional = ["embedding_size", "head_dim", "num_key_value_heads", "vocab_size"]
        (names if self._learns_positions() else optional).append("max_position_embeddings")
        yield from self.size_errors(names, dict.fromkeys(optional, int))

    @check
    def _nothing_has_two_names(self) -> Iterator[str]:
        for name, own in self._family.names.items():
            if own in self.architecture:
                yield f"architecture.{own} and {name} are the same field with different values. Give one of them"

    @check
    def _attends_exactly(self) -> Iterator[str]:
        size = self.architecture
        tokens, landmarks = (size.get(name, 64) for name in ("segment_means_seq_len", "num_landmarks"))
        if size.get("model_type") == "nystromformer" and tokens != landmarks:
            problem = "states would depend on padding and on the other texts of a batch. Give both the same number"
            yield f"architecture.segment_means_seq_len is {tokens}, num_landmarks {landmarks}: {problem}"

    @check
    def _groups_have_one_layer(self) -> Iterator[str]:
        if (layers := self.architecture.get("inner_group_num", 1)) != 1:
            yield f"architecture.inner_group_num is {layers}: only groups of 1 layer are known. Choose another model"

    @check
    def _nothing_is_set_twice(self) -> Iterator[str]:
        switches = {name for family in FAMILIES.values() for fields in family.switches.values() for name in fields}
        for name in sorted(switches & set(self.architecture)):
            yield f"architecture.{name}: follows from `attention`. Leave it out"

    @check
    def _family_attends_so(self) -> Iterator[str]:
        asked = {"causal", "bidirectional"} if self.attention == "gradual" else {self.attention}
        if not asked <= self._family.switches.keys():
            kind = self.architecture["model_type"]
            yield f"attention = {self.attention}: {kind} is an encoder. Set attention: bidirectional, or leave it out"

    @check
    def _mechanism_fits_in(self) -> Iterator[str]:
        if not self.held_mechanisms:
            return
        yield from self.list_errors()
        if not self._family.takes_mechanism:
            kind = self.architecture["model_type"]
            names = ", ".join(dict.fromkeys(mechanism.name() for mechanism in self.held_mechanisms))
            able = ", ".join(known for known, each in FAMILIES.items() if each.takes_mechanism)
            yield f"mechanism = {names}: {kind} attends in a way of its own, which cannot be exchanged. Choose {able}"
        for mechanism in dict.fromkeys(self.held_mechanisms):
            yield from self._errors_of(mechanism)

    def _errors_of(self, mechanism: MechanismSettings) -> Iterator[str]:
        """Yield why a mechanism does not fit into its layers."""
        kind, name = self.architecture["model_type"], mechanism.name()
        if mechanism.shares_query_and_key and self._family.keys is None:
            yield f"mechanism = {name} shares queries and keys; {kind} has no separate projections of them"
        elif mechanism.shares_query_and_key and self.shared_projection is None:
            yield f"mechanism = {name} has one projection, a model two. Set shared_projection to queries, keys or mean"
        elif mechanism.shares_query_and_key and self.shared_projection != "queries" and self._keys_are_fewer():
            yield f"shared_projection = {self.shared_projection}: keys have fewer heads. Choose queries"
        if not mechanism.takes_attention_dropout and (rate := self.dropout_of_weights()):
            yield f"mechanism = {name} has no attention weights to drop, at a rate of {rate}. Set attention_dropout: 0"

    @check
    def _positions_can_be_filled(self) -> Iterator[str]:
        if self.positions is None:
            return
        family, kind = self._family, self.architecture["model_type"]
        reach, learns = self.architecture.get("max_position_embeddings"), self._learns_positions()
        if family.positions and not learns:
            yield f"positions: {kind} without their table reads texts of any length. Leave them out"
        elif stretched := self._stretching():
            yield f"positions: the architecture stretches its positions already, by {stretched}. Leave them out"
        elif learns != (self.positions.fill == "tiled"):
            choice = "tiled" if learns else "linear or yarn"
            yield f"positions.fill = {self.positions.fill}: the architecture has other positions. Choose {choice}"
        elif not isinstance(reach, int):
            yield "positions: architecture.max_position_embeddings is missing. Copy it from the model's config.json"
        elif self.positions.length <= (published := reach - family.unused_positions):
            yield f"positions.length = {self.positions.length}: there are {published} as it is. Leave `positions` out"

    @check
    def _growing_positions_end(self) -> Iterator[str]:
        if self._stretching() == "dynamic" and self.architecture.get("max_position_embeddings") is None:
            problem = "beyond it, positions of type dynamic depend on other texts. Copy it from the config.json"
            yield f"architecture.max_position_embeddings: missing; {problem}"

    def dropout_of_weights(self) -> float:
        """Return the probability of dropping an attention weight in training."""
        if self.attention_dropout is not None:
            return self.attention_dropout
        return self.architecture.get(self._family.attention_dropout, self._family.drops)

    def _keys_are_fewer(self) -> bool:
        heads = self.architecture.get("num_attention_heads")
        return (self.architecture.get("num_key_value_heads") or heads) != heads

    def _stretching(self) -> str | None:
        """Return the kind of scaling that published rotary positions have, if any."""
        fields = [self.architecture.get(name) for name in ("rope_scaling", "rope_parameters")]
        scalings = [each for each in fields if isinstance(each, dict)]
        scalings += [each for scaling in scalings for each in scaling.values() if isinstance(each, dict)]
        kinds = [each.get("rope_type") or each.get("type") for each in scalings]
        return next((str(kind) for kind in kinds if kind not in (None, "default")), None)

    def _learns_positions(self) -> bool:
        """Whether positions come from a table of limited length."""
        return bool(self._family.positions and self.architecture.get("position_biased_input", True))

    @check
    def _only_what_opens_takes_steps(self) -> Iterator[str]:
        if (self.attention == "gradual") != (self.opening_steps is not None):
            yield f"opening_steps = {self.opening_steps}, but attention = {self.attention}. Only `gradual` needs steps"

    @property
    def abilities(self) -> frozenset[Ability]:
        """See `BackboneSettings.abilities`."""
        found: set[Ability] = {"states"}
        if self.attention == "causal":
            found.add("past_states")
        if self._family.queries:
            found.add("queries_and_keys")
        if self.held_mechanisms and all(mechanism.row_stochastic for mechanism in self.held_mechanisms):
            found.add("attention_maps")
        return frozenset(found)

    @property
    def looks_ahead(self) -> bool:
        """See `BackboneSettings.looks_ahead`."""
        return self.attention != "causal"

    @property
    def quantized(self) -> bool:
        """See `BackboneSettings.quantized`."""
        return self.quantization is not None

    @property
    def family(self) -> str:
        """The type of the architecture and its direction, or the kinds of its mechanisms."""
        return f"{super().family}, {kinds_of(self.held_mechanisms) or self.attention}"

    def longest(self) -> int | None:
        """See `BackboneSettings.longest`.

        Without a table, DeBERTa takes all distances from some one on as the same, so none is too far.
        """
        reaches = [mechanism.longest() for mechanism in self.held_mechanisms]
        if self.positions is not None:
            reaches.append(self.positions.length)
        elif self._family.positions is None or self._learns_positions():
            published = self.architecture.get("max_position_embeddings")
            reaches.append(published and published - self._family.unused_positions)
        return least(reaches)

    def takeover_errors(self, before: BackboneSettings) -> Iterator[str]:
        """See `BackboneSettings.takeover_errors`: positions must agree, too; mechanisms may differ."""
        yield from super().takeover_errors(before)
        if isinstance(before, Settings) and self.positions != before.positions:
            own, found = (each.positions and each.positions.length for each in (self, before))
            yield f"positions.length is {own}, but the weights come from {found}"

    def blocks(self) -> int | None:
        """See `BackboneSettings.blocks`; layers that share a block count once."""
        groups = self._family.groups
        return self.architecture.get(groups, 1) if groups else self.architecture["num_hidden_layers"]

    def weights(self, vocabulary: int) -> int:
        """See `BackboneSettings.weights`."""
        size = self.architecture
        words = size.get("embedding_size") or size["hidden_size"]
        positions = 0
        if self._learns_positions():
            positions = self.positions.length if self.positions else size["max_position_embeddings"]
        block = self._weights_of_block
        if self._family.global_mask:  # projections of their own for global tokens
            block += 3 * size["hidden_size"] ** 2
        return (self.blocks() or 0) * block + (self.rows(vocabulary) + positions) * words

    @property
    def _weights_of_block(self) -> int:
        """Weights of the matrices of a block."""
        size = self.architecture
        width, heads = size["hidden_size"], size["num_attention_heads"]
        keys = size.get("num_key_value_heads") or heads
        feed_forward = (2 + self._family.gated) * width * size["intermediate_size"]
        return 2 * width * self._head_size * (heads + keys) + feed_forward

    @property
    def _head_size(self) -> int:
        size = self.architecture
        return size.get("head_dim") or size["hidden_size"] // size["num_attention_heads"]

    def products_per_token(self, tokens: int, predicted_share: float) -> float:
        """See `BackboneSettings.products_per_token`."""
        size = self.architecture
        width, heads = size["hidden_size"], size["num_attention_heads"]
        attended = 2 * heads * self._head_size * self.keys_per_query(tokens)
        words = size.get("embedding_size") or width
        scored = (width if "dense" in self._family.head else 0) + (size.get("vocab_size") or VOCABULARY)
        return size["num_hidden_layers"] * (self._weights_of_block + attended) + predicted_share * words * scored
