"""Settings of span corruption."""

from typing import ClassVar, Literal

from pydantic import Field

from lib.backbones.settings import Ability
from lib.core.settings import PositiveFloat
from lib.data.sentinels import dropped
from lib.tasks.settings import TaskSettings


class Settings(TaskSettings):
    """Span corruption: spans of a text are removed, and a model that reads the rest generates them."""

    trains_on: ClassVar[Ability | None] = "generated_text"
    head: ClassVar[str | None] = "text_to_text"

    kind: Literal["span_corruption"]
    corruption_rate: float = Field(
        0.15,
        gt=0,
        lt=1,
        description="Share of a document's tokens that is removed. [CLS], [SEP] and other enclosing tokens stay.",
    )
    mean_span_length: PositiveFloat = Field(
        3.0,
        ge=1,
        description="Mean length of the removed spans, in tokens. It determines the number of spans, and each "
        "takes a sentinel token of the tokeniser (`sentinels`).",
    )

    def predicted_share(self) -> float:
        """See `TaskSettings.predicted_share`; the sentinel before each span is written, too."""
        return self.corruption_rate * (1 + 1 / self.mean_span_length)

    def sentinels(self, tokens: int) -> int:
        """See `TaskSettings.sentinels`."""
        return dropped(tokens, self.corruption_rate, self.mean_span_length)[1]
