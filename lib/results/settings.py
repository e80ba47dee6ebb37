"""What tables and figures have in common: their settings, and the axes that find each by its kind.

`kind: search` is a class in `lib/results/kinds`: `SearchTable` below `report.tables`, `SearchFigure` below
`report.figures`. A module of this folder holds all that shows one subject.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar, get_args

from pydantic import BeforeValidator, Field, SerializeAsAny

from lib.core.extensions import claim, load, packages
from lib.core.files import files_in
from lib.core.kinds import Axis, KindSettings
from lib.core.settings import ModelName, check, repeats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lib.results.scope import Scope
    from lib.results.table import Table

Topic = Literal["scores", "differences", "cost", "training", "texts"]
"""What tables and figures are about."""


class ResultSettings(KindSettings):
    """Base of the settings of every kind of table and figure."""

    about: ClassVar[Topic] = "scores"
    """Topic of its kind."""
    reads: ClassVar[Literal["runs", "token_lengths", "texts", "documents", "word_vectors"]] = "runs"
    """Its source: records of runs, statistics of tokenised texts, descriptions of texts, documents with a
    label each, or word vectors."""
    splits: ClassVar[tuple[str, ...]] = ("test",)
    """Splits of its documents, if it is made from these."""
    divided: ClassVar[Literal["never", "always", "if_several"]] = "never"
    """Whether there is one for each dataset, which then bears its name."""
    needs_predictions: ClassVar[bool] = False
    """Whether the runs of its stages must leave predictions."""
    needs_probabilities: ClassVar[bool] = False
    """Whether these predictions must hold probabilities of classes, which only those of documents do."""
    needs_classes: ClassVar[bool] = False
    """Whether these predictions must be classes, which spans are not."""
    takes_sets: ClassVar[bool] = False
    """Whether these predictions may be sets of classes."""
    needs_training: ClassVar[bool] = False
    """Whether the runs of its stages must have a training loop, as some of them do."""
    needs_published: ClassVar[bool] = False
    """Whether the report must name the study whose printed values it shows."""
    needs_geometry: ClassVar[bool] = False
    """Whether the runs of its stages must measure the geometry of attention."""
    needs_groups: ClassVar[bool] = False
    """Whether the documents of its datasets must be in groups."""
    needs_texts: ClassVar[bool] = False
    """Whether it reads descriptions of its datasets' texts in addition to the runs."""
    needs_documents: ClassVar[bool] = False
    """Whether it reads the test documents of its datasets in addition to the runs; it is in no archive of the study."""
    takes_variants: ClassVar[Literal["none", "any", "needed"]] = "none"
    """Whether its stages may, or must, have variants, so that there are several runs of one model, dataset and seed."""
    takes_tuning: ClassVar[Literal["none", "any", "needed"]] = "none"
    """Whether its stages may, or must, have tuning, whose runs leave trials and neither a history nor predictions."""
    compares_with: ClassVar[tuple[Literal["reference", "baseline"], ...]] = ()
    """Models that it compares others with: the report's reference, which is then required, or its baseline, if any."""
    needs_another: ClassVar[bool] = False
    """Whether it shows nothing of models but how they differ from those that it compares them with."""
    leaves_out_baseline: ClassVar[bool] = False
    """Whether the baseline has no row in it, even if `models` names it."""
    needs_lead: ClassVar[bool] = False
    """Whether it asks for a lead of the reference over the baseline, which then need different runs."""
    adds_costs: ClassVar[bool] = False
    """Whether it adds up what runs cost over several stages."""
    has_intervals: ClassVar[bool] = False
    """Whether its notes say how independent its seeds are."""

    models: list[ModelName] | None = None
    """Models, in order; null = all models that pass its stages."""
    datasets: list[str] | None = None
    """Corpora and datasets that are shown, of stages that work on them; null = all."""

    def stages_passed(self) -> list[str]:
        """Return the stages that every model shown passes, and whose runs are read: those of a field `stage`."""
        stages: str | list[str] = getattr(self, "stage", [])
        return [stages] if isinstance(stages, str) else stages

    def stages_added(self) -> list[str]:
        """Return the stages whose runs are read as well, of models that pass them: those of a field `time`."""
        return getattr(self, "time", [])

    def vectors_named(self) -> list[str] | None:
        """Return the word vectors that are shown: those of a field `word_vectors`; None = all."""
        return getattr(self, "word_vectors", None)

    def compared(self) -> Iterator[tuple[str, Sequence[str], Sequence[str]]]:
        """Yield what its settings compare: the setting, and the models on both sides."""
        return iter(())

    def models_compared(self) -> list[str]:
        """Return the models that its settings compare, each once."""
        sides = (side for _, *both in self.compared() for side in both)
        return list(dict.fromkeys(model for side in sides for model in side))

    def columns_shown(self, stage: str) -> list[str]:
        """Return the columns that it shows of the runs of a stage: its field `column` or `columns`.

        A kind without such a field that shows a score all the same says so here.
        """
        columns: str | list[str] | dict[str, list[str]] = getattr(self, "columns", getattr(self, "column", []))
        if isinstance(columns, dict):
            columns = columns[stage]
        return [columns] if isinstance(columns, str) else columns

    @property
    def pools(self) -> bool:
        """Whether it joins the test documents of folds: its field `pooled`."""
        return getattr(self, "pooled", False)

    @property
    def topic(self) -> Topic:
        """Its topic with these settings."""
        return self.about

    @property
    def shows_test_scores(self) -> bool:
        """Whether footnotes on test documents concern it."""
        return self.topic in ("scores", "differences")

    @property
    def needs_state(self) -> bool:
        """Whether it shows how much of a text models keep, which their backbones must say."""
        return any("state_size" in self.columns_shown(stage) for stage in self.stages_passed())

    @check
    def _names_are_distinct(self) -> Iterator[str]:
        for name in type(self).model_fields:
            values = getattr(self, name)
            if name == "stage" or not isinstance(values, list):
                continue  # kinds that take several stages know which may be named twice
            yield from repeats(name, values)


class PoolingSettings(ResultSettings):
    """Base of the settings of kinds that can join the test documents of folds: they read no probabilities."""

    pooled: bool = Field(False, exclude_if=False.__eq__)
    """Join the test documents of all folds of a dataset (`split.folds`) under its name: each counts once, as predicted
    by the run that did not learn from it; false = a dataset per fold."""


MODEL = "model"
"""Column of the rows' names."""


class TableSettings(ResultSettings):
    """Base of the settings of every kind of table."""

    def make(self, scope: Scope) -> Table:
        """Return the table.

        Raises:
            DataError: a run or file that it shows is missing, damaged, duplicated or incomplete.
        """
        raise NotImplementedError


class FigureSettings(ResultSettings):
    """Base of the settings of every kind of figure."""

    def notes(self, scope: Scope) -> Iterable[str]:
        """Return the sentences below the figure that are its own.

        Raises:
            DataError: see `draw`.
        """
        return ()

    def draw(self, scope: Scope) -> Figure:
        """Return the figure.

        Raises:
            DataError: a run or file that it shows is missing, damaged, duplicated or incomplete.
        """
        raise NotImplementedError


Shown = TypeVar("Shown", bound=ResultSettings)


class ResultAxis(Axis[Shown]):
    """Tables, or figures: the classes in the modules of `package` that derive from `base` and name a kind."""

    @property
    def _classes(self) -> dict[str, type[Shown]]:
        return _classes(self.base, tuple(packages(self.package)))

    def kinds(self) -> list[str]:
        """See the base."""
        return sorted(self._classes)

    def settings(self, kind: Any) -> type[Shown]:
        """See the base."""
        self.check(kind)
        return self._classes[kind]

    def module(self, kind: Any, part: str = "settings") -> str:
        """See the base: one module holds all parts."""
        return self.settings(kind).__module__


@functools.cache
def _classes(base: type[Shown], names: tuple[str, ...]) -> dict[str, type[Shown]]:
    """Return the classes that derive from `base` and name a kind, by this kind, in the modules of packages."""
    found = {
        each: kind
        for package in names
        for folder in importlib.import_module(package).__path__
        for file in files_in(folder, "*.py")
        for each in vars(load(f"{package}.{file.stem}")).values()
        if isinstance(each, type) and issubclass(each, base)
        for kind in get_args(each.model_fields["kind"].annotation)
    }
    places: dict[str, str] = {}
    for each, kind in found.items():
        claim(places, kind, f"{each.__module__}.{each.__name__}")
    return {kind: each for each, kind in found.items()}


TABLES = ResultAxis("lib.results.kinds", "kind of table", TableSettings, default="stage")
FIGURES = ResultAxis("lib.results.kinds", "kind of figure", FigureSettings)

AnyTable = Annotated[SerializeAsAny[TableSettings], BeforeValidator(TABLES.parse)]
AnyFigure = Annotated[SerializeAsAny[FigureSettings], BeforeValidator(FIGURES.parse)]
