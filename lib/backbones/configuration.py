"""Base of the configurations of all backbones' models; they are saved with the weights."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, ClassVar, Literal

import transformers
from transformers import PretrainedConfig

from lib.attention.settings import complete, parse_mechanisms
from lib.backbones.settings import BackboneSettings
from lib.core.errors import ConfigError

DECIDED_BY_RUNS = (
    "chunk_size_feed_forward",
    "dtype",
    "output_attentions",
    "output_hidden_states",
    "return_dict",
    "torch_dtype",
    "use_return_dict",
)
"""Fields of a `config.json` that say how a model was stored, or how it computes and answers. Runs ignore them."""


class BackboneConfig(PretrainedConfig):
    """Describe a backbone and the head on it.

    A backbone's configuration derives from this class, names its `settings`, and has an `__init__` of its own, since
    transformers replaces a missing one.

    Args:
        vocab_size: tokens in the vocabulary.
        pad_token_id: token whose embedding stays zero at first, as in BERT; None = no such token.
        classifier_pooling: aggregation of the real tokens into one vector, for classification of documents.
        pooling_step: stride of `mean_step`, in tokens.
        classifier_head: style of the head for classification of documents.
        classifier_dropout: dropout before the last projection of a classification head.
        mechanism: parameters of the attention mechanism, `kind` included, or a list of such that repeats over the
            layers that hold one; None = exact attention, or the architecture's own. Only where `settings` have it.
        feature_seed: seed of the mechanism's own draws (features, hash rotations); likewise.
        kwargs: the fields of `settings`, with its defaults, and those of transformers (`num_labels`, `id2label`, ...).

    Raises:
        ConfigError: the mechanism's kind is unknown.
        pydantic.ValidationError: a field of the backbone or a parameter of the mechanism is out of range.
    """

    settings: ClassVar[type[BackboneSettings]]
    """Settings of the backbone's kind."""

    def __init__(
        self,
        *,
        vocab_size: int = 30_522,
        pad_token_id: int | None = 0,
        classifier_pooling: Literal["cls", "mean", "max", "min", "mean_step"] = "mean",
        pooling_step: int = 1,
        classifier_head: Literal["bert", "roberta", "none"] = "bert",
        classifier_dropout: float = 0.1,
        mechanism: dict[str, Any] | list[dict[str, Any]] | None = None,
        feature_seed: int = 0,
        **kwargs: Any,
    ) -> None:
        names = self._names()
        given = self.settings(**{name: kwargs.pop(name) for name in names if name in kwargs})
        super().__init__(**kwargs)
        for name in names:
            setattr(self, name, getattr(given, name))
        self.vocab_size = vocab_size
        self.pad_token_id = pad_token_id
        self.classifier_pooling = classifier_pooling
        self.pooling_step = pooling_step
        self.classifier_head = classifier_head
        self.classifier_dropout = classifier_dropout
        if "mechanism" in self.settings.model_fields:
            chosen = {"kind": "sdpa"} if mechanism is None and given.needs_mechanism else mechanism
            self.mechanism = None if chosen is None else complete(parse_mechanisms(chosen))
            self.feature_seed = feature_seed

    @classmethod
    def _names(cls) -> list[str]:
        return [name for name in cls.settings.model_fields if name not in ("kind", "mechanism")]

    @property
    def words(self) -> str:
        """Name of the word embeddings in the model without a head."""
        return "embeddings.word_embeddings"

    @property
    def dense_head(self) -> bool:
        """Whether a dense layer precedes the projection to the vocabulary, as in BERT."""
        return True

    @property
    def token_types(self) -> int:
        """Number of token types with an embedding, which distinguish the texts of a pair; 0 = none."""
        return getattr(self, "type_vocab_size", 0)

    @property
    def parameters(self) -> BackboneSettings:
        """The parameters of the backbone that this configuration describes."""
        return self.settings(**{name: getattr(self, name) for name in self.settings.model_fields if name != "kind"})


class ArchitectureConfig(BackboneConfig):
    """Describe an architecture and the head on it; arguments as of `BackboneConfig`."""

    smallest: ClassVar[Mapping[str, Any]]
    """The architecture of a configuration without arguments, which transformers builds to find differing fields."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"architecture": dict(self.smallest)} | kwargs)

    def switches(self) -> Mapping[str, Any]:
        """Return fields of the architecture that follow from other settings."""
        return {}

    def fields(self) -> dict[str, Any]:
        """Return the fields of the architecture, `model_type` included, as its `config.json` names them."""
        return deepcopy(self.architecture)

    def inner(self) -> PretrainedConfig:
        """Return the configuration of the architecture itself.

        It is created at each call, since some configurations change their own fields when they are created.

        Raises:
            ConfigError: transformers refuses a field of it.
        """
        fields = {name: value for name, value in self.fields().items() if name not in DECIDED_BY_RUNS}
        kind = fields.pop("model_type")
        special = {"pad_token_id": self.pad_token_id, "vocab_size": self.vocab_size}
        try:
            # By attribute, since importing the name runs the hook of `lib`, which imports subclasses of this module's.
            return transformers.AutoConfig.for_model(kind, **fields | special, **self.switches())
        except Exception as error:  # each architecture checks its fields in its own way
            raise ConfigError(f"architecture: transformers cannot make a {kind} of it ({error}).") from error
