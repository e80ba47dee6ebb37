"""Settings of the corpora: where they come from, what is kept of them, how they are split and tokenised."""

import math
import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, NonNegativeInt, PositiveInt, field_validator

from lib.core.inputs import expand_range, is_safe_address
from lib.core.sections import Fraction, Repository, Revision, Section, check, unset
from lib.core.weights import ForeignStart

MaxTokens = Annotated[int, Field(ge=2)]
"""Tokens that a document is cut to, [CLS] and [SEP] included."""

Cut = Literal["head", "head_tail"]
"""What is kept of a text that has more tokens than a model reads."""

Texts = Literal["single", "together", "separately"]
"""How a model reads documents: each is one text, or a pair of texts as one sequence, or each text of a pair by itself.
"""

Part = Annotated[str, Field(pattern=r"^[a-z_]+$", description="Name of a part as published: train, test, ...")]


class HubSource(Section):
    """Files of a dataset repository on the Hugging Face hub."""

    repository: Repository = Field(description="`owner/name` of the dataset repository.")
    revision: Revision = Field("main", description="Commit; if `unpinned`, also a tag or branch.")
    unpinned: bool = Field(False, description="Accept a revision that may change; the download warns once.")
    files: dict[Part, list[str]] = Field(
        description="Paths in the repository, by part, in dataset order; `{00000..00040}` stands for a range. Each is "
        "downloaded: of a corpus, name the first ones only, as many as hold the articles of its slices."
    )

    @check
    def _revision_is_pinned(self) -> Iterator[str]:
        if not self.unpinned and not re.fullmatch("[0-9a-f]{40}", self.revision):
            yield (
                f"revision = '{self.revision}' is no commit, so the files may change from one download to the next. "
                "Give the commit (40 hexadecimal digits), or set unpinned: true"
            )

    @check
    def _files_stay_in_their_folder(self) -> Iterator[str]:
        for path in [path for paths in self.files.values() for path in paths]:
            if path.startswith("/") or not set(path.split("/")).isdisjoint({"", ".", ".."}):
                yield f"files: {path!r} is no place inside a repository. Name it as the repository shows it"

    @field_validator("files")
    @classmethod
    def _ranges_are_expanded(cls, files: dict[str, list[str]]) -> dict[str, list[str]]:
        return {
            part: [path for pattern in patterns for path in expand_range(pattern)] for part, patterns in files.items()
        }


class RemoteFile(Section):
    """One file behind a URL."""

    url: str = Field(description="https address; the last part of its path is the file's name.")
    size: PositiveInt | None = Field(None, description="Expected size in bytes.")
    sha256: str | None = Field(None, pattern="^[0-9a-f]{64}$", description="Expected checksum.")
    unpinned: bool = Field(False, description="Accept any content that the server sends; the download warns once.")

    @check
    def _file_has_a_safe_address(self) -> Iterator[str]:
        if not is_safe_address(self.url):
            yield f"url: {self.url!r} could be changed on its way. Give an https address, or fetch the file by hand"
        elif PurePosixPath(urlsplit(self.url).path).name in ("", ".."):
            yield f"url: {self.url!r} names no file. Expected a name at the end of its path"

    @check
    def _file_is_pinned(self) -> Iterator[str]:
        if not self.unpinned and self.sha256 is None:
            yield f"{self.url} has no sha256, so its content may change. Give it, or set unpinned: true"


class UrlSource(Section):
    """Files behind plain URLs."""

    files: dict[Part, list[RemoteFile]] = Field(description="Files by part, in dataset order.")
    ground_truth: dict[Part, list[RemoteFile]] = Field(
        default_factory=dict, description="Ground-truth XML files, by part; only for the Hyperpartisan format."
    )


class LocalSource(Section):
    """Files of the user's own."""

    files: dict[Part, list[str]] = Field(
        description="Paths, by part, in dataset order; patterns such as `data/*.jsonl.gz` are expanded and sorted."
    )
    ground_truth: dict[Part, list[str]] = Field(
        default_factory=dict, description="Ground-truth XML files, by part; only for the Hyperpartisan format."
    )


class GeneratedSource(Section):
    """A corpus made by the project itself."""

    documents: PositiveInt = Field(description="Documents to generate, over all parts.")
    seed: int = Field(0, description="Seed of the generator.")
    generator: str | None = Field(
        None, description="Name of a module of `lib/data/generated`; null = the name of the corpus."
    )
    options: dict[str, Any] = Field(default_factory=dict, description="Options of the generator, if it has any.")


class Reading(Section):
    """Where a raw file holds identity and text."""

    text: str = Field("text", description="Column of the text (Parquet, CSV, JSONL).")
    id: str | None = Field(None, description="Column of the identity; null numbers the documents. XML has its own.")


class Documents(Reading):
    """What corpora and datasets have: a chosen source, and the columns that hold identity and text."""

    source: Literal["hub", "url", "local", "generated"] = Field(
        description="The section below that provides the raw files; the file may contain the others unused."
    )
    hub: HubSource | None = None
    url: UrlSource | None = None
    local: LocalSource | None = None
    generated: GeneratedSource | None = None
    tokenizer: str | None = Field(
        None, description="Name of the tokeniser of all models that do not name their own; null = the only one."
    )
    license: str | None = Field(None, description="Licence of the texts, for model cards; null = none is named.")

    @check
    def _source_is_described(self) -> Iterator[str]:
        if getattr(self, self.source) is None:
            yield f"source is '{self.source}', but there is no section '{self.source}'. Add it beside it"

    @property
    def chosen(self) -> HubSource | UrlSource | LocalSource | GeneratedSource:
        """The section that provides the raw files."""
        return getattr(self, self.source)


class Slice(Section):
    """Consecutive articles of a corpus."""

    articles: NonNegativeInt = Field(description="Articles, in dataset order, after those of the slice before.")
    max_tokens: MaxTokens = Field(description="Tokens an article is cut to, [CLS] and [SEP] included.")


class ArticleFilter(Reading):
    """What decides which articles of a corpus are kept: all that their filtering reads."""

    keywords: list[str] = Field(default_factory=list, description="Lower-case words.")
    min_keywords: NonNegativeInt = Field(
        0, description="Different keywords that must occur as whole words; 0 keeps all."
    )

    @field_validator("keywords")
    @classmethod
    def _keywords_are_words(cls, keywords: list[str]) -> list[str]:
        if bad := [word for word in keywords if not re.fullmatch("[a-z]+", word)]:
            raise ValueError(f"keywords {bad} can never occur; expected lower-case words of the letters a to z.")
        return sorted(set(keywords))

    @check
    def _enough_keywords(self) -> Iterator[str]:
        if self.min_keywords > len(self.keywords):
            yield (
                f"min_keywords = {self.min_keywords}, but there are {len(self.keywords)} different keywords, so no "
                "article could be kept. Lower it or add keywords"
            )


class Corpus(ArticleFilter, Documents):
    """Text without labels: articles, chosen by keywords if there are any."""

    short: Slice = Field(description="The first articles kept.")
    long: Slice = Field(description="The next articles.")
    held_out: Slice = Field(description="The next articles, for a held-out loss.")

    @property
    def max_tokens(self) -> int:
        """Tokens of the longest training article, at most."""
        return max((part.max_tokens for part in (self.short, self.long) if part.articles), default=0)

    @check
    def _something_to_train_on(self) -> Iterator[str]:
        if not self.short.articles + self.long.articles:
            yield "short and long have 0 articles together. Give at least one of them some"

    @property
    def filter(self) -> ArticleFilter:
        """The settings that the filtering of a raw file reads."""
        return ArticleFilter.model_validate(self.model_dump(include=set(ArticleFilter.model_fields)))


class Folds(Section):
    """Folds that somebody else drew: one validates, one tests, the others train."""

    column: str = Field("fold", description="Column of the fold: a number or a name.")
    file: str | None = Field(
        None,
        description="CSV file with the columns `id` and `column`, one row per document of the source; null = `column` "
        "is one of the source's own.",
    )
    validation: int | str = Field(description="The fold that validates.")
    test: int | str = Field(description="The fold that tests.")

    @check
    def _folds_differ(self) -> Iterator[str]:
        if str(self.validation) == str(self.test):
            yield f"validation and test are both fold {self.test}. Name two folds"


def _labelled(value: bool) -> bool:
    """Whether a value is left out of settings, so that those of datasets with labelled test documents stay."""
    return value


class Split(Section):
    """How a dataset is divided into training, validation and test documents."""

    seed: int = Field(42, description="Seed of the split.")
    published: bool = Field(
        False, description="Use the parts `train`, `validation` and `test` of the source as the splits."
    )
    test_labels: bool = Field(
        True,
        exclude_if=_labelled,
        description="Whether test documents have labels. If not, as in GLUE, the column of the label is not read there "
        "and may be missing; runs leave predictions for test, and scores of validation alone. Needs `published: true`.",
    )
    folds: Folds | None = Field(None, description="Use given folds as the splits; null = there are none.")
    validation: Fraction = Field(0.1, description="Share of the validation documents when all parts are joined.")
    test: Fraction = Field(0.1, description="Share of the test documents when all parts are joined.")
    join: list[Part] | None = Field(
        None, description="Parts in the order in which they are joined and split by class; null joins all as listed."
    )
    held_out: Part | None = Field(
        None,
        description="Part that becomes validation and test, half each by class; the other parts become training. If "
        "the source has no such part, all parts are joined and split.",
    )
    documents: dict[Literal["train", "validation", "test"], PositiveInt] = Field(
        default_factory=dict,
        description="Documents to keep of each split, drawn by class; a split that is not named keeps all.",
    )

    @check
    def _unlabelled_test_is_a_part(self) -> Iterator[str]:
        if not self.test_labels and not self.published:
            yield (
                "test_labels = False, but documents that are drawn for test come from others with labels. Set "
                "published: true, with a part `test` of its own, or leave test_labels out"
            )

    @check
    def _every_split_has_a_share(self) -> Iterator[str]:
        if not (self.validation > 0 and self.test > 0 and self.validation + self.test < 1):
            yield (
                f"validation = {self.validation} and test = {self.test}; expected shares above 0 that leave some of 1 "
                "for training"
            )

    @property
    def given(self) -> str | None:
        """The setting by which the splits are taken as they are; None = they are drawn."""
        return "published" if self.published else "folds" if self.folds else None

    @check
    def _given_splits_are_not_drawn(self) -> Iterator[str]:
        if self.published and self.folds:
            yield "published and folds both say what the splits are. Leave one of them out"
        for name in ("validation", "test", "join", "held_out") if self.given else ():
            value = getattr(self, name)
            if value != type(self).model_fields[name].default:
                by = "published = true" if self.published else "folds"
                yield f"{name} = {value} does nothing with {by}. Leave one of them out"


class NumberedLabels(Section):
    """Names that differ in a number alone, such as v0, v1 and v2."""

    prefix: str = Field(description="What stands before the number.")
    count: Annotated[int, Field(ge=2)] = Field(description="How many there are, numbered from 0.")


def _names(labels: Any) -> Any:
    """Return the names that numbered labels stand for, and anything else as it is."""
    if not isinstance(labels, dict):
        return labels
    numbered = NumberedLabels.model_validate(labels)
    return [f"{numbered.prefix}{number}" for number in range(numbered.count)]


class Preparation(Reading):
    """What decides which documents of a dataset are kept, and in which split: all that its preparation reads."""

    text_pair: str | None = Field(
        None,
        exclude_if=unset,
        description="Column of the second text, if a document is a pair of texts, such as a premise and a hypothesis. "
        "`remove` and `min_chars` then hold for both texts, and a pair without one of them is dropped; null = "
        "documents are single texts.",
    )
    label: str = Field(
        "label",
        description="Column of the label: a number from 0, or one of the names in `labels`, or one of `values`.",
    )
    label_per: Literal["document", "word", "span"] = Field(
        "document",
        description="What has a label: a document; each of its words, as separated by white space after `remove` "
        "has been applied; or its characters, by the spans that hold them. The labels of words are a list (Parquet, "
        "JSONL); null or -100 in it = no label. Spans are a list of pairs [start, end), in characters counted from "
        "0 (in CSV as text, such as `[(0, 12), (27, 46)]`); null or an empty value = no span.",
    )
    group: str | None = Field(
        None, description="Column of a whole number, such as a distance, by which scores can be grouped."
    )
    label_range: tuple[float, float] | None = Field(
        None,
        exclude_if=unset,
        description="Lowest and highest label, if labels are numbers, such as similarities (`[0, 5]`), and no classes. "
        "Then there are no `labels`, and the task is `regression`; null = labels are classes.",
    )
    labels: Annotated[list[str], BeforeValidator(_names, json_schema_input_type=list[str] | NumberedLabels)] = Field(
        default_factory=list,
        description="Names of the classes, in the order of their numbers; for spans, names for outside and inside. "
        "Many that differ in a number alone have `prefix` and `count` instead: `{prefix: v, count: 4096}`.",
    )
    values: dict[str, str | None] = Field(
        default_factory=dict,
        description="Meaning of the values of the column `label`, if they are not the names in `labels`: one of "
        "these names, or null = documents with this value are dropped (words get no label). Numbers that are not "
        "listed then have no meaning.",
    )
    remove: str | None = Field(None, description="Regular expression whose matches are removed from every text.")
    min_chars: NonNegativeInt = Field(0, description="Documents with fewer characters are dropped.")
    balance: bool | Annotated[float, Field(ge=1)] = Field(
        False,
        description="Draw from every class at most this many times the number of documents of the rarest class; "
        "true = 1.",
    )
    split: Split = Field(default_factory=Split)

    @property
    def classes(self) -> list[str]:
        """The classes by which documents are drawn and counted: one for all where a document as a whole has none."""
        return self.labels if self.label_per == "document" and self.label_range is None else ["documents"]

    @check
    def _labels_are_classes_or_numbers(self) -> Iterator[str]:
        if self.label_range is None:
            if len(self.labels) < 2:
                yield (
                    f"labels = {self.labels}; expected the names of two classes at least. Name them, or give the "
                    "lowest and the highest label as label_range, if labels are numbers"
                )
            return
        low, high = self.label_range
        if not -math.inf < low < high < math.inf:
            yield f"label_range = [{low:g}, {high:g}]; expected the lowest and then the highest label, two numbers"
        for name, value in (("labels", self.labels), ("values", self.values), ("balance", self.balance)):
            if value:
                yield f"{name} = {value} does nothing with label_range, whose labels are no classes. Leave it out"
        if self.label_per != "document":
            yield f"label_range: a document has one number, but label_per is '{self.label_per}'. Leave one of them out"

    @check
    def _pairs_have_a_label_each(self) -> Iterator[str]:
        if self.text_pair is None:
            return
        if self.label_per != "document":
            yield f"text_pair: labels per {self.label_per} are places in one text. Leave it out"
        if self.text_pair == self.text:
            yield f"text_pair: '{self.text_pair}' is the column of the first text, too. Name that of the second"

    @field_validator("labels")
    @classmethod
    def _labels_are_distinct(cls, labels: list[str]) -> list[str]:
        if len(set(labels)) < len(labels):
            raise ValueError(f"labels {labels} repeat a name; expected distinct names.")
        return labels

    @field_validator("values", mode="before")
    @classmethod
    def _values_are_text(cls, values: Any) -> Any:
        # YAML reads the value 0 as a number and true as a truth value.
        if not isinstance(values, dict):
            return values
        return {str(value).lower() if isinstance(value, bool) else str(value): label for value, label in values.items()}

    @check
    def _values_stand_for_labels(self) -> Iterator[str]:
        for value, label in self.values.items():
            if label is not None and label not in self.labels:
                yield f"values.{value}: '{label}' is none of the labels {self.labels}. Name one of them, or null"
            if value in self.labels and label != value:
                yield f"values.{value}: is itself one of the labels {self.labels}. Take it out of one of the two"
        if self.values and self.label_per == "span":
            yield "values do nothing with label_per = 'span', whose labels are places in texts. Leave them out"

    @check
    def _only_classes_are_balanced(self) -> Iterator[str]:
        if self.balance and self.label_per != "document":
            yield (
                f"balance = {self.balance}, but with label_per = '{self.label_per}' a document has no class by which "
                "it could be drawn. Leave balance out"
            )

    @check
    def _spans_are_of_the_text_as_it_is(self) -> Iterator[str]:
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
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"{pattern!r} is not a regular expression ({error}).") from error
        return pattern

    @check
    def _published_splits_stay_as_they_are(self) -> Iterator[str]:
        if self.balance and self.split.given:
            given = self.split.given
            yield f"balance draws documents, but split.{given} takes the splits as they are. Leave one of them out"


class NearCopies(Section):
    """When a text is a near copy of another one: by the Jaccard similarity of their shingles, in lower case."""

    unit: Literal["words", "characters"] = Field("words", description="Unit of the shingles.")
    size: PositiveInt = Field(1, description="Units per shingle; longer texts need longer shingles.")
    threshold: Annotated[float, Field(gt=0, le=1)] = Field(
        0.6, description="Minimum share of the shingles of both texts that they have in common."
    )
    permutations: Annotated[int, Field(ge=16)] = Field(
        128, description="Hash functions of MinHash: with more of them, fewer candidates are compared needlessly."
    )


class TextDescription(Section):
    """All that the description of a dataset's texts reads beside them."""

    labels: list[str] | None = Field(
        None, description="Names of the classes of documents, in the order of their numbers; null = they have none."
    )
    near_copies: NearCopies = Field(default_factory=NearCopies)


class Synonyms(Section):
    """Where the WordNet database is: `index.*`, `data.*` and `*.exc`."""

    url: RemoteFile | None = Field(None, description="An archive of it (.zip, .tar.gz), downloaded.")
    local: str | None = Field(None, description="A folder with it, or an archive.")

    @check
    def _one_place(self) -> Iterator[str]:
        if (self.url is None) == (self.local is None):
            yield "expected either a url or a local folder or archive. Give one of them"


class MaskedLm(ForeignStart):
    """The masked language model: a folder that holds its tokeniser, too (such as a run's `model`), or a repository."""

    top_k: PositiveInt = Field(50, description="Number of most probable words from which the new one is drawn.")
    max_tokens: MaxTokens = Field(
        512, description="Maximum number of tokens of a document that it reads; later words stay as they are."
    )


Way = Literal["synonyms", "masked_lm"]


class Augmentation(Section):
    """Copies of training documents in which some words are others, for classes that have too few."""

    labels: list[str] = Field(min_length=1, description="Classes whose documents are copied.")
    copies: PositiveInt = Field(1, description="Copies of each document.")
    share: Annotated[float, Field(gt=0, le=1)] = Field(
        0.15, description="Share of a document's words that a copy replaces; at least one word."
    )
    by: Way | Annotated[list[Way], Field(min_length=1)] = Field(
        description="`synonyms` replaces English words by their synonyms in WordNet; `masked_lm` replaces any words "
        "by words that a masked language model expects in their place. With a list, the copies of a document take "
        "turns."
    )
    synonyms: Synonyms | None = None
    masked_lm: MaskedLm | None = None
    seed: int = Field(0, description="Seed of the draws.")
    leaked: bool = Field(
        False,
        description="Copy the documents of all splits and then split everything anew by class, so that copies of a "
        "training document reach validation and test. Some published datasets were made like this; the setting "
        "measures the effect.",
    )

    @property
    def ways(self) -> list[Way]:
        """The ways that copies take in turn."""
        return [self.by] if isinstance(self.by, str) else self.by

    @check
    def _ways_are_described(self) -> Iterator[str]:
        for way in self.ways:
            if getattr(self, way) is None:
                yield f"by names '{way}', but there is no section '{way}'. Add it beside it"

    @check
    def _every_way_is_taken(self) -> Iterator[str]:
        if not len(set(self.ways)) == len(self.ways) <= self.copies:
            yield (
                f"by = {self.ways}, but copies = {self.copies}. Expected different ways, and a copy for each at least. "
                "Raise copies, or leave a way out"
            )


def _is_together(value: str) -> bool:
    """Whether a value is left out of settings, so that those of datasets without pairs stay."""
    return value == "together"


class Dataset(Preparation, Documents):
    """A labelled dataset."""

    augmentation: Augmentation | None = Field(None, description="More training documents; null = none.")

    max_tokens: MaxTokens = Field(
        description="Maximum length of a document in tokens, [CLS] and [SEP] included; longer ones are cut. If "
        "spans are labelled, longer documents become windows of this length instead. Of a pair that is read together, "
        "it is the length of both texts, of which the longer one is cut first; of one read separately, of each."
    )
    pairs: Literal["together", "separately"] = Field(
        "together",
        exclude_if=_is_together,
        description="With `text_pair`, what a model reads: `together`, one sequence, [CLS] first [SEP] second [SEP], "
        "with segment ids for models that have such embeddings; `separately`, two sequences, which the task "
        "`pair_classification` compares.",
    )
    window_stride: PositiveInt | Annotated[float, Field(gt=0, lt=1)] = Field(
        0.5,
        description="With `label_per: span`, the distance between the starts of two windows: a number of tokens, or "
        "a share (below 1) of the tokens of a window without [CLS] and [SEP].",
    )

    near_copies: NearCopies = Field(
        default_factory=NearCopies,
        description="Definition of a near copy of a training text, if the report shows near copies.",
    )

    @property
    def preparation(self) -> Preparation:
        """The settings that the preparation of the raw files reads."""
        return Preparation.model_validate(self.model_dump(include=set(Preparation.model_fields)))

    @property
    def description(self) -> TextDescription:
        """The settings that the description of its texts reads."""
        labels = self.labels if self.label_per == "document" and self.label_range is None else None
        return TextDescription(labels=labels, near_copies=self.near_copies)

    @property
    def texts(self) -> Texts:
        """How models read its documents."""
        return "single" if self.text_pair is None else self.pairs

    @check
    def _pairs_are_there(self) -> Iterator[str]:
        if self.text_pair is None and self.pairs == "separately":
            yield "pairs = 'separately' does nothing without text_pair. Name the column of the second text"

    @check
    def _classes_are_augmented(self) -> Iterator[str]:
        if self.augmentation is None:
            return
        for name in ("text_pair", "label_range"):
            if getattr(self, name) is not None:
                yield f"augmentation: copies single texts of classes, but there is {name}. Leave one of them out"
        if self.label_range is not None:
            return
        if unknown := [label for label in self.augmentation.labels if label not in self.labels]:
            yield f"augmentation.labels: {unknown} are none of the labels {self.labels}. Name some of them"
        if self.label_per != "document":
            yield (
                f"augmentation: with label_per = '{self.label_per}' labels belong to places in a text, which change "
                "with its words. Leave it out"
            )
        if self.augmentation.leaked and (by := self.split.given or ("held_out" if self.split.held_out else None)):
            yield (
                f"augmentation.leaked: splits all documents anew by class and by shares, but split.{by} says "
                "otherwise. Leave one of them out"
            )

    @check
    def _ground_truth_labels_documents(self) -> Iterator[str]:
        if self.label_per != "document" and getattr(self.chosen, "ground_truth", None):
            yield f"label_per = '{self.label_per}', but ground_truth holds a label per document. Leave one of them out"

    @check
    def _windows_cover_their_documents(self) -> Iterator[str]:
        stride, room = self.window_stride, self.max_tokens - 2
        if self.label_per != "span" and stride != type(self).model_fields["window_stride"].default:
            yield f"window_stride = {stride} does nothing with label_per = '{self.label_per}'. Leave it out"
        if self.label_per == "span" and stride > room:
            yield (
                f"window_stride = {stride}, but with max_tokens = {self.max_tokens} a window holds {room} tokens "
                "beside [CLS] and [SEP], so some would be in none. Lower it, or raise max_tokens"
            )


BYTES = 256
"""Tokens that a vocabulary of byte-level BPE has in any case, beside the special ones."""
SPECIAL = 5
"""Special tokens of a trained vocabulary."""


class Tokenizer(Section):
    """From texts to tokens: an existing tokeniser, or one trained on texts of the study."""

    algorithm: Literal["wordpiece", "words", "bpe", "bytes", "published"] = Field(
        "wordpiece",
        description="`wordpiece`: as in BERT; `words`: every word of the training texts, as separated by white "
        "space, is one token, and other words are [UNK]; `bpe`: pairs of bytes, for texts of any script, unchanged; "
        "`bytes`: the 256 bytes of UTF-8, unchanged, which need no training; `published`: the tokens that a model's "
        "own tokenizer.json describes.",
    )
    source: Literal["hub", "local", "trained"] | None = Field(
        None,
        description="Source of the tokeniser; `words` and `bpe` are always `trained`, `published` never is, and only "
        "`bytes` has none.",
    )
    repository: Repository = Field(
        "google-bert/bert-base-uncased",
        description="`hub`: model repository with a vocab.txt; for `published`, with a tokenizer.json.",
    )
    revision: Revision = Field("main", description="`hub`: commit; if `unpinned`, also a tag or branch.")
    unpinned: bool = Field(False, description="`hub`: accept a revision that may change; the download warns once.")
    path: str | None = Field(
        None, description="`local`: a vocab.txt, one token per line; for `published`, a folder with a tokenizer.json."
    )
    corpus: str | Annotated[list[str], Field(min_length=1)] | None = Field(
        None,
        description="`trained`: the corpus, or the dataset with the training texts, on which it is trained, or a "
        "list of them; null = the only corpus.",
    )
    vocab_size: PositiveInt = Field(30_000, description="`trained`: maximum number of entries of the vocabulary.")
    min_frequency: PositiveInt | None = Field(
        None, description="`trained`: minimum number of occurrences of a token; null = 1 for `words`, 2 for the others."
    )
    lowercase: bool = Field(True, description="`wordpiece`: lower the case before tokenising.")
    strip_accents: bool = Field(True, description="`wordpiece`: remove accents before tokenising.")
    enclose: bool = Field(
        True,
        description="Put [CLS] before and [SEP] after every document; a `published` tokeniser puts its own special "
        "tokens.",
    )
    cut: Cut = Field(
        "head",
        description="What is kept of a labelled document with more than `max_tokens` tokens: `head`, the first ones; "
        "`head_tail`, its beginning and its end: of 510 tokens beside [CLS] and [SEP] the first 128 and the last 382 "
        "(Sun et al. 2019), of others the same shares. Texts of corpora keep the first ones.",
    )
    mask_token: str | None = Field(
        None,
        min_length=1,
        description="`published`: a new mask token that is added to the vocabulary; null = the tokeniser's own, if "
        "it has one. A model learns an embedding for it, or keeps the drawn one if embeddings do not train "
        "(`recipe.lora`).",
    )
    sentinels: NonNegativeInt = Field(
        0,
        description="Number of sentinel tokens (`<extra_id_0>` and so on) that are added behind the vocabulary, for "
        "the task `span_corruption`. A `published` tokeniser of T5 has 100 of its own.",
    )

    @property
    def corpora(self) -> list[str]:
        """The corpora and datasets that it is trained on; none = the only corpus."""
        return [self.corpus] if isinstance(self.corpus, str) else self.corpus or []

    @property
    def occurrences(self) -> int:
        """Occurrences that a token of a trained vocabulary needs."""
        return self.min_frequency or (1 if self.algorithm == "words" else 2)

    @check
    def _source_is_complete(self) -> Iterator[str]:
        if self.source is None and self.algorithm != "bytes":
            yield "source: missing. Set hub, local or trained; only algorithm = 'bytes' has none"
        if self.source == "local" and self.path is None:
            wanted = "a folder with a tokenizer.json" if self.algorithm == "published" else "a vocab.txt"
            yield f"source is 'local', but 'path' is missing. Give the path of {wanted}"
        if self.source == "hub" and not self.unpinned and not re.fullmatch("[0-9a-f]{40}", self.revision):
            yield (
                f"revision = '{self.revision}' is no commit, so the vocabulary may change. Give the commit, or set "
                "unpinned: true"
            )

    @check
    def _source_suits_the_algorithm(self) -> Iterator[str]:
        if self.algorithm in ("words", "bpe") and self.source not in ("trained", None):
            yield (
                f"source is '{self.source}', but with algorithm = '{self.algorithm}' the vocabulary is made from the "
                "study's own texts. Set source: trained"
            )
        if self.algorithm == "bytes" and self.source is not None:
            yield (
                f"source is '{self.source}', but with algorithm = 'bytes' the vocabulary is the 256 bytes. Leave "
                "source out"
            )
        if self.algorithm == "published" and self.source == "trained":
            yield "source is 'trained', but with algorithm = 'published' nothing is. Set source: hub, or local"

    @check
    def _nothing_is_set_in_vain(self) -> Iterator[str]:
        enclosed = ("wordpiece", "words", "bpe", "bytes")
        only = {"lowercase": ("wordpiece",), "strip_accents": ("wordpiece",), "enclose": enclosed}
        for name, algorithms in only.items():
            if self.algorithm not in algorithms and not getattr(self, name):
                taken = "the tokeniser as it is" if self.algorithm == "published" else "texts as they are"
                yield (
                    f"{name} = False does nothing with algorithm = '{self.algorithm}', which takes {taken}. Leave it "
                    "out"
                )
        if self.mask_token is not None and self.algorithm != "published":
            yield (
                f"mask_token = {self.mask_token!r} does nothing with algorithm = '{self.algorithm}', whose vocabulary "
                "has [MASK]. Leave it out"
            )

    @check
    def _bytes_fit(self) -> Iterator[str]:
        if self.algorithm == "bpe" and self.vocab_size <= BYTES + SPECIAL:
            yield (
                f"vocab_size = {self.vocab_size}, but with algorithm = 'bpe' single bytes and special tokens alone are "
                f"{BYTES + SPECIAL}. Raise it"
            )
