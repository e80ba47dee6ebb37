"""Configuration of the encoder models, as saved beside their weights."""

from typing import Any, Literal

from transformers import AutoConfig, PretrainedConfig

from lib.backbones.encoder.parameters import Parameters
from lib.core.kinds import MECHANISMS


class EncoderConfig(PretrainedConfig):
    """Describe an encoder, its attention mechanism and its classification head.

    Args:
        vocab_size: tokens in the vocabulary.
        pad_token_id: token whose embedding stays zero at first, as in BERT; None = no such token.
        mechanism: parameters of the attention mechanism, `kind` included; None = exact attention.
        feature_seed: seed of the mechanism's own draws (features, hash rotations).
        classifier_pooling: aggregation of the real tokens into one vector.
        pooling_step: stride of `mean_step`, in tokens.
        classifier_head: style of the classification head.
        classifier_dropout: dropout before the last projection of the classification head.
        kwargs: the fields of `lib.backbones.encoder.parameters.Parameters`, with its defaults, and those of
            transformers (`num_labels`, `id2label`, ...).

    Raises:
        ConfigError: the mechanism's kind is unknown.
        pydantic.ValidationError: a field of the encoder or a parameter of the mechanism is out of range.
    """

    model_type = "attention_encoder"

    def __init__(
        self,
        *,
        vocab_size: int = 30_522,
        pad_token_id: int | None = 0,
        mechanism: dict[str, Any] | None = None,
        feature_seed: int = 0,
        classifier_pooling: Literal["cls", "mean", "max", "min", "mean_step"] = "mean",
        pooling_step: int = 1,
        classifier_head: Literal["bert", "roberta", "none"] = "bert",
        classifier_dropout: float = 0.1,
        **kwargs: Any,
    ) -> None:
        names = [name for name in Parameters.model_fields if name not in ("kind", "mechanism")]
        encoder = Parameters(**{name: kwargs.pop(name) for name in names if name in kwargs})
        super().__init__(**kwargs)
        for name in names:
            setattr(self, name, getattr(encoder, name))
        self.vocab_size = vocab_size
        self.pad_token_id = pad_token_id
        # Complete, defaults included, so that a saved model does not depend on later defaults.
        self.mechanism = MECHANISMS.parse({"kind": "sdpa"} if mechanism is None else mechanism).model_dump()
        self.feature_seed = feature_seed
        self.classifier_pooling = classifier_pooling
        self.pooling_step = pooling_step
        self.classifier_head = classifier_head
        self.classifier_dropout = classifier_dropout

    @property
    def head_size(self) -> int:
        """Width of one attention head."""
        return (self.attention_size or self.hidden_size) // self.num_attention_heads


AutoConfig.register(EncoderConfig.model_type, EncoderConfig)
