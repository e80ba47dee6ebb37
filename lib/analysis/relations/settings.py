"""Settings of the analysis of relations."""

from typing import ClassVar, Literal

from pydantic import Field

from lib.analysis.settings import AnalysisSettings
from lib.backbones.settings import Ability
from lib.core.settings import Size

LONGEST = 64
"""Tokens that a generated sentence has at most, by an ordinary vocabulary."""
NAMES = {
    "determiner": "determiner to noun",
    "adjective": "adjective to noun",
    "subject": "subject to verb",
    "pronoun": "pronoun to antecedent",
    "name": "name to the same name",
}
"""The relations, and what figures and tables call them."""


class Settings(AnalysisSettings):
    """Which attention heads point from a word to the word that it belongs to, in generated English sentences."""

    needs: ClassVar[Ability] = "attention_maps"

    kind: Literal["relations"]
    sentences: Size = Field(
        600, ge=30, description="Generated sentences. Half of them choose heads and offsets, the others score them."
    )

    @property
    def tokens_needed(self) -> int:
        """See the base."""
        return LONGEST
