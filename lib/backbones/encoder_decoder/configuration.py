"""Configuration of the models around an encoder-decoder of transformers, as saved beside their weights."""

from copy import deepcopy
from typing import Any, ClassVar

from transformers import AutoConfig, PretrainedConfig

from lib.backbones.configuration import BackboneConfig
from lib.backbones.encoder_decoder.parameters import Parameters
from lib.core.errors import ConfigError


class EncoderDecoderBackboneConfig(BackboneConfig):
    """Describe an encoder-decoder; arguments as of `BackboneConfig`."""

    model_type = "encoder_decoder_backbone"
    settings: ClassVar[type[Parameters]] = Parameters

    def __init__(self, **kwargs: Any) -> None:
        # Whoever makes a configuration without arguments, as transformers does to tell what differs, gets a small one.
        kwargs.setdefault("architecture", dict(_SMALL))
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

    def inner(self) -> PretrainedConfig:
        """Return the configuration of the architecture itself, made anew each time.

        Raises:
            ConfigError: transformers refuses a field of it.
        """
        fields = deepcopy(self.architecture)
        kind = fields.pop("model_type")
        try:
            return AutoConfig.for_model(
                kind, **fields | {"pad_token_id": self.pad_token_id, "vocab_size": self.vocab_size}
            )
        except Exception as error:  # each architecture checks its fields in its own way
            raise ConfigError(f"architecture: transformers cannot make a {kind} of it ({error}).") from error


_SMALL = {"model_type": "t5", "d_model": 64, "d_kv": 32, "d_ff": 128, "num_layers": 2, "num_heads": 2}

AutoConfig.register(EncoderDecoderBackboneConfig.model_type, EncoderDecoderBackboneConfig)
