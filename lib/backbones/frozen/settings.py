"""Settings of encoders that do not train, and of the decision on their vectors. Imports no torch."""

from typing import ClassVar, Literal

from pydantic import Field

from lib.backbones.logistic import LogisticSettings
from lib.backbones.settings import Ability
from lib.backbones.tfidf.settings import Settings as TfidfSettings
from lib.core.settings import EncoderName, PositiveInt, unset
from lib.core.weights import ForeignStart


class EncoderSettings(ForeignStart):
    """An encoder that turns texts into vectors and does not train: published, static, or of a run (its `model`)."""

    pooling: Literal["mean", "first"] = "mean"
    """Vector of the tokens that are read at once: the mean of their states, or the state of the first, such as [CLS];
    of the last layer. Static vectors are always averaged."""
    max_tokens: PositiveInt | None = None
    """Tokens of a document that are read; null = all."""
    segment: PositiveInt = 512
    """Tokens that are read at once. A longer document is read in segments, as few and as equally long as possible."""
    segments: Literal["mean", "first_and_mean"] = "mean"
    """Vector of a document of several segments: the mean of theirs, or the first one and the mean, side by side."""


class Settings(LogisticSettings):
    """Vectors of texts by encoders that do not train, and a linear decision: fitted in one go, without a training loop."""

    takes_pairs: ClassVar[bool] = False

    kind: Literal["frozen"]
    encoders: list[EncoderName] = Field(min_length=1)
    """Names of the encoders; the vectors of several stand side by side, each of length 1."""
    vectors_folders: list[str] | None = Field(None, exclude_if=unset)
    """Folders of their vectors of the documents. In a study they follow from `encoders`, and are left out."""
    tfidf: TfidfSettings | None = Field(None, exclude_if=unset)
    """TF-IDF that stands next to the vectors; null = none. Its fields of the decision are not used."""

    @property
    def abilities(self) -> frozenset[Ability]:
        """See `BackboneSettings.abilities`."""
        return frozenset({"class_probabilities"})

    @property
    def encoder_names(self) -> list[str]:
        """See `BackboneSettings.encoder_names`."""
        return self.encoders

    def folders(self) -> dict[str, str]:
        """See `BackboneSettings.folders`."""
        return {f"vectors_{number}": folder for number, folder in enumerate(self.vectors_folders or ())}
