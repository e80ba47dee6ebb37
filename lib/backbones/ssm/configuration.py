"""Configuration of the state-space models, as saved with their weights."""

from typing import Any, ClassVar

from transformers import AutoConfig

from lib.backbones.configuration import BackboneConfig
from lib.backbones.ssm.settings import Settings


class SsmConfig(BackboneConfig):
    """Describe a state-space encoder and its head; arguments as of `BackboneConfig`."""

    model_type = "ssm_encoder"
    settings: ClassVar[type[Settings]] = Settings

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        _ = self.parameters  # refuses a mechanism that does not fit the layers


AutoConfig.register(SsmConfig.model_type, SsmConfig)
