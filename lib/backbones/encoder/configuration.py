"""Configuration of the encoder models, as saved with their weights."""

from typing import Any, ClassVar

from transformers import AutoConfig

from lib.attention.settings import MECHANISMS
from lib.backbones.configuration import BackboneConfig
from lib.backbones.encoder.settings import Settings


class EncoderConfig(BackboneConfig):
    """Describe an encoder, its attention mechanism and its head.

    Args:
        mechanism: parameters of the attention mechanism, `kind` included; None = exact attention.
        feature_seed: seed of the mechanism's own draws (features, hash rotations).
        kwargs: the fields of `lib.backbones.encoder.settings.Settings` and those of `BackboneConfig`.

    Raises:
        ConfigError: the mechanism's kind is unknown.
        pydantic.ValidationError: a field of the encoder or a parameter of the mechanism is out of range.
    """

    model_type = "attention_encoder"
    settings: ClassVar[type[Settings]] = Settings

    def __init__(self, *, mechanism: dict[str, Any] | None = None, feature_seed: int = 0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        # Complete, defaults included, so that a saved model does not depend on later defaults.
        self.mechanism = MECHANISMS.parse({"kind": "sdpa"} if mechanism is None else mechanism).model_dump()
        self.feature_seed = feature_seed

    @property
    def head_size(self) -> int:
        """Width of one attention head."""
        return (self.attention_size or self.hidden_size) // self.num_attention_heads


AutoConfig.register(EncoderConfig.model_type, EncoderConfig)
