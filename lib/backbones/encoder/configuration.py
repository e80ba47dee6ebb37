"""Configuration of the encoder models, as saved with their weights."""

from typing import Any, ClassVar

from transformers import AutoConfig

from lib.attention.settings import MechanismSettings, complete, each_of, parse_mechanisms
from lib.backbones.configuration import BackboneConfig
from lib.backbones.encoder.settings import Settings


class EncoderConfig(BackboneConfig):
    """Describe an encoder, its attention mechanisms and its head.

    Args:
        mechanism: parameters of the attention mechanism, `kind` included, or a list of such that repeats over the
            layers; None = exact attention.
        feature_seed: seed of the mechanism's own draws (features, hash rotations).
        kwargs: the fields of `lib.backbones.encoder.settings.Settings` and those of `BackboneConfig`.

    Raises:
        ConfigError: the mechanism's kind is unknown.
        pydantic.ValidationError: a field of the encoder or a parameter of the mechanism is out of range.
    """

    model_type = "attention_encoder"
    settings: ClassVar[type[Settings]] = Settings

    def __init__(
        self,
        *,
        mechanism: dict[str, Any] | list[dict[str, Any]] | None = None,
        feature_seed: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.mechanism = complete(parse_mechanisms({"kind": "sdpa"} if mechanism is None else mechanism))
        self.feature_seed = feature_seed

    def mechanism_of(self, layer: int) -> MechanismSettings:
        """Return the settings of the mechanism of a layer."""
        held = each_of(parse_mechanisms(self.mechanism))
        return held[layer % len(held)]

    @property
    def head_size(self) -> int:
        """Width of one attention head."""
        return (self.attention_size or self.hidden_size) // self.num_attention_heads


AutoConfig.register(EncoderConfig.model_type, EncoderConfig)
