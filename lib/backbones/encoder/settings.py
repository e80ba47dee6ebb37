"""Settings of the encoder, the same for all mechanisms. Names follow transformers."""

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from lib.attention.settings import AnyMechanisms, kinds_of, least
from lib.backbones.settings import VOCABULARY, Ability, OwnSettings
from lib.core.settings import LARGE, Few, PositiveFloat, PositiveInt, Probability, Size, SizeOrZero, check, unset


class Settings(OwnSettings):
    """BERT-style encoder: sizes and dropouts; each field is the field of the same name in `EncoderConfig`."""

    takes_mechanism: ClassVar[bool] = True
    needs_mechanism: ClassVar[bool] = True
    decisive: ClassVar[tuple[str, ...]] = (
        "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "kv_rank", "attention_size",
        "intermediate_size", "position_embedding_type", "type_vocab_size", "attention_bias",
    )  # fmt: skip

    kind: Literal["encoder"] = "encoder"
    mechanism: AnyMechanisms | None = None
    """Parameters of the attention mechanism, or a list that repeats over the layers; each model names its own under
    `mechanism`."""
    num_hidden_layers: Few = 4
    """Encoder blocks."""
    num_attention_heads: Few = 8
    """Attention heads; divides `attention_size`."""
    num_key_value_heads: Few | None = Field(None, exclude_if=unset)
    """Heads of keys and values; each serves several heads of queries (grouped-query attention; with 1, multi-query
    attention); divides `num_attention_heads`; null = the number of heads of queries."""
    kv_rank: Size | None = Field(None, exclude_if=unset)
    """Width of one narrow projection of the states; keys and values are projected from it (latent attention); null =
    both are projected from the states themselves."""
    attention_size: Size | None = None
    """Width of queries, keys and values over all heads; null = `hidden_size`."""
    intermediate_size: Size = 2048
    """Width of the feed-forward layer (GELU)."""
    position_embedding_type: Literal["learned", "sinusoidal", "rope", "alibi", "none"] = "rope"
    """Position encoding: `learned` and `sinusoidal` are added to embeddings, `rope` rotates queries and keys, `alibi`
    lowers scores by distance (only for mechanisms that form scores); with `none` the order of the tokens is lost."""
    max_position_embeddings: Annotated[int, Field(gt=0, le=10 * LARGE)] = 16_384
    """Positions that `learned` reaches, in tokens."""
    rope_theta: PositiveFloat = 10_000.0
    """Base of the rotary frequencies."""
    rope_scale: PositiveFloat = 1.0
    """Factor on the rotary phase."""
    rope_type: Literal["default", "linear", "yarn"] = "default"
    """How rotary positions are stretched over longer texts than those of the training: `default` does not stretch them,
    `linear` slows down all rotations, `yarn` slows down only the slow ones and sharpens attention."""
    rope_factor: PositiveFloat = Field(1.0, ge=1)
    """Stretching factor of `linear` and `yarn`."""
    rope_original_length: PositiveInt | None = None
    """Length of the earlier training in tokens; `yarn` needs it to find slow rotations."""
    type_vocab_size: SizeOrZero = 0
    """Token types; 0 = no token-type embedding."""
    attention_bias: bool = True
    """Biases in the query, key, value and output projections."""
    mlp_dropout: Probability = 0.1
    """Dropout on the feed-forward output."""
    attention_output_dropout: Probability = 0.1
    """Dropout on the attention block's output."""
    attention_dropout: Probability = 0.0
    """Dropout on the attention weights."""
    embedding_initializer_range: PositiveFloat | None = None
    """Standard deviation of the initial embeddings; null = `initializer_range`."""

    @property
    def abilities(self) -> frozenset[Ability]:
        """See `BackboneSettings.abilities`: maps need non-negative weights; with a latent, keys have two matrices."""
        found: set[Ability] = {"states"}
        if self.kv_rank is None and all(mechanism.reads() != "states" for mechanism in self.held_mechanisms):
            found.add("queries_and_keys")
        if all(mechanism.row_stochastic for mechanism in self.held_mechanisms):
            found.add("attention_maps")
        return frozenset(found)

    @property
    def linear_layers(self) -> frozenset[str]:
        """See `BackboneSettings.linear_layers`."""
        held = self.held_mechanisms
        keys = set() if held and all(mechanism.shares_query_and_key for mechanism in held) else {"key"}
        latent = set() if self.kv_rank is None else {"latent"}
        return frozenset({"query", "value", "output", "intermediate"} | keys | latent)

    @check
    def _layers_suffice(self) -> Iterator[str]:
        yield from self.list_errors()

    @check
    def _heads_divide_the_width(self) -> Iterator[str]:
        width = self.attention_size or self.hidden_size
        if width % self.num_attention_heads:
            yield f"num_attention_heads = {self.num_attention_heads} does not divide {width}. Choose a divisor"
        elif self.position_embedding_type == "rope" and self.head_size % 2:
            yield f"heads are {self.head_size} wide, but `rope` turns pairs. Change num_attention_heads"

    @check
    def _keys_and_values_fit_the_queries(self) -> Iterator[str]:
        if (heads := self.num_key_value_heads) and self.num_attention_heads % heads:
            yield f"num_key_value_heads = {heads} does not divide num_attention_heads = {self.num_attention_heads}"
        sharing = [mechanism.name() for mechanism in self.held_mechanisms if mechanism.shares_query_and_key]
        for name in ("num_key_value_heads", "kv_rank") if sharing else ():
            if self._is_set(name):
                shared = f"{', '.join(sharing)} has one projection for queries and keys"
                yield f"{name} = {getattr(self, name)}, but {shared}. Leave it out"

    @check
    def _rotations_are_stretched_consistently(self) -> Iterator[str]:
        kind = self.rope_type
        if self.position_embedding_type != "rope":
            return
        needed = {"default": (), "linear": ("rope_factor",), "yarn": ("rope_factor", "rope_original_length")}[kind]
        for name in ("rope_factor", "rope_original_length"):
            if self._is_set(name) != (name in needed):
                needs = "needs another value" if name in needed else "does nothing with it; leave it out"
                yield f"{name} = {getattr(self, name)}, but rope_type = '{kind}' {needs}"
        if kind == "yarn" and self.rope_theta <= 1:
            yield f"rope_theta = {self.rope_theta}, but 'yarn' needs fast and slow rotations. Set it above 1"

    @check
    def _scores_can_be_lowered(self) -> Iterator[str]:
        for mechanism in self.held_mechanisms if self.position_embedding_type == "alibi" else ():
            if not mechanism.takes_bias:
                yield f"position_embedding_type = 'alibi', but {mechanism.name()} forms no scores. Choose 'rope'"

    @check
    def _order_is_told(self) -> Iterator[str]:
        for mechanism in self.held_mechanisms if self.position_embedding_type == "rope" else ():
            if mechanism.reads() == "states" and not mechanism.tells_order():
                turned = f"turns queries and keys; {mechanism.name()} has its own"
                yield f"position_embedding_type = 'rope' {turned}. Choose sinusoidal, or own_order: true"

    @check
    def _weights_can_be_dropped(self) -> Iterator[str]:
        for mechanism in self.held_mechanisms if self.attention_dropout else ():
            if not mechanism.takes_attention_dropout:
                reason = f"{mechanism.name()} has no attention weights to drop"
                yield f"attention_dropout = {self.attention_dropout}, but {reason}. Set it to 0"

    def _is_set(self, name: str) -> bool:
        return getattr(self, name) != type(self).model_fields[name].default

    @property
    def head_size(self) -> int:
        """Width of one attention head."""
        return (self.attention_size or self.hidden_size) // self.num_attention_heads

    @property
    def family(self) -> str:
        """The kinds of its mechanisms."""
        return kinds_of(self.held_mechanisms) or self.kind

    def longest(self) -> int | None:
        """See `BackboneSettings.longest`: learned positions have an end, and so have some mechanisms."""
        of_positions = self.max_position_embeddings if self.position_embedding_type == "learned" else None
        return least([of_positions, *(mechanism.longest() for mechanism in self.held_mechanisms)])

    def weights(self, vocabulary: int) -> int:
        """See `BackboneSettings.weights`; those of a mechanism are left out."""
        positions = self.max_position_embeddings if self.position_embedding_type == "learned" else 0
        shared = sum(mechanism.shares_query_and_key for mechanism in self.mechanism_of_layers)
        layers = self.num_hidden_layers * self._weights_of_block - shared * self.hidden_size * self._width_of_keys
        return layers + (vocabulary + positions) * self.hidden_size

    @property
    def _width_of_keys(self) -> int:
        return self.head_size * (self.num_key_value_heads or self.num_attention_heads)

    @property
    def _weights_of_block(self) -> int:
        """Weights of the matrices of a block, with one each for queries and keys."""
        width, source = self.attention_size or self.hidden_size, self.kv_rank or self.hidden_size
        queries_and_output, latent = 2 * self.hidden_size * width, self.hidden_size * (self.kv_rank or 0)
        projections = queries_and_output + 2 * source * self._width_of_keys + latent
        return projections + 2 * self.hidden_size * self.intermediate_size

    def products_per_token(self, tokens: int, predicted_share: float) -> float:
        """See `BackboneSettings.products_per_token`."""
        width = self.attention_size or self.hidden_size
        block = self._weights_of_block + 2 * width * self.keys_per_query(tokens)
        return self.num_hidden_layers * block + predicted_share * self.hidden_size * VOCABULARY

    def state_numbers(self, tokens: int) -> int | None:
        """Return the state that the mechanisms keep, in all layers and heads of keys.

        Keys and values that are projected from a latent (`kv_rank`) count as such, and not as the latent.
        """
        numbers = [mechanism.state_numbers(tokens, self.head_size) for mechanism in self.mechanism_of_layers]
        known = [number for number in numbers if number is not None]
        heads = self.num_key_value_heads or self.num_attention_heads
        return heads * sum(known) if known and len(known) == len(numbers) else None
