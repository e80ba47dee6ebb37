"""Settings of analyses: the base of all, and the axis that finds each by its kind. Imports no torch."""

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, SerializeAsAny

from lib.backbones.settings import Ability
from lib.core.kinds import Axis, KindSettings
from lib.core.settings import ModelName, StageName, check, repeats


class AnalysisSettings(KindSettings):
    """Base of the settings of every kind: which models are analysed. A subclass adds the options of its computation."""

    needs: ClassVar[Ability] = "states"
    """Ability that a backbone must have."""
    needs_labels: ClassVar[bool] = False
    """Whether documents must have a label each; the computation then takes the names of the classes as `labels`."""
    needs_single_tokens: ClassVar[bool] = True
    """Whether it looks at states of single tokens."""
    needs_task: ClassVar[tuple[str, ...]] = ()
    """Kinds of tasks, one of which the models must have learnt; () = any."""
    needs_texts: ClassVar[bool] = False
    """Whether it reads the documents of a dataset as they are written, not only their tokens."""
    text_baseline: ClassVar[str | None] = None
    """Kind of a backbone that is fitted to texts. The first such model with runs at the stage that reads whole texts,
    if there is one, has a row of its own; the computation takes it as `text_baseline`."""
    tries: ClassVar[tuple[str, ...]] = ()
    """Attention mechanisms that it computes with, whatever the models have."""

    stage: StageName
    """Stage whose models are analysed: those that its runs left, of the first seed."""
    dataset: str | None = None
    """Entry of the stage's `data`; null = the only one."""
    models: list[ModelName] | None = None
    """Models, in order; null = all that train at the stage and can be analysed this way."""

    @check
    def _lists_have_each_value_once(self) -> Iterator[str]:
        for name, value in self:
            if isinstance(value, list):
                yield from repeats(name, value)

    @property
    def tokens_needed(self) -> int | None:
        """Tokens that a model must be able to read; None = documents are cut to what it reads."""
        return None

    @property
    def options(self) -> dict[str, Any]:
        """The settings that the computation takes, by name."""
        return self.model_dump(exclude=set(AnalysisSettings.model_fields))


ANALYSES = Axis("lib.analysis", "kind of analysis", AnalysisSettings)


def computation(kind: Any) -> str:
    """Return the dotted name of the module that makes the table of a kind.

    Raises:
        ConfigError: the kind is unknown.
    """
    package, _, name = ANALYSES.module(kind).rpartition(".")
    return f"{package}.computations.{name}"


AnyAnalysis = Annotated[SerializeAsAny[AnalysisSettings], BeforeValidator(ANALYSES.parse)]
