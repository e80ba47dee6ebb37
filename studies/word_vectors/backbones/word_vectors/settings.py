"""Settings of the baseline on word vectors."""

from typing import ClassVar, Literal

from lib.backbones.logistic import LogisticSettings
from lib.backbones.settings import Ability
from lib.core.settings import VectorsName


class Settings(LogisticSettings):
    """Mean of a text's word vectors and logistic regression: fitted in one go, without a training loop."""

    takes_pairs: ClassVar[bool] = False  # the mean of a pair's words would not tell what its texts have in common

    kind: Literal["word_vectors"]
    vectors: VectorsName
    """Name of the word vectors; of trained ones, each run takes those of its seed."""
    vectors_folder: str | None = None
    """Folder of the vectors. In a study it follows from `vectors`, and is left out."""
    weighting: Literal["none", "tfidf"] = "none"
    """Whether each occurrence of a word counts alike, or as much as the word is rare in training."""

    @property
    def abilities(self) -> frozenset[Ability]:
        """See `BackboneSettings.abilities`."""
        return frozenset({"class_probabilities"})

    @property
    def word_vectors(self) -> str:
        """See `BackboneSettings.word_vectors`."""
        return self.vectors

    def folders(self) -> dict[str, str]:
        """See `BackboneSettings.folders`."""
        return {"word_vectors": self.vectors_folder} if self.vectors_folder else {}
