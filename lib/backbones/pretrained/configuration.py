"""Configuration of the models around an architecture of transformers, as saved beside their weights."""

from collections.abc import Mapping
from typing import Any, ClassVar

from transformers import AutoConfig

from lib.backbones.configuration import ArchitectureConfig
from lib.backbones.pretrained.families import FAMILIES, Direction, Family
from lib.backbones.pretrained.parameters import Parameters


class PretrainedBackboneConfig(ArchitectureConfig):
    """Describe an architecture and the head on it; arguments as of `BackboneConfig`."""

    model_type = "pretrained_backbone"
    settings: ClassVar[type[Parameters]] = Parameters
    smallest: ClassVar[dict[str, Any]] = {
        "model_type": "llama",
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
    }

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        for name in ("hidden_size", "num_hidden_layers", "num_attention_heads"):
            setattr(self, name, self.architecture[name])
        inner = self.inner()
        self.tie_word_embeddings = bool(getattr(inner, "tie_word_embeddings", False))
        self.initializer_range = inner.initializer_range
        for name in ("layer_norm_eps", "norm_eps"):
            if hasattr(inner, name):  # of encoders, whose heads end in a norm, too
                self.layer_norm_eps = getattr(inner, name)

    @property
    def family(self) -> Family:
        """The family of the architecture."""
        return FAMILIES[self.architecture["model_type"]]

    @property
    def direction(self) -> Direction:
        """The direction in which it attends in the end."""
        return "causal" if self.attention == "causal" else "bidirectional"

    @property
    def words(self) -> str:
        """See `BackboneConfig.words`."""
        return f"inner.{self.family.words}"

    @property
    def dense_head(self) -> bool:
        """See `BackboneConfig.dense_head`: a head is made of the parts that the family's own language models have."""
        return "dense" in self.family.head

    def fields(self) -> dict[str, Any]:
        """See `ArchitectureConfig.fields`: some families have another name for the feed-forward layer's width."""
        fields, name = super().fields(), self.family.feed_forward
        if name not in fields:
            width = fields.pop("intermediate_size")
            fields[name] = None if width == 4 * fields["hidden_size"] else width
        return fields

    def causal_window(self) -> int | None:
        """Return at which distance a causal model of this architecture sees nothing any more in layers with a window.

        Returns:
            None = no layer has a window.
        """
        causal = PretrainedBackboneConfig(architecture=self.architecture, attention="causal")
        return getattr(causal.inner(), "sliding_window", None)

    def switches(self) -> Mapping[str, Any]:
        """See `ArchitectureConfig.switches`: those of the direction in which it attends."""
        return self.family.switches[self.direction]


AutoConfig.register(PretrainedBackboneConfig.model_type, PretrainedBackboneConfig)
