"""Settings of the analysis of approximations."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from lib.analysis.settings import AnalysisSettings
from lib.backbones.settings import Ability
from lib.core.settings import Few, PositiveInt, Size


class Settings(AnalysisSettings):
    """How near FAVOR+ and LSH come to exact attention on a model's queries and keys, as drawn and as trained."""

    needs: ClassVar[Ability] = "attention_maps"
    tries: ClassVar[tuple[str, ...]] = ("favor", "lsh")

    kind: Literal["approximation"]
    documents: PositiveInt = Field(200, description="How many documents of test are read, at most.")
    length: Size = Field(
        256, ge=3, description="Tokens that longer documents are cut to, since exact attention forms all pairs of them."
    )
    features: list[Annotated[Size, Field(ge=2, multiple_of=2)]] = Field(
        [64, 128, 256, 512], min_length=1, description="Numbers of features of FAVOR+; even."
    )
    hashes: list[Few] = Field([2, 4], min_length=1, description="Hash rounds of LSH.")
    chunk_sizes: list[Size] = Field(
        [64, 128],
        min_length=1,
        description="Tokens in a chunk of LSH; a window holds three, so `length` should be far above.",
    )
