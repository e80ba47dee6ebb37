"""Configuration of the models around an encoder-decoder of transformers, as saved with their weights."""

from typing import Any, ClassVar

from transformers import AutoConfig

from lib.backbones.configuration import ArchitectureConfig
from studies.hate_speech.backbones.encoder_decoder.settings import Settings


class EncoderDecoderBackboneConfig(ArchitectureConfig):
    """Describe an encoder-decoder; arguments as of `BackboneConfig`."""

    model_type = "encoder_decoder_backbone"
    settings: ClassVar[type[Settings]] = Settings
    smallest: ClassVar[dict[str, Any]] = {
        "model_type": "t5",
        "d_model": 64,
        "d_kv": 32,
        "d_ff": 128,
        "num_layers": 2,
        "num_heads": 2,
    }

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        inner = self.inner()
        self.hidden_size = inner.d_model
        self.num_hidden_layers = inner.num_layers
        self.num_attention_heads = inner.num_heads
        # Scores of tokens begin with a variance of 1, as they do where they come from the embeddings.
        self.initializer_range = inner.initializer_factor * inner.d_model**-0.5

    @property
    def start_token_id(self) -> int:
        """The token that the decoder begins with."""
        return self.architecture.get("decoder_start_token_id", self.pad_token_id)


AutoConfig.register(EncoderDecoderBackboneConfig.model_type, EncoderDecoderBackboneConfig)
