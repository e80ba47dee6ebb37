"""Settings of tasks: their base class, and the axis that finds each by its kind. Imports no torch."""

import functools
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, SerializeAsAny

from lib.backbones.settings import BACKBONES, Ability, BackboneSettings
from lib.core.extensions import packages
from lib.core.kinds import Axis, KindSettings
from lib.core.labels import LabelForm
from lib.preparing.settings.document_form import Texts


class TaskSettings(KindSettings):
    """Base of the settings of every task."""

    trains_on: ClassVar[Ability | None] = "states"
    """Ability that a backbone needs to be trained on it; None = it never trains."""
    evaluates_on: ClassVar[Ability | None] = None
    """Ability that a backbone needs to solve it without a training loop or trained weights; None = no backbone can."""
    labelled: ClassVar[bool] = False
    """Whether documents need labels."""
    label_form: ClassVar[LabelForm] = "class"
    """Form of the labels, if the task needs any."""
    weighs_classes: ClassVar[bool] = False
    """Whether its loss is the cross-entropy of documents alone, so that classes can have weights."""
    texts: ClassVar[tuple[Texts, ...]] = ("single",)
    """Form of its documents: single texts, or pairs of texts, read together or separately."""
    head: ClassVar[str | None] = None
    """Name of the module with a backbone's model for the task; None = that of the task's kind."""
    predicts: ClassVar[bool] = False
    """Whether a run writes predictions; then a model trained on it can also be evaluated without a recipe."""
    keeps: ClassVar[Literal["best", "last"]] = "last"
    """Epoch whose model is kept by default."""
    splits: ClassVar[tuple[str, ...]] = ("train", "validation")
    """Splits that a run reads."""

    @property
    def score(self) -> str | None:
        """Metric that tables call F1, where several are; None = the one that its runs have."""
        return None

    def trains(self, backbone: BackboneSettings) -> bool:
        """Whether a backbone can be trained on it: has the ability, and a model for it if other backbones have one."""
        return self.trains_on in backbone.abilities and not _lacks_model(backbone.kind, self.head or self.kind)

    def evaluates(self, backbone: BackboneSettings) -> bool:
        """Whether a backbone solves it without a training loop or trained weights."""
        return self.evaluates_on in backbone.abilities and not _lacks_model(backbone.kind, self.head or self.kind)

    def predicted_share(self) -> float:
        """Return the share of tokens whose scores over the vocabulary are computed."""
        return 0.0

    def sentinels(self, tokens: int) -> int:
        """Return how many sentinel tokens a document with `tokens` tokens needs."""
        return 0

    def taught_by(self) -> str | None:
        """Return the model whose scores of the training documents are learnt in addition to labels; None = none."""
        return None

    def imitates(self) -> str | None:
        """Return the model that runs at the same time and whose states are learnt; None = none.

        A task with such a model has the fields `teacher_backbone` and `teacher_weights`, which a study sets in its
        runs.
        """
        return None

    def folders(self) -> dict[str, str]:
        """Return the additional folders that a run of it reads, by their name in its record."""
        return {}

    def label_errors(self, labels: Sequence[str]) -> Iterator[str]:
        """Yield reasons why the task does not support these classes, as sentences that begin with the setting."""
        yield from ()

    def backbone_errors(self, backbone: BackboneSettings) -> Iterator[str]:
        """Yield why its settings make no sense with a backbone, as sentences that begin with the setting."""
        if getattr(self, "classifier_pooling", None) == "cls" and not backbone.looks_ahead:
            reason = f"which depends on no other one in {backbone.kind}"
            yield f"classifier_pooling: cls takes the state of the first token, {reason}. Choose mean"

    def splits_read(self, *, fits: bool) -> tuple[str, ...]:
        """Return the splits that a run reads; without training documents unless it `fits` something to them."""
        return tuple(split for split in self.splits if fits or split != "train")


TASKS = Axis("lib.tasks", "task", TaskSettings)

AnyTask = Annotated[SerializeAsAny[TaskSettings], BeforeValidator(TASKS.parse)]


@functools.cache
def _lacks_model(kind: str, head: str) -> bool:
    """Whether a kind of backbone has no model for a head that other kinds have."""
    kinds = BACKBONES.kinds()
    if kind not in kinds or not BACKBONES.is_folder(kind) or BACKBONES.has(kind, head):
        return False
    if any(find_spec(f"{package}.{head}") for package in packages("lib.backbones.heads")):
        return bool(BACKBONES.settings(kind).own_heads)
    return any(BACKBONES.has(other, head) for other in kinds)
