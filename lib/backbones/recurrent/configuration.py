"""Configuration of the recurrent models, as saved with their weights."""

from typing import Any, ClassVar

from transformers import AutoConfig

from lib.backbones.configuration import BackboneConfig
from lib.backbones.recurrent.settings import Settings


class RecurrentConfig(BackboneConfig):
    """Describe a recurrent encoder and its head; arguments as of `BackboneConfig`."""

    model_type = "recurrent_encoder"
    settings: ClassVar[type[Settings]] = Settings

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)


AutoConfig.register(RecurrentConfig.model_type, RecurrentConfig)
