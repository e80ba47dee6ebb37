"""Settings of backbones: the base of all, and the axis that finds each by its kind. Imports no torch."""

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, SerializeAsAny

from lib.attention.settings import Mechanisms, MechanismSettings, each_of, least
from lib.core.kinds import Axis, KindSettings
from lib.core.settings import FEW, LARGE, BaseSettings, Few, PositiveFloat, PositiveInt, Probability, Size

Precision = Literal["fp32", "bf16", "fp16"]

Ability = Literal[
    "states",
    "past_states",
    "generated_text",
    "class_probabilities",
    "character_probabilities",
    "attention_maps",
    "queries_and_keys",
]
"""What a backbone can give: states of tokens for a head, states that depend only on earlier tokens, generated texts,
probabilities of classes or of characters without a head, attention maps, or the projections of queries and keys."""

VOCABULARY = 30_522
"""Tokens assumed where the vocabulary is not known yet: BERT's."""


class BackboneSettings(KindSettings):
    """Base of the settings of every backbone."""

    takes_mechanism: ClassVar[bool] = False
    """Whether a field `mechanism` holds the settings of attention mechanisms, which each model chooses."""
    needs_mechanism: ClassVar[bool] = False
    """Whether it has no attention of its own, so that each model must choose one."""
    own_heads: ClassVar[tuple[str, ...]] = ()
    """Modules of its own folder, each with the only heads (`Head`) that its models have; () = those of
    `lib.backbones.heads`."""
    per_token: ClassVar[bool] = True
    """Whether its states are those of single tokens, which analyses need."""
    takes_pairs: ClassVar[bool] = True
    """Whether it can read two texts as one sequence."""
    decisive: ClassVar[tuple[str, ...]] = ()
    """Fields that must be equal for the weights of another model to be taken over."""
    starts_from_word_vectors: ClassVar[bool] = False
    """Whether word vectors can be its first embeddings."""

    @property
    def abilities(self) -> frozenset[Ability]:
        """All that it can give, see `Ability`."""
        return frozenset({"states"})

    def with_mechanism(self, mechanism: Mechanisms | None) -> Self:
        """Return these settings with the attention mechanism of a model, or with several that repeat over the layers.

        Raises:
            pydantic.ValidationError: the backbone cannot hold this mechanism.
        """
        if not self.takes_mechanism:
            return self
        return type(self).model_validate(self.model_dump() | {"mechanism": mechanism})

    @property
    def held_mechanisms(self) -> list[MechanismSettings]:
        """The attention mechanisms that it holds, which repeat over its layers; [] = it holds none."""
        return each_of(getattr(self, "mechanism", None))

    @property
    def mechanism_of_layers(self) -> list[MechanismSettings]:
        """The mechanism of every layer that attends, from the lowest; [] = it holds none."""
        held = self.held_mechanisms
        return [held[layer % len(held)] for layer in range(self.attention_layers() or len(held))] if held else []

    @property
    def held_backbone(self) -> "BackboneSettings | None":
        """The backbone that it contains, if any."""
        return None

    @property
    def word_vectors(self) -> str | None:
        """Name of the word vectors that it reads, if any. They are handed over by a field `vectors_folder`."""
        return None

    @property
    def encoder_names(self) -> list[str]:
        """Names of the encoders whose vectors it reads. They are handed over by a field `vectors_folders`."""
        return []

    def folders(self) -> dict[str, str]:
        """Return the folders that it reads, by their name in the record."""
        return {}

    @property
    def quantized(self) -> bool:
        """Whether its own weights are quantised before training, so that only adapters train."""
        return False

    @property
    def looks_ahead(self) -> bool:
        """Whether the state of a token depends on later ones, so that the first one's can represent a text."""
        return True

    @property
    def linear_layers(self) -> frozenset[str] | None:
        """Last names of its linear layers that get the adapters of `recipe.lora`; None = known only from a model."""
        return None

    @property
    def family(self) -> str:
        """Name for grouping models in figures."""
        return self.kind

    def longest(self) -> int | None:
        """Return the maximum length of a sequence in tokens; None = any."""
        return None

    def exact_up_to(self) -> int | None:
        """Return how many tokens a document may have to be read without an approximation; None = any number."""
        return least(mechanism.exact_up_to() for mechanism in self.held_mechanisms)

    def keys_per_query(self, tokens: int) -> float:
        """Return the cost of a query in a sequence of `tokens`, in keys, the mean over layers that attend."""
        keys = [mechanism.keys_per_query(tokens) for mechanism in self.mechanism_of_layers]
        return sum(keys) / len(keys) if keys else tokens

    def state_numbers(self, tokens: int) -> int | None:
        """Return the numbers that a model keeps of a text, over all layers and heads (`lib.backbones.state_size`).

        Args:
            tokens: real tokens of the text.

        Returns:
            The numbers; None = unknown.
        """
        return None

    def blocks(self) -> int | None:
        """Return the number of blocks that can be frozen; None = freezing is not available."""
        return None

    def attention_layers(self) -> int | None:
        """Return the number of layers that hold a mechanism, if it holds any; None = known only from a model."""
        return self.blocks()

    def width(self) -> int | None:
        """Return the width of its states; None = known only from a model."""
        return getattr(self, "hidden_size", None)

    def takeover_errors(self, before: "BackboneSettings") -> Iterator[str]:
        """Yield why these settings cannot take over the weights of a backbone with the settings `before`."""
        if before.kind != self.kind:
            yield f"a backbone of kind {self.kind} cannot take over weights of kind {before.kind}"
            return
        for name in self.decisive:
            if getattr(self, name) != getattr(before, name):
                yield f"{name} is {getattr(self, name)}, but the weights come from {getattr(before, name)}"
        layers = itertools.zip_longest(self.mechanism_of_layers, before.mechanism_of_layers)
        pairs = {(own, found): None for own, found in layers if _shares(own) != _shares(found)}
        for own, found in pairs:
            names = [each.name() if each else "its own attention" for each in (own, found)]
            yield f"{names[0]} cannot take over weights of {names[1]}, since only one shares queries and keys"

    def list_errors(self) -> Iterator[str]:
        """Yield why there are too many mechanisms for its layers."""
        held, layers = self.held_mechanisms, self.attention_layers()
        if layers is not None and len(held) > layers:
            names = ", ".join(mechanism.name() for mechanism in held)
            yield f"mechanism = [{names}]: {len(held)} entries for {layers} layers. Shorten the list"

    def weights(self, vocabulary: int) -> int | None:
        """Return about how many weights a model has, those of its large matrices and tables; None = unknown.

        Args:
            vocabulary: tokens of its tokeniser.
        """
        return None

    def products_per_token(self, tokens: int, predicted_share: float) -> float:
        """Return the multiplications that a forward pass costs per token, to estimate how long a training takes.

        Args:
            tokens: length of a sequence.
            predicted_share: share of the tokens whose scores over the vocabulary are computed.
        """
        return 0.0


def _shares(mechanism: MechanismSettings | None) -> bool:
    return mechanism is not None and mechanism.shares_query_and_key


class OwnSettings(BackboneSettings):
    """Base of the settings of encoders whose layers are defined here; each chooses the number of its layers."""

    hidden_size: Size = 512
    """Width of embeddings and states."""
    num_hidden_layers: Few
    embedding_dropout: Probability = 0.1
    """Dropout on the embeddings."""
    layer_norm_eps: PositiveFloat = 1e-12
    """Epsilon of the layer norms."""
    initializer_range: PositiveFloat = 0.02
    """Standard deviation of the initial weights of embeddings, projections and heads; other weights begin as in torch.
    """
    tie_word_embeddings: bool = True
    """Share the MLM decoder's weight with the word embeddings."""

    def blocks(self) -> int | None:
        """See `BackboneSettings.blocks`: the layers."""
        return self.num_hidden_layers


class ArchitectureSettings(BackboneSettings):
    """Base of the settings of an architecture of transformers, of the sizes that its `config.json` gives."""

    architecture: dict[str, Any]

    @property
    def family(self) -> str:
        """The type of the architecture."""
        return self.architecture["model_type"]

    def width(self) -> int | None:
        """See `BackboneSettings.width`."""
        return self.architecture.get("hidden_size")

    def rows(self, tokens: int) -> int:
        """Return the number of word embeddings; a published model may have more than its tokeniser has tokens."""
        return max(tokens, self.architecture.get("vocab_size") or 0)

    def size_errors(self, required: Iterable[str], optional: Mapping[str, type]) -> Iterator[str]:
        """Yield the errors of fields that must be integers above 0, and of fields of other types."""
        for name in required:
            most = FEW if name.endswith(("_layers", "_heads")) else 10 * LARGE
            if not isinstance(size := self.architecture.get(name), int) or size < 1:
                yield f"architecture.{name}: missing, or no whole number above 0. Copy it from the model's config.json"
            elif size > most:
                yield f"architecture.{name}: {size} is more than {most:,}. Copy it from the model's config.json"
        for name, kind in optional.items():
            if not isinstance(value := self.architecture.get(name), kind | None):
                noun = "whole number" if kind is int else "text"
                yield f"architecture.{name}: {value!r} is no {noun}. Copy it from the model's config.json"

    def takeover_errors(self, before: BackboneSettings) -> Iterator[str]:
        """See `BackboneSettings.takeover_errors`: all of the architecture must agree."""
        yield from super().takeover_errors(before)
        if isinstance(before, type(self)):
            for name in sorted(self.architecture.keys() | before.architecture.keys()):
                own, found = self.architecture.get(name), before.architecture.get(name)
                if own != found:
                    yield f"architecture.{name} is {own}, but the weights come from {found}"


class Lora(BaseSettings):
    """Low-rank adapters train instead of the backbone, which is frozen; the head trains as usual."""

    r: Size = 64
    """Rank of the adapters."""
    alpha: PositiveInt | PositiveFloat = 128
    """The output of the adapters is scaled by alpha / r."""
    dropout: Probability = 0.05
    """Dropout before the adapters."""
    targets: list[str] | None = Field(None, min_length=1)
    """Last names of the linear layers that get an adapter, such as `q_proj`; null = all of the backbone, which in a
    decoder are queries, keys, values, output, gate, up and down."""
    merge: bool = True
    """Merge the adapters into the weights of the model that is kept, which is then used like any other; false keeps
    only adapters and head, in `model/adapter`."""

    def error(self, layers: Collection[str] | None) -> str | None:
        """Return why a backbone cannot have these adapters; None if it can.

        Args:
            layers: last names of its linear layers; None = not known yet.
        """
        if layers is None:
            return None
        if not layers:
            return "has no linear layers to adapt"
        if unknown := [target for target in self.targets or () if target not in layers]:
            return f"has no linear layer {', '.join(unknown)} for targets, but {', '.join(sorted(layers))}"
        return None


BACKBONES = Axis("lib.backbones", "backbone", BackboneSettings)

AnyBackbone = Annotated[SerializeAsAny[BackboneSettings], BeforeValidator(BACKBONES.parse)]
