"""Settings of the decision on vectors of encoders that do not train."""

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from pydantic import Field, ValidationError

from lib.backbones.logistic import LogisticSettings
from lib.backbones.settings import BACKBONES, Ability, BackboneSettings
from lib.core.settings import EncoderName, check, sentences, unset


class Settings(LogisticSettings):
    """Vectors of texts by encoders that do not train, and a linear decision: fitted in one go."""

    takes_pairs: ClassVar[bool] = False

    kind: Literal["frozen"]
    encoders: list[EncoderName] = Field(min_length=1)
    """Names of the encoders; the vectors of several stand side by side, each of length 1."""
    vectors_folders: list[str] | None = Field(None, exclude_if=unset)
    """Folders of their vectors of the documents. In a study they follow from `encoders`, and are left out."""
    tfidf: dict[str, Any] | None = Field(None, exclude_if=unset)
    """TF-IDF that stands next to the vectors: fields of kind `tfidf` other than those of the decision, or {}; null =
    none."""

    @check
    def _terms_are_valid(self) -> Iterator[str]:
        try:
            self.terms()
        except ValidationError as error:
            yield from (f"tfidf.{'.'.join(place)}: {sentence}" for place, sentence in sentences(error))

    def terms(self) -> BackboneSettings | None:
        """Return the settings of TF-IDF; None = there is none."""
        return None if self.tfidf is None else BACKBONES.parse({"kind": "tfidf", **self.tfidf})

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
