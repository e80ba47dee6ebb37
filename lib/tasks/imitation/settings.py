"""Settings of imitation."""

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field, ValidationError

from lib.backbones.settings import BACKBONES
from lib.core.errors import ConfigError
from lib.core.settings import check
from lib.tasks.settings import TaskSettings


class Settings(TaskSettings):
    """Imitation: a model learns to output the states of another one, the teacher, for texts without labels.

    The loss is the mean squared error of the states at real tokens. With exact attention in the teacher and another
    attention in the student, both from the same weights, this is attention transfer.
    """

    kind: Literal["imitation"]
    teacher: str = Field(
        description="Name of the teacher, a model of the study, in its state before this stage: with the "
        "weights that it would start from here, and the backbone and mechanism that it has until then. It need "
        "not pass this stage. It has the same tokeniser and the same width of states."
    )
    layers: Literal["last", "all"] = Field(
        "last",
        description="States that are learnt: `last`, those of the last layer; `all`, those of every layer, for "
        "models with equally many layers.",
    )
    teacher_backbone: dict[str, Any] | None = Field(
        None, description="The teacher's backbone. A study leaves it out; the settings of a run contain it."
    )
    teacher_weights: str | None = Field(
        None, description="Folder of the teacher's weights. A study leaves it out; the settings of a run contain it."
    )

    @check
    def _teacher_has_a_backbone(self) -> Iterator[str]:
        if self.teacher_backbone is None:
            return
        try:
            BACKBONES.parse(self.teacher_backbone)
        except (ConfigError, ValidationError) as error:
            yield f"teacher_backbone: {error}"

    def imitates(self) -> str | None:
        """See `TaskSettings.imitates`."""
        return self.teacher

    def folders(self) -> dict[str, str]:
        """See `TaskSettings.folders`."""
        return {"teacher": self.teacher_weights} if self.teacher_weights else {}
