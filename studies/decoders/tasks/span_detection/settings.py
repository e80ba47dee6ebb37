"""Settings of the detection of spans."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from lib.backbones.settings import Ability
from lib.core.labels import LabelForm
from lib.core.settings import Probability
from lib.tasks.settings import TaskSettings


class Settings(TaskSettings):
    """Detection of spans: the state of each token gives the probability that its characters are in a span."""

    evaluates_on: ClassVar[Ability | None] = "character_probabilities"
    labelled: ClassVar[bool] = True
    label_form: ClassVar[LabelForm] = "span"
    head: ClassVar[str | None] = "token_classification"
    predicts: ClassVar[bool] = True
    keeps: ClassVar[Literal["best", "last"]] = "best"
    splits: ClassVar[tuple[str, ...]] = ("train", "validation", "test")

    kind: Literal["span_detection"]
    classifier_dropout: Probability = 0.1
    """Dropout before the projection."""
    threshold: Literal["search", "balance"] | Annotated[float, Field(gt=0, lt=1)] = "search"
    """Least probability of a character inside a span. `search`: the best one on validation by F1 of characters, from
    0.10 to 0.50 in steps of 0.01; `balance`: the one whose number of characters found on validation equals the true
    number; or a number. Test uses the threshold of validation."""
