"""Settings of the tables and figures that come out of a study."""

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field

from lib.core.settings import Section, check, without_null


class Table(Section):
    """One table, as CSV and Markdown."""

    kind: Literal["token_lengths", "stage", "classes"] = Field(
        "stage",
        description="`stage`: one row per model, columns by dataset; `classes`: one table per dataset, one row per "
        "class of a model's test predictions; `token_lengths`: one row per tokenised split.",
    )
    stage: str | None = Field(None, description="Stage whose runs it shows; not for `token_lengths`.")
    columns: list[str] = Field(
        default_factory=list,
        description="`stage`: what it shows of each run: `memory`, `minutes`, `loss`, `f1`, or a metric of the record.",
    )
    models: list[str] | None = Field(None, description="Rows, in order; null = all models of the stage.")

    @check
    def _kind_has_what_it_reads(self) -> Iterator[str]:
        if self.kind != "token_lengths" and self.stage is None:
            yield f"a table of kind '{self.kind}' needs a stage. Name one"
        if self.kind == "stage" and not self.columns:
            yield "a table of kind 'stage' needs columns. Name some, such as [f1]"


class Figure(Section):
    """One figure, as SVG and PNG: a score against the time of training, one panel per dataset."""

    kind: Literal["score_time"] = Field("score_time", description="What is drawn.")
    stage: str = Field(description="Stage whose score is drawn.")
    column: str = Field("f1", description="The score: as in the columns of tables.")
    time: list[str] = Field(description="Stages whose training times are added up.")
    baseline: str | None = Field(None, description="Model drawn as a dashed line, since it does not train.")


class Report(Section):
    """What comes out of a study."""

    tables: dict[str, Table] = Field(default_factory=dict, description="Tables by name.")
    figures: dict[str, Figure] = Field(default_factory=dict, description="Figures by name.")
    methods: str = Field(
        "study", description="First paragraph of the HTML report: a file `workflow/report/<methods>.rst`."
    )
    published: bool = Field(
        False,
        description="Show the printed values of the reproduced study beside ours; sensible for the full grid only.",
    )

    @classmethod
    def prepared(cls, values: Any) -> Any:
        """Drop tables and figures that are null: how a file removes what the one it extends has."""
        return without_null(values, "tables", "figures")
