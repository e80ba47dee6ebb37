"""Configuration of the models around an architecture of transformers, as saved with their weights."""

from collections.abc import Mapping
from typing import Any, ClassVar, cast

from transformers import AutoConfig, PretrainedConfig

from lib.backbones.configuration import ArchitectureConfig
from lib.backbones.pretrained.families import FAMILIES, Direction, Family
from lib.backbones.pretrained.fields import in_own_names
from lib.backbones.pretrained.settings import Settings
from lib.core.errors import ConfigError


class PretrainedBackboneConfig(ArchitectureConfig):
    """Describe an architecture and the head on it; arguments as of `BackboneConfig`."""

    model_type = "pretrained_backbone"
    settings: ClassVar[type[Settings]] = Settings
    smallest: ClassVar[dict[str, Any]] = {
        "model_type": "llama",
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
    }

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.positions = self.positions and dict(self.positions)  # type: ignore[has-type]
        for name in ("hidden_size", "num_hidden_layers", "num_attention_heads"):
            setattr(self, name, self.architecture[name])
        inner = self.inner()
        self.tie_word_embeddings = bool(getattr(inner, "tie_word_embeddings", False))
        self.initializer_range = inner.initializer_range
        if self.dense_head:  # of encoders, whose heads end in a norm, too
            self.layer_norm_eps = 1e-12  # DistilBERT has no field for it
        for name in ("layer_norm_eps", "norm_eps"):
            if hasattr(inner, name):
                self.layer_norm_eps = getattr(inner, name)

    @property
    def parameters(self) -> Settings:
        """The parameters of the backbone that this configuration describes."""
        return cast(Settings, super().parameters)

    @property
    def family(self) -> Family:
        """The family of the architecture."""
        return FAMILIES[self.architecture["model_type"]]

    @property
    def head_size(self) -> int:
        """Width of one attention head."""
        return getattr(self.inner(), "head_dim", None) or self.hidden_size // self.num_attention_heads

    @property
    def direction(self) -> Direction:
        """The direction of its attention after the opening."""
        return "causal" if self.attention == "causal" else "bidirectional"

    @property
    def words(self) -> str:
        """See `BackboneConfig.words`."""
        return f"inner.{self.family.words}"

    @property
    def token_types(self) -> int:
        """See `BackboneConfig.token_types`."""
        return getattr(self.inner(), "type_vocab_size", 0)

    @property
    def dense_head(self) -> bool:
        """See `BackboneConfig.dense_head`: a head is made of the parts that the family's own language models have."""
        return "dense" in self.family.head

    @property
    def head_activation(self) -> str:
        """Activation of the head that predicts tokens, as `ACT2FN` of transformers names it."""
        field = self.family.head_activation
        return getattr(self.inner(), field) if field else "gelu"

    @property
    def score_divisor(self) -> float:
        """Divisor of the scores of tokens, as Granite has it."""
        return getattr(self.inner(), "logits_scaling", 1.0)

    @property
    def score_cap(self) -> float | None:
        """Bound that a tanh keeps the scores of tokens below, as Gemma 2 has it; None = none."""
        return getattr(self.inner(), "final_logit_softcapping", None)

    @property
    def word_width(self) -> int:
        """Width of a word embedding; some families project narrower ones to the width of a state."""
        return getattr(self.inner(), "embedding_size", None) or self.hidden_size

    @property
    def first_position(self) -> int:
        """Position of a document's first token."""
        family = self.family
        if family.first_position is None:
            return 0
        padding = self.pad_token_id if family.padding is None else family.padding
        if padding is None:
            raise ConfigError("tokeniser: no token for padding, after which positions begin. Use the published one.")
        return family.first_position + padding

    def fields(self) -> dict[str, Any]:
        """See `ArchitectureConfig.fields`."""
        fields = super().fields()
        if self.attention_dropout is not None:
            fields[self.family.attention_dropout] = self.attention_dropout
        if self.positions:
            fields.pop("rope_scaling", None)  # which is in the rotary parameters by now
            fields |= longer(self.published().inner(), self.family, **self.positions)
        return in_own_names(fields)

    def published(self) -> "PretrainedBackboneConfig":
        """Return the configuration of the published model."""
        names = ("architecture", "vocab_size", "pad_token_id")
        # Gradual attention has the weights of open attention, and its steps are no part of the published model.
        return PretrainedBackboneConfig(attention=self.direction, **{name: getattr(self, name) for name in names})

    def causal_window(self) -> int | None:
        """Return the first distance that a causal model of this architecture does not see in layers with a window.

        Returns:
            None = no layer has a window.
        """
        causal = PretrainedBackboneConfig(architecture=self.architecture, attention="causal")
        return getattr(causal.inner(), "sliding_window", None)

    def switches(self) -> Mapping[str, Any]:
        """See `ArchitectureConfig.switches`: those of the direction of its attention."""
        return self.family.switches[self.direction]


def longer(published: PretrainedConfig, family: Family, *, length: int, fill: str) -> dict[str, Any]:
    """Return the fields of an architecture that make it read longer texts.

    Args:
        published: configuration of the architecture as it was published.
        family: its family.
        length: tokens that a text may have.
        fill: see `lib.backbones.pretrained.settings.Positions`.
    """
    if fill == "tiled":
        return {"max_position_embeddings": length + family.unused_positions}
    reach, rotary = published.max_position_embeddings, published.rope_parameters
    stretched = {"rope_type": fill, "factor": length / reach, "original_max_position_embeddings": reach}
    if "full_attention" in rotary:  # layers with a window see no further than before
        parameters = rotary | {"full_attention": rotary["full_attention"] | stretched}
    else:
        parameters = rotary | stretched
    return {"max_position_embeddings": length, "rope_parameters": parameters}


AutoConfig.register(PretrainedBackboneConfig.model_type, PretrainedBackboneConfig)
