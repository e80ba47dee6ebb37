"""Configuration of the models that read documents in segments, as saved with their weights."""

from typing import Any, ClassVar

import transformers
from transformers import AutoConfig

from lib.backbones.configuration import BackboneConfig
from lib.backbones.hierarchical.settings import Settings
from lib.core.errors import ConfigError


class HierarchicalConfig(BackboneConfig):
    """Describe an encoder, the segments that it reads, and the head on them.

    Args:
        encoder: fields of the encoder's own configuration, `model_type` included; None = the recurrent encoder.
        tokens_before: tokens that the tokeniser puts before a text; they stand before every segment.
        tokens_behind: tokens that it puts behind a text.
        kwargs: the fields of `lib.backbones.hierarchical.settings.Settings` and those of `BackboneConfig`.

    Raises:
        ConfigError: a segment has no capacity for a new token.
        pydantic.ValidationError: a field is out of range.
    """

    model_type = "hierarchical_encoder"
    settings: ClassVar[type[Settings]] = Settings

    def __init__(
        self, *, encoder: dict[str, Any] | None = None, tokens_before: int = 1, tokens_behind: int = 1, **kwargs: Any
    ) -> None:
        fields = {"model_type": "recurrent_encoder"} if encoder is None else encoder
        inner = _configuration(fields)
        super().__init__(encoder=inner.parameters, **kwargs)
        self.encoder, self.tokens_before, self.tokens_behind = fields, tokens_before, tokens_behind
        for name in ("hidden_size", "num_hidden_layers", "num_attention_heads", "initializer_range", "layer_norm_eps"):
            if hasattr(inner, name):
                setattr(self, name, getattr(inner, name))
        if self.step < 1:
            raise ConfigError(f"overlap = {self.overlap}: a segment would have {self.step} new tokens. Lower overlap.")

    @property
    def capacity(self) -> int:
        """Tokens of a document that fit into a segment."""
        return self.segment - self.tokens_before - self.tokens_behind

    @property
    def step(self) -> int:
        """Tokens between the starts of two full segments."""
        return self.capacity - self.overlap

    def inner(self) -> BackboneConfig:
        """Return the configuration of the model that encodes a segment as a vector."""
        names = ("vocab_size", "pad_token_id", "classifier_pooling", "pooling_step")
        return _configuration(self.encoder | {name: getattr(self, name) for name in names})

    @property
    def parameters(self) -> Settings:
        """See `BackboneConfig.parameters`."""
        own = {name: getattr(self, name) for name in self._names()}
        return self.settings(**own | {"encoder": self.inner().parameters})


def _configuration(fields: dict[str, Any]) -> Any:
    """Return the configuration of a backbone's model, made of its saved fields."""
    own = dict(fields)
    # By attribute, since importing the name runs the hook of `lib`, which imports subclasses of this module's.
    return transformers.AutoConfig.for_model(own.pop("model_type"), **own)


AutoConfig.register(HierarchicalConfig.model_type, HierarchicalConfig)
