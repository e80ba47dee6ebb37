"""Settings of the tables, figures and analyses of a study."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from lib.analysis.settings import AnyAnalysis
from lib.core.extensions import ROOT, extensions
from lib.core.settings import BaseSettings, ModelName, Name, check
from lib.results.settings import AnyFigure, AnyTable


class ReportSettings(BaseSettings):
    """Tables, figures and analyses of a study."""

    tables: dict[Name, AnyTable] = Field(default_factory=dict)
    """Tables by name, each as CSV, Markdown and LaTeX."""
    figures: dict[Name, AnyFigure] = Field(default_factory=dict)
    """Figures by name, each as SVG, PNG and PDF."""
    analyses: dict[Name, AnyAnalysis] = Field(default_factory=dict)
    """Analyses of the models by name; each gives a table and a figure."""
    reference: ModelName | None = None
    """Model that the others are compared with."""
    baseline: ModelName | None = None
    """Model without a training loop that all others should surpass."""
    opens_with: list[Name] | None = Field(None, min_length=1)
    """Tables and figures at the beginning of the HTML report, in order; null = tables of kind `answer`, the first table
    and the first figure."""
    title: Annotated[str, Field(pattern=r"^[^\r\n]*[^\r\n\s][^\r\n]*$", max_length=200)] | None = None
    """Title on the first page of the HTML report; null = the name of the configuration file."""
    methods: Name = "study"
    """What the HTML report says of the methods: a file `workflow/report/<methods>.rst`."""
    published: Literal["grid", "decoders", "hate_speech"] | None = None
    """Reproduced study whose printed values are shown with ours, where stages, datasets and models are called as in its
    own configuration."""

    @check
    def _methods_are_written(self) -> Iterator[str]:
        folders, page = [ROOT / "workflow", *(each.folder for each in extensions())], f"report/{self.methods}.rst"
        if self.methods != "study" and not any((folder / page).is_file() for folder in folders):
            yield f"methods: '{self.methods}' would be workflow/{page}, which is not there. Write it, or name study"

    def asks(self) -> bool:
        """Whether there is any table, figure or analysis."""
        return bool(self.tables or self.figures or self.analyses)

    def results(self) -> Iterator[tuple[str, AnyTable | AnyFigure]]:
        """Yield the place of every table and figure, and its settings."""
        for name, table in self.tables.items():
            yield f"report.tables.{name}", table
        for name, figure in self.figures.items():
            yield f"report.figures.{name}", figure
