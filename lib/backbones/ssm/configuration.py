"""Configuration of the state-space models, as saved with their weights."""

from typing import Any, ClassVar

from transformers import AutoConfig

from lib.attention.settings import complete, parse_mechanisms
from lib.backbones.configuration import BackboneConfig
from lib.backbones.ssm.settings import Settings


class SsmConfig(BackboneConfig):
    """Describe a state-space encoder and its head.

    Args:
        mechanism: parameters of the attention mechanism of the layers that attend, or a list of such that repeats over
            them; None = exact attention.
        feature_seed: seed of the mechanism's own draws (features, hash rotations).
        kwargs: the fields of `lib.backbones.ssm.settings.Settings` and those of `BackboneConfig`.

    Raises:
        ConfigError: the mechanism's kind is unknown.
        pydantic.ValidationError: a field of the encoder or a parameter of the mechanism is out of range.
    """

    model_type = "ssm_encoder"
    settings: ClassVar[type[Settings]] = Settings

    def __init__(
        self,
        *,
        mechanism: dict[str, Any] | list[dict[str, Any]] | None = None,
        feature_seed: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if mechanism is None and self.attention_period is not None:
            mechanism = {"kind": "sdpa"}
        self.mechanism = None if mechanism is None else complete(parse_mechanisms(mechanism))
        self.feature_seed = feature_seed
        _ = self.parameters  # refuses a mechanism that does not fit the layers


AutoConfig.register(SsmConfig.model_type, SsmConfig)
