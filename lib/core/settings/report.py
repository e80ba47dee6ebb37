"""Settings of the tables and figures that come out of a study."""

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from lib.core.kinds import Ability
from lib.core.settings import Fraction, Section, check, without_null


class Table(Section):
    """One table, as CSV and Markdown."""

    kind: Literal["token_lengths", "stage", "classes", "groups"] = Field(
        "stage",
        description="`stage`: one row per model, columns by dataset, or by stage and dataset; `classes`: one table per "
        "dataset, one row per class of a model's test predictions; `groups`: one table per dataset, one row per model, "
        "its accuracy on test by the dataset's `group`; `token_lengths`: one row per tokenised split.",
    )
    stage: str | list[str] | None = Field(
        None,
        description="Stage whose runs it shows; `stage`: or several, side by side, for models that pass them all; not "
        "for `token_lengths`.",
    )
    columns: list[str] = Field(
        default_factory=list,
        description="`stage`: what it shows of each run: `memory`, `minutes` (of an epoch), `total_minutes`, `loss`, "
        "`f1`, `accuracy`, `sequence_accuracy`, `parameters`, or a metric of the record.",
    )
    models: list[str] | None = Field(None, description="Rows, in order; null = all models that pass its stages.")
    label: str | None = Field(
        None, description="`groups`: what the number is, such as `distance`; null = the name of its column."
    )

    @property
    def stages(self) -> list[str]:
        """The stages whose runs it shows."""
        return [self.stage] if isinstance(self.stage, str) else self.stage or []

    @check
    def _kind_has_what_it_reads(self) -> Iterator[str]:
        if self.kind != "token_lengths" and not self.stages:
            yield f"a table of kind '{self.kind}' needs a stage. Name one"
        if self.kind != "stage" and len(self.stages) > 1:
            yield f"a table of kind '{self.kind}' shows one stage, not {', '.join(self.stages)}. Name one"
        if len(set(self.stages)) < len(self.stages):
            yield f"stage = {self.stages} names a stage twice. Name each once"
        if self.kind == "stage" and not self.columns:
            yield "a table of kind 'stage' needs columns. Name some, such as [f1]"
        if self.kind == "classes" and len(self.models or []) != 1:
            yield "a table of kind 'classes' shows one model. Name one under models"

    @check
    def _kind_reads_what_it_has(self) -> Iterator[str]:
        idle = {
            "token_lengths": ["stage", "columns", "models", "label"],
            "classes": ["columns", "label"],
            "groups": ["columns"],
            "stage": ["label"],
        }
        for name in idle[self.kind]:
            if getattr(self, name):
                yield f"{name} = {getattr(self, name)} does nothing in a table of kind '{self.kind}'. Leave it out"


class Figure(Section):
    """One figure, as SVG and PNG, one panel per dataset."""

    kind: Literal["score_time", "group_score"] = Field(
        "score_time",
        description="`score_time`: a score against the time of training; `group_score`: accuracy on test against the "
        "number that the dataset's `group` holds, one line per model.",
    )
    stage: str = Field(description="Stage whose score is drawn.")
    column: str = Field("f1", description="`score_time`: the score, as in the columns of tables.")
    time: list[str] = Field(default_factory=list, description="`score_time`: stages whose training times are added up.")
    baseline: str | None = Field(
        None, description="`score_time`: model drawn as a dashed line, since it does not train."
    )
    label: str | None = Field(
        None,
        description="`group_score`: what the number is, such as `distance [tokens]`; null = the name of its column.",
    )
    chance: Fraction | None = Field(
        None, description="`group_score`: share that guessing gets right, drawn as a dashed line."
    )
    trained_to: float | None = Field(
        None, description="`group_score`: greatest number in the training documents, drawn as a vertical line."
    )

    @check
    def _kind_has_what_it_reads(self) -> Iterator[str]:
        if self.kind == "score_time" and not self.time:
            yield "a figure of kind 'score_time' needs time. Name the stages whose training times are added up"

    @check
    def _kind_reads_what_it_has(self) -> Iterator[str]:
        idle = {"score_time": ["label", "chance", "trained_to"], "group_score": ["column", "time", "baseline"]}
        for name in idle[self.kind]:
            value = getattr(self, name)
            if value != type(self).model_fields[name].get_default(call_default_factory=True):
                yield f"{name} = {value} does nothing in a figure of kind '{self.kind}'. Leave it out"


class Analysis(Section):
    """What models do inside, as a table and a figure, from the models that the runs of a stage left; first seed."""

    kind: Literal["attention_maps", "heads", "gradients", "embeddings"] = Field(
        description="`attention_maps`: who attends to whom in one document, before and after training; `heads`: what "
        "each attention head does, over many documents; `gradients`: how much of a gradient arrives from how far, "
        "before and after training; `embeddings`: a word's contextual states beside its static embedding, by the "
        "classes of the documents. Before training means first weights, whatever the stage starts from.",
    )
    stage: str = Field(description="Stage whose models are looked at.")
    dataset: str | None = Field(None, description="Entry of the stage's `data`; null = the only one.")
    models: list[str] | None = Field(
        None, description="Models, in order; null = all that train at the stage and let themselves be looked at so."
    )
    document: NonNegativeInt = Field(
        0, description="`attention_maps`: which document of test (of a corpus: held-out), counted from 0."
    )
    documents: PositiveInt = Field(
        200, description="`heads`, `gradients`, `embeddings`: how many documents of test are read, at most."
    )
    tokens: Literal["random", "documents"] = Field(
        "random",
        description="`gradients`: sequences of tokens drawn from the vocabulary, or the last tokens of those documents "
        "that have `length`.",
    )
    length: int = Field(256, ge=3, description="`gradients`: tokens of a sequence.")
    word: str | None = Field(None, description="`embeddings`: the word, one token of the vocabulary.")

    @property
    def options(self) -> dict[str, Any]:
        """The settings that its kind reads, by name."""
        names = {
            "attention_maps": ["document"],
            "heads": ["documents"],
            "gradients": ["documents", "tokens", "length"],
            "embeddings": ["documents", "word"],
        }
        return {name: getattr(self, name) for name in names[self.kind]}

    @property
    def needs(self) -> Ability:
        """What a backbone must be able to do."""
        return "attention_maps" if self.kind in ("attention_maps", "heads") else "states"

    @check
    def _kind_has_what_it_reads(self) -> Iterator[str]:
        if self.kind == "embeddings" and self.word is None:
            yield "an analysis of kind 'embeddings' needs a word. Name one that occurs in documents of several classes"

    @check
    def _kind_reads_what_it_has(self) -> Iterator[str]:
        for name in ("document", "documents", "tokens", "length", "word"):
            value = getattr(self, name)
            if name not in self.options and value != type(self).model_fields[name].default:
                yield f"{name} = {value} does nothing in an analysis of kind '{self.kind}'. Leave it out"


class Report(Section):
    """What comes out of a study."""

    tables: dict[str, Table] = Field(default_factory=dict, description="Tables by name.")
    figures: dict[str, Figure] = Field(default_factory=dict, description="Figures by name.")
    analyses: dict[str, Analysis] = Field(
        default_factory=dict, description="Looks into the models by name; each gives a table and a figure."
    )
    methods: str = Field(
        "study", description="First paragraph of the HTML report: a file `workflow/report/<methods>.rst`."
    )
    published: bool = Field(
        False,
        description="Show the printed values of the reproduced study beside ours; sensible for the full grid only.",
    )

    @classmethod
    def prepared(cls, values: Any) -> Any:
        """Drop tables, figures and analyses that are null: how a file removes what the one it extends has."""
        return without_null(values, "tables", "figures", "analyses")
