"""Configuration of the models around an architecture of transformers, as saved beside their weights."""

from copy import deepcopy
from typing import Any, ClassVar

from transformers import AutoConfig, PretrainedConfig

from lib.backbones.configuration import BackboneConfig
from lib.backbones.pretrained.families import FAMILIES, Direction, Family
from lib.backbones.pretrained.parameters import Parameters
from lib.core.errors import ConfigError


class PretrainedBackboneConfig(BackboneConfig):
    """Describe an architecture and the head on it; arguments as of `BackboneConfig`."""

    model_type = "pretrained_backbone"
    settings: ClassVar[type[Parameters]] = Parameters

    def __init__(self, **kwargs: Any) -> None:
        # Whoever makes a configuration without arguments, as transformers does to tell what differs, gets a small one.
        kwargs.setdefault("architecture", dict(_SMALL))
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

    def inner(self) -> PretrainedConfig:
        """Return the configuration of the architecture itself, switched to the direction of its attention.

        It is made anew each time: some configurations change their own fields according to their switches, or what
        they were given, and would change them again.

        Raises:
            ConfigError: transformers refuses a field of it.
        """
        fields = deepcopy(self.architecture)
        kind = fields.pop("model_type")
        special = {"pad_token_id": self.pad_token_id, "vocab_size": self.vocab_size}
        try:
            return AutoConfig.for_model(kind, **fields | special, **self.family.switches[self.direction])
        except Exception as error:  # each architecture checks its fields in its own way
            raise ConfigError(f"architecture: transformers cannot make a {kind} of it ({error}).") from error


_SMALL = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
}

AutoConfig.register(PretrainedBackboneConfig.model_type, PretrainedBackboneConfig)
