"""Settings of tasks: the base of all, and the axis that finds each by its kind. Imports no torch."""

import functools
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, SerializeAsAny

from lib.backbones.parameters import BACKBONES, Ability, BackboneParameters
from lib.core.kinds import Axis, KindParameters
from lib.data.sections.texts import Texts


class TaskParameters(KindParameters):
    """Base of the parameters of every task."""

    trains_on: ClassVar[Ability | None] = "states"
    """What it needs of a backbone to be trained; None = it never trains."""
    evaluates_on: ClassVar[Ability | None] = None
    """What it needs of a backbone that does it by itself, without a training loop or weights from one; None = no
    backbone does."""
    labelled: ClassVar[bool] = False
    """Whether documents need labels."""
    label_per: ClassVar[Literal["document", "word", "span"]] = "document"
    """What bears a label, if the task needs labels."""
    numbers: ClassVar[bool] = False
    """Whether labels are numbers, and no classes."""
    texts: ClassVar[tuple[Texts, ...]] = ("single",)
    """How it reads documents: as single texts, or as pairs of texts, together or separately."""
    head: ClassVar[str | None] = None
    """Name of the module with a backbone's model for the task; None = that of the task's kind."""
    predicts: ClassVar[bool] = False
    """Whether a run leaves predictions; then a model that was trained on it can be evaluated without a recipe, too."""
    keeps: ClassVar[Literal["best", "last"]] = "last"
    """Which epoch's model is kept if the recipe does not say."""
    splits: ClassVar[tuple[str, ...]] = ("train", "validation")
    """Splits that a run reads."""

    def trains(self, backbone: BackboneParameters) -> bool:
        """Whether a backbone can be trained on it: does what it needs, and has a model for it if others have one."""
        return self.trains_on in backbone.abilities and not _lacks_model(backbone.kind, self.head or self.kind)

    def evaluates(self, backbone: BackboneParameters) -> bool:
        """Whether a backbone does it by itself, without a training loop or weights from one."""
        return self.evaluates_on in backbone.abilities and not _lacks_model(backbone.kind, self.head or self.kind)

    def predicted_share(self) -> float:
        """Return the share of the tokens for which scores over the vocabulary are computed."""
        return 0.0

    def sentinels(self, tokens: int) -> int:
        """Return how many sentinel tokens a document of so many tokens takes."""
        return 0

    def taught_by(self) -> str | None:
        """Return the model whose scores of the training documents are learnt beside their labels; None = none."""
        return None

    def imitates(self) -> str | None:
        """Return the model whose states are learnt while it runs beside; None = none.

        A task that does has the fields `teacher_backbone` and `teacher_weights`, which a run of a study is given.
        """
        return None

    def folders(self) -> dict[str, str]:
        """Return the folders that a run of it reads beside those of any run, by what they are called in its record."""
        return {}

    def problems_of_labels(self, labels: Sequence[str]) -> Iterator[str]:
        """Yield why the task cannot be done with these classes, as sentences that begin with the setting at fault."""
        yield from ()

    def splits_read(self, *, fits: bool) -> tuple[str, ...]:
        """Return the splits that a run reads; no training documents if it `fits` nothing to them."""
        return tuple(split for split in self.splits if fits or split != "train")


TASKS = Axis("lib.tasks", "task", TaskParameters)

AnyTask = Annotated[SerializeAsAny[TaskParameters], BeforeValidator(TASKS.parse)]


@functools.cache
def _lacks_model(kind: str, head: str) -> bool:
    """Whether a kind of backbone has no model for a head although others have one."""
    kinds = BACKBONES.kinds()
    if kind not in kinds or not BACKBONES.is_folder(kind) or BACKBONES.has(kind, head):
        return False
    is_shared = find_spec(f"lib.backbones.heads.{head}") is not None
    if is_shared:
        return bool(BACKBONES.load(kind, "parameters").Parameters.own_heads)
    return any(BACKBONES.has(other, head) for other in kinds)
