"""Settings that decide which documents of a dataset are kept, their labels and their splits."""

from collections import Counter
from collections.abc import Iterator
from datetime import date
from typing import Annotated, Any, Literal

import regex
from pydantic import BeforeValidator, Field, field_validator

from lib.core.files import check_expansion
from lib.core.labels import LabelForm
from lib.core.settings import (
    FEW,
    MOST,
    BaseSettings,
    BoundedFloat,
    Fraction,
    NonNegativeInt,
    PositiveInt,
    Seed,
    WholeNumber,
    check,
    unset,
)
from lib.preparing.settings.sources import Dialect, Part, Reading
from lib.reading.cells import cell_text


class Folds(BaseSettings):
    """Folds that somebody else drew: one validates, one tests, the others train."""

    column: str = "fold"
    """Column of the fold: a number or a name."""
    file: str | None = None
    """File (CSV, TSV, JSONL or Parquet) with the columns `id` and `column`, one row per document of the source; null =
    `column` is one of the source's own."""
    train: list[WholeNumber | str] | None = Field(None, exclude_if=unset)
    """The folds that train, such as `[train, extra]`, if several have names; null = all other numbers, and one other
    name."""
    validation: WholeNumber | str
    """The fold that validates."""
    test: WholeNumber | str
    """The fold that tests."""

    @check
    def _folds_differ(self) -> Iterator[str]:
        named = Counter(map(cell_text, (self.validation, self.test, *(self.train or ()))))
        if twice := [name for name, count in named.items() if count > 1]:
            yield f"the folds {twice} are named twice. Expected one use of each"


MOST_FOLDS = 100


def _folds(values: Any) -> Any:
    """Return folds that are given as their section, so that an error is of the form that was meant."""
    if isinstance(values, dict):
        return Folds.model_validate(values)
    if values is None or isinstance(values, Folds) or (type(values) is int and 2 <= values <= MOST_FOLDS):
        return values
    raise ValueError(f"expected a number from 2 to {MOST_FOLDS}, or keys that say how given folds are used")


class ByDate(BaseSettings):
    """Splits by the date of a document, so that a model is tested on what came after all that it learnt from."""

    column: str = "date"
    """Column of the date, such as 2024-06-01 or 2024-06-01T12:30:00; of a time, the day counts."""
    validation_from: date | None = Field(None, strict=False)
    """First day of the validation documents; null = they are drawn by class from those before `test_from`, by their
    share of them (`validation`)."""
    test_from: date = Field(strict=False)
    """First day of the test documents."""

    @check
    def _days_are_in_order(self) -> Iterator[str]:
        if self.validation_from is not None and self.validation_from >= self.test_from:
            yield f"validation_from = {self.validation_from} is not before test_from = {self.test_from}"


class Split(BaseSettings):
    """How a dataset is divided into training, validation and test documents."""

    seed: Seed = 42
    """Seed of the split."""
    published: bool = False
    """Use the parts `train`, `validation` and `test` of the source as the splits."""
    test_labels: bool = Field(True, exclude_if=bool)
    """Whether test documents have labels. If not, as in GLUE, the column of the label is not read there and may be
    missing; runs leave predictions for test, and scores of validation alone. Needs `published: true`."""
    folds: Annotated[Folds | Annotated[int, Field(ge=2, le=MOST_FOLDS)] | None, BeforeValidator(_folds)] = None
    """Use given folds as the splits; or draw this many, by class: a dataset for each fold, that it tests on, and tables
    with `pooled` join them again. null = there are none."""
    fold: PositiveInt | None = Field(None, exclude_if=unset)
    """Fold that tests, from 1, if `folds` is their number; null = each in turn: a dataset per fold, called `<name>-1`,
    `<name>-2`, ... Where other sections name the dataset under `data` or in `datasets`, they name all of these."""
    by: str | None = Field(None, exclude_if=unset)
    """Column of a name or number that keeps documents together, such as a patient, an author or a source: all documents
    of one value are in the same split. Shares are those of whole folds (0.1 = one of ten), and by class as far as the
    values allow; null = each document is drawn by itself. A number of `folds` goes with it."""
    by_date: ByDate | None = Field(None, exclude_if=unset)
    """Use the dates of the documents for the splits; null = dates do not matter."""
    validation: Fraction = 0.1
    """Share of the validation documents when all parts are joined."""
    test: Fraction = 0.1
    """Share of the test documents when all parts are joined; of drawn `folds`, it is that of one fold."""
    join: list[Part] | None = None
    """Parts in the order of joining, before the split by class; null joins all as listed."""
    held_out: Part | None = None
    """Part that becomes validation and test, half each by class; the other parts become training. A source with a
    single part is split by the shares."""
    documents: dict[Literal["train", "validation", "test"], PositiveInt] = Field(default_factory=dict)
    """Documents to keep of each split, drawn by class; a split that is not named keeps all."""

    @check
    def _splits_are_given_once_or_drawn(self) -> Iterator[str]:
        if not self.test_labels and not self.published:
            yield "test_labels = False, but test is drawn from documents with labels. Set published: true"
        if not (self.validation > 0 and self.test > 0 and self.validation + self.test_share < 1):
            shares = f"validation = {self.validation} and test = {self.test_share:.3g}"
            yield f"{shares}; expected shares above 0, together below 1"
        if self.join is not None and self.held_out is not None:
            yield f"join = {self.join}, but with held_out = {self.held_out} all other parts train. Give one of them"
        by_column = [name for name in ("by", "by_date") if getattr(self, name)]
        others = ("published", "folds", *(["held_out"] if by_column or self.drawn_folds else []))
        named = [*(name for name in others if getattr(self, name)), *by_column]
        if len(named) > 1 and not (self.drawn_folds and named == ["folds", "by"]):
            yield f"{' and '.join(named)} both define the splits. Leave one of them out"
        if self.drawn_folds and self.test != type(self).model_fields["test"].default:
            yield f"test = {self.test}, but one of the {self.drawn_folds} folds is tested. Leave test out"
        if (self.fold or 0) > self.drawn_folds:
            yield f"fold = {self.fold}, but folds draws {self.drawn_folds}. Expected the number of one of them"

    @property
    def drawn_folds(self) -> int:
        """Number of folds that are drawn; 0 = none are."""
        return self.folds if isinstance(self.folds, int) else 0

    @property
    def test_share(self) -> float:
        """Share of the test documents, where they are drawn."""
        return 1 / self.drawn_folds if self.drawn_folds else self.test

    @property
    def given(self) -> str | None:
        """The setting that gives the splits; None = they are drawn."""
        return None if self.drawn_folds or self.kept == "by" else self.kept

    @property
    def kept(self) -> str | None:
        """The setting that no other draw of documents may ignore: that gives the splits, or keeps some together."""
        return next((name for name in ("published", "folds", "by_date", "by") if getattr(self, name)), None)


class LabelSet(BaseSettings):
    """Several labels per document, or none: how the files say them."""

    given_as: Literal["list", "columns", "rows"] = "list"
    """`list`: the column `label` has a list, or a text with several (`separator`). `columns`: each class has a column
    of its name, with 1 where a document has it and 0 where not; one of `values` that means null drops the document.
    `rows`: each row has one label, and rows of the same `id` are one document."""
    separator: Annotated[str, Field(min_length=1, max_length=FEW)] | None = None
    """Sign between the labels of a text, such as `;`; white space around a label does not count. null = a text is a
    list as JSON or Python writes it, such as `["tax", "trade"]`."""
    at_least: Literal[0, 1] = 0
    """Labels that a document has; with 1, those without a label are dropped, and counted."""


class NumberedLabels(BaseSettings):
    """Names that differ in a number alone, such as v0, v1 and v2."""

    prefix: str = Field(max_length=FEW)
    """Text before the number."""
    count: Annotated[int, Field(ge=2)]
    """How many there are, numbered from 0."""


MOST_LABELS = 10_000


def _names(labels: Any) -> Any:
    """Return the names of numbered labels; other labels are unchanged."""
    if not isinstance(labels, dict):
        return labels
    numbered = NumberedLabels.model_validate(labels)
    check_expansion("labels", numbered.count, most=MOST_LABELS)
    return [f"{numbered.prefix}{number}" for number in range(numbered.count)]


class Preparation(Reading):
    """Settings that decide which documents of a dataset are kept, and their splits: the input of its preparation."""

    text_pair: str | None = Field(None, exclude_if=unset)
    """Column of the second text, if a document is a pair of texts, such as a premise and a hypothesis. `remove`,
    `min_chars` and `max_chars` then hold for both texts, and a pair without one of them is dropped; null = documents
    are single texts."""
    label: str = "label"
    """Column of the label: a number from 0, or one of the names in `labels`, or one of `values`. If a name is a number,
    but not that of its own place, as in `["-1", "1"]`, numbers are names."""
    label_per: Literal["document", "word", "span"] = "document"
    """Unit with a label: a document; each of its words, as separated by white space after `remove` has been applied; or
    its characters, by the spans that hold them. The labels of words are a list (Parquet, JSONL); null or -100 in it =
    no label. Spans are a list of pairs [start, end), in characters counted from 0 (in CSV as text, such as `[(0, 12),
    (27, 46)]`); null or an empty value = no span."""
    label_set: LabelSet | None = Field(None, exclude_if=unset)
    """Several labels per document, for the task `multi_label_classification`: `{}` for lists, `{separator: ";"}` for
    texts such as `tax;trade`. A label that means null (`values`) is left out of the set; null = one label each."""
    ground_truth_dialect: Dialect | None = Field(None, exclude_if=unset)
    """How the files of `ground_truth` are written; null = like those of the texts (`dialect`)."""
    group: str | None = None
    """Column of a whole number, such as a distance, or of a name, for grouping scores."""
    label_range: Annotated[tuple[BoundedFloat, BoundedFloat], Field(strict=False)] | None = Field(
        None, exclude_if=unset
    )
    """Lowest and highest label, if labels are numbers, such as similarities (`[0, 5]`), and no classes. Then there are
    no `labels`, and the task is `regression`; null = labels are classes."""
    labels: Annotated[
        list[Annotated[str, Field(max_length=FEW)]],
        Field(max_length=MOST_LABELS),
        BeforeValidator(_names, json_schema_input_type=list[str] | NumberedLabels),
    ] = Field(default_factory=list)
    """Names of the classes, in the order of their numbers; for spans, names for outside and inside. Many that differ in
    a number alone have `prefix` and `count` instead: `{prefix: v, count: 4096}`."""
    values: dict[str, str | None] = Field(default_factory=dict)
    """Meaning of the values of the column `label`, if they are not the names in `labels`: one of these names, or null =
    documents with this value are dropped (words get no label). Numbers that are not listed then have no meaning. `{"":
    null}` drops documents whose label is missing, also with `label_range`."""
    remove: str | None = None
    """Regular expression, as the package `regex` reads it, whose matches are removed from every text."""
    min_chars: NonNegativeInt = 0
    """Documents with fewer characters are dropped."""
    max_chars: PositiveInt | None = Field(None, exclude_if=unset)
    """Documents with more characters are dropped; null = none for its length."""
    duplicates: Literal["keep", "drop"] = Field("keep", exclude_if="keep".__eq__)
    """Documents with the text of another one, apart from the case of letters, white space and the form of accents:
    `keep`, they are counted, and tables say how many test documents have a text of training; `drop`, one of them stays.
    With given splits that is the one of test, else of validation; otherwise the first."""
    balance: bool | Annotated[float, Field(ge=1, le=MOST)] = False
    """Draw from every class at most this many times the number of documents of the rarest class; true = 1."""
    split: Split = Field(default_factory=Split)

    @property
    def classes(self) -> list[str]:
        """The classes for drawing and counting documents: a single one if whole documents have no class."""
        return self.labels if self.label_form == "class" else ["documents"]

    @property
    def label_form(self) -> LabelForm:
        """Form of the labels."""
        if self.label_per != "document":
            return self.label_per
        return "number" if self.label_range is not None else "set" if self.label_set is not None else "class"

    @check
    def _labels_are_classes_or_numbers(self) -> Iterator[str]:
        if self.label_range is None:
            if len(self.labels) < 2:
                yield f"labels = {self.labels}; expected two classes at least, or label_range, if labels are numbers"
            return
        low, high = self.label_range
        if low >= high:
            yield f"label_range = [{low:g}, {high:g}]; expected the lowest and then the highest label, two numbers"
        if self.labels or any(label is not None for label in self.values.values()) or self.label_per != "document":
            yield "label_range: each document has a number, and no class. Leave labels, their values and label_per out"

    @check
    def _sets_are_of_documents(self) -> Iterator[str]:
        if (given := self.label_set) is None:
            return
        if self.label_per != "document" or self.label_range is not None or self.balance:
            yield "label_set: documents have several classes each. Leave label_per, label_range and balance out"
        if given.given_as != "list" and given.separator is not None:
            yield f"label_set.separator: {given.separator!r}, but labels are given as {given.given_as}. Leave it out"
        if given.given_as == "rows" and self.id is None:
            yield "label_set.given_as = 'rows': rows of a document have the same id. Set id to its column"
        for name in self.labels:
            if given.separator is not None and given.separator in name:
                yield f"labels: {name!r} has the separator {given.separator!r} in it. Choose another sign in the file"

    @check
    def _pairs_have_a_label_each(self) -> Iterator[str]:
        if self.text_pair is not None and self.label_per != "document":
            yield f"text_pair: labels per {self.label_per} are places in one text. Leave it out"
        if self.text_pair == self.text:
            yield f"text_pair: '{self.text_pair}' is the column of the first text, too. Name that of the second"

    @field_validator("labels")
    @classmethod
    def _labels_are_distinct(cls, labels: list[str]) -> list[str]:
        read = Counter(cell_text(label) for label in labels)
        if read[""]:
            raise ValueError("labels have a blank name; expected names that can be seen.")
        if repeated := [label for label, count in read.items() if count > 1]:
            raise ValueError(f"labels repeat {repeated[0]!r}, as files are read; expected distinct names.")
        return labels

    @field_validator("values", mode="before")
    @classmethod
    def _values_are_text(cls, values: Any) -> Any:
        # YAML reads the value 0 as a number, true as a truth value and an empty one as null.
        if not isinstance(values, dict):
            return values
        if twice := [text for text, count in Counter(map(cell_text, values)).items() if count > 1]:
            raise ValueError(f"{twice[0]!r} is listed twice, as files are read. Take one out.")
        return {
            cell_text(value) if value is None or isinstance(value, bool) else str(value): label
            for value, label in values.items()
        }

    @check
    def _values_stand_for_labels(self) -> Iterator[str]:
        labels = set(self.labels)
        for value, label in self.values.items():
            if label is not None and label not in labels:
                yield f"values.{value}: '{label}' is none of the labels {self.labels}. Name one of them, or null"
            if cell_text(value) in map(cell_text, labels) and cell_text(label) != cell_text(value):
                yield f"values.{value}: is itself one of the labels {self.labels}. Take it out of one of the two"

    @check
    def _texts_and_splits_stay_as_they_are(self) -> Iterator[str]:
        if self.balance and (kept := self.split.kept):
            yield f"balance draws documents, but split.{kept} takes all. Leave one of them out"
        if self.label_per == "span":
            if len(self.labels) != 2:
                yield f"labels = {self.labels}, but a character is outside of spans or inside. Name these two classes"
            if self.remove is not None:
                yield "remove would move the text away from its spans. Leave it out with label_per = 'span'"

    @field_validator("remove")
    @classmethod
    def _pattern_compiles(cls, pattern: str | None) -> str | None:
        if pattern is not None:
            try:
                regex.compile(pattern)
            except regex.error as error:
                raise ValueError(f"{pattern!r} is not a regular expression ({error}).") from error
        return pattern
