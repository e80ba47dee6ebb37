"""Settings of the tables and figures that come out of a study."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from lib.backbones.parameters import Ability
from lib.core.sections import Name, Section, check, without_null
from lib.results.parameters import AnyFigure, AnyTable


class Analysis(Section):
    """What models do inside, as a table and a figure, from the models that the runs of a stage left; first seed."""

    kind: Literal["attention_maps", "heads", "approximation", "gradients", "embeddings"] = Field(
        description="`attention_maps`: which token attends to which in one document, before and after training; "
        "`heads`: what each attention head does, over many documents; `approximation`: how close FAVOR+ and LSH "
        "come to exact attention on the queries and keys of the models, before and after training; `gradients`: the "
        "share of a gradient that arrives from each distance, before and after training; `embeddings`: a word's "
        "contextual states beside its static embedding, by the classes of the documents. Before training always "
        "means drawn weights, even if the stage starts from another one.",
    )
    stage: str = Field(description="Stage whose models are analysed.")
    dataset: str | None = Field(None, description="Entry of the stage's `data`; null = the only one.")
    models: list[str] | None = Field(
        None, description="Models, in order; null = all models that train at the stage and can be analysed this way."
    )
    document: NonNegativeInt = Field(
        0, description="`attention_maps`: which document of test (of a corpus: held-out), counted from 0."
    )
    documents: PositiveInt = Field(
        200, description="All kinds except `attention_maps`: maximum number of test documents that are read."
    )
    tokens: Literal["random", "documents"] = Field(
        "random",
        description="`gradients`: sequences of tokens drawn from the vocabulary, or the last tokens of those documents "
        "that have `length`.",
    )
    length: int = Field(
        256,
        ge=3,
        description="`gradients`: tokens of a sequence; `heads`, `approximation`: length in tokens to which "
        "documents are cut, because these analyses form matrices of all pairs.",
    )
    window: PositiveInt = Field(8, description="`heads`: tokens to either side that count as near.")
    features: list[Annotated[int, Field(ge=2, multiple_of=2)]] = Field(
        [64, 128, 256, 512], min_length=1, description="`approximation`: numbers of features of FAVOR+; even."
    )
    hashes: list[PositiveInt] = Field([2, 4], min_length=1, description="`approximation`: hash rounds of LSH.")
    chunk_sizes: list[PositiveInt] = Field(
        [64, 128],
        min_length=1,
        description="`approximation`: tokens in a chunk of LSH; a window holds three, so `length` should be far above.",
    )
    word: str | None = Field(None, description="`embeddings`: the word, one token of the vocabulary.")

    @property
    def options(self) -> dict[str, Any]:
        """The settings that its kind reads, by name."""
        names = {
            "attention_maps": ["document"],
            "heads": ["documents", "length", "window"],
            "approximation": ["documents", "length", "features", "hashes", "chunk_sizes"],
            "gradients": ["documents", "tokens", "length"],
            "embeddings": ["documents", "word"],
        }
        return {name: getattr(self, name) for name in names[self.kind]}

    @property
    def needs(self) -> Ability:
        """What a backbone must be able to do."""
        return "attention_maps" if self.kind in ("attention_maps", "heads", "approximation") else "states"

    @check
    def _kind_has_what_it_reads(self) -> Iterator[str]:
        if self.kind == "embeddings" and self.word is None:
            yield "an analysis of kind 'embeddings' needs a word. Name one that occurs in documents of several classes"

    @check
    def _kind_reads_what_it_has(self) -> Iterator[str]:
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if name not in {"kind", "stage", "dataset", "models", *self.options} and value != field.default:
                yield f"{name} = {value} does nothing in an analysis of kind '{self.kind}'. Leave it out"


class Report(Section):
    """What comes out of a study."""

    tables: dict[Name, AnyTable] = Field(
        default_factory=dict, description="Tables by name, each as CSV, Markdown and LaTeX."
    )
    figures: dict[Name, AnyFigure] = Field(
        default_factory=dict, description="Figures by name, each as SVG, PNG and PDF."
    )
    analyses: dict[Name, Analysis] = Field(
        default_factory=dict, description="Analyses of the models by name; each gives a table and a figure."
    )
    reference: str | None = Field(None, description="Model that the others are compared with.")
    baseline: str | None = Field(None, description="Model without a training loop that all others should surpass.")
    methods: Name = Field(
        "study", description="First paragraph of the HTML report: a file `workflow/report/<methods>.rst`."
    )
    published: Literal["grid", "decoders", "hate_speech"] | None = Field(
        None,
        description="Reproduced study whose printed values stand beside ours, where stages, datasets and models are "
        "called as in its own configuration.",
    )

    @classmethod
    def prepared(cls, values: Any) -> Any:
        """Drop tables, figures and analyses that are null: how a file removes what the one it extends has."""
        return without_null(values, "tables", "figures", "analyses")

    def results(self) -> Iterator[tuple[str, AnyTable | AnyFigure]]:
        """Yield the place of every table and figure, and its settings."""
        for name, table in self.tables.items():
            yield f"report.tables.{name}", table
        for name, figure in self.figures.items():
            yield f"report.figures.{name}", figure
