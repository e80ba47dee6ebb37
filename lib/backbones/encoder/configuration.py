"""Configuration of the encoder models, as saved with their weights."""

from typing import Any, ClassVar

from transformers import AutoConfig

from lib.backbones.configuration import BackboneConfig
from lib.backbones.encoder.settings import Settings


class EncoderConfig(BackboneConfig):
    """Describe an encoder, its attention mechanisms and its head; arguments as of `BackboneConfig`."""

    model_type = "attention_encoder"
    settings: ClassVar[type[Settings]] = Settings

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)

    @property
    def head_size(self) -> int:
        """Width of one attention head."""
        return (self.attention_size or self.hidden_size) // self.num_attention_heads


AutoConfig.register(EncoderConfig.model_type, EncoderConfig)
