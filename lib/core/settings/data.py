"""Settings of the corpora: where they come from, what is kept of them, how they are split and tokenised."""

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field, NonNegativeInt, PositiveInt, field_validator

from lib.core.inputs import expand_range
from lib.core.settings import Fraction, Section, check

MaxTokens = Annotated[int, Field(ge=2)]
"""Tokens that a document is cut to, [CLS] and [SEP] included."""

Part = Annotated[str, Field(pattern=r"^[a-z_]+$", description="Name of a part as published: train, test, ...")]


class HubSource(Section):
    """Files of a dataset repository on the Hugging Face hub."""

    repository: str = Field(description="`owner/name` of the dataset repository.")
    revision: str = Field("main", description="Commit; a tag or branch, which may move, if `unpinned`.")
    unpinned: bool = Field(False, description="Accept a revision that may move; the download warns of it once.")
    files: dict[Part, list[str]] = Field(
        description="Paths in the repository, by part, in dataset order; `{00000..00040}` stands for a range."
    )

    @check
    def _revision_is_pinned(self) -> Iterator[str]:
        if not self.unpinned and not re.fullmatch("[0-9a-f]{40}", self.revision):
            yield (
                f"revision = '{self.revision}' is no commit, so the files may change from one download to the next. "
                "Give the commit (40 hexadecimal digits), or set unpinned: true"
            )

    @field_validator("files")
    @classmethod
    def _ranges_are_expanded(cls, files: dict[str, list[str]]) -> dict[str, list[str]]:
        return {
            part: [path for pattern in patterns for path in expand_range(pattern)] for part, patterns in files.items()
        }


class RemoteFile(Section):
    """One file behind a URL."""

    url: str = Field(description="http or https address; the last part of its path is the file's name.")
    size: PositiveInt | None = Field(None, description="Expected size in bytes.")
    sha256: str | None = Field(None, pattern="^[0-9a-f]{64}$", description="Expected checksum.")
    unpinned: bool = Field(False, description="Accept whatever the server sends; the download warns of it once.")

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
        description="Which of the sections below provides the raw files; the others may stand beside it unused."
    )
    hub: HubSource | None = None
    url: UrlSource | None = None
    local: LocalSource | None = None
    generated: GeneratedSource | None = None
    tokenizer: str | None = Field(
        None, description="Name of the tokeniser of all models that do not name their own; null = the only one."
    )

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
    long: Slice = Field(description="The articles after those.")
    held_out: Slice = Field(description="The articles after those, for a held-out loss.")

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


class Split(Section):
    """How a dataset is divided into training, validation and test documents."""

    seed: int = Field(42, description="Seed of the split.")
    published: bool = Field(
        False, description="Take the parts `train`, `validation` and `test` of the source as the splits, as they are."
    )
    validation: Fraction = Field(0.1, description="Share of the validation documents when all parts are joined.")
    test: Fraction = Field(0.1, description="Share of the test documents when all parts are joined.")
    join: list[Part] | None = Field(
        None, description="Parts in the order in which they are joined and split by class; null joins all as listed."
    )
    held_out: Part | None = Field(
        None,
        description="Part that gives validation and test, half each by class, while the others give training; "
        "where the source has no such part, all parts are joined and split instead.",
    )
    documents: dict[Literal["train", "validation", "test"], PositiveInt] = Field(
        default_factory=dict, description="Documents to keep of each split, drawn by class; a missing one keeps all."
    )

    @check
    def _every_split_has_a_share(self) -> Iterator[str]:
        if not (self.validation > 0 and self.test > 0 and self.validation + self.test < 1):
            yield (
                f"validation = {self.validation} and test = {self.test}; expected shares above 0 that leave some of 1 "
                "for training"
            )

    @check
    def _published_splits_are_not_made(self) -> Iterator[str]:
        for name in ("validation", "test", "join", "held_out") if self.published else ():
            value = getattr(self, name)
            if value != type(self).model_fields[name].default:
                yield f"{name} = {value} does nothing with published = true. Leave one of them out"


class Preparation(Reading):
    """What decides which documents of a dataset are kept, and in which split: all that its preparation reads."""

    label: str = Field("label", description="Column of the label: a number from 0, or one of the names in `labels`.")
    label_per: Literal["document", "word"] = Field(
        "document",
        description="What bears a label: a document, or each of its words, as white space separates them once `remove` "
        "has been applied. The labels of words are a list (Parquet, JSONL); null or -100 in it = no label.",
    )
    group: str | None = Field(
        None, description="Column of a whole number, such as a distance, by which scores can be told apart."
    )
    labels: list[str] = Field(min_length=2, description="Names of the classes, in the order of their numbers.")
    remove: str | None = Field(None, description="Regular expression whose matches are removed from every text.")
    min_chars: NonNegativeInt = Field(0, description="Documents with fewer characters are dropped.")
    balance: bool = Field(False, description="Draw as many documents of every class as the rarest one has.")
    split: Split = Field(default_factory=Split)

    @field_validator("labels")
    @classmethod
    def _labels_are_distinct(cls, labels: list[str]) -> list[str]:
        if len(set(labels)) < len(labels):
            raise ValueError(f"labels {labels} repeat a name; expected distinct names.")
        return labels

    @check
    def _only_classes_are_balanced(self) -> Iterator[str]:
        if self.balance and self.label_per == "word":
            yield (
                "balance = True, but with label_per = 'word' a document has no class by which it could be drawn. Leave "
                "balance out"
            )

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
        if self.balance and self.split.published:
            yield "balance draws documents, but split.published takes the splits as they are. Leave one of them out"


class Dataset(Preparation, Documents):
    """A labelled dataset."""

    max_tokens: MaxTokens = Field(description="Tokens a document is cut to, [CLS] and [SEP] included.")

    @property
    def preparation(self) -> Preparation:
        """The settings that the preparation of the raw files reads."""
        return Preparation.model_validate(self.model_dump(include=set(Preparation.model_fields)))

    @check
    def _ground_truth_labels_documents(self) -> Iterator[str]:
        if self.label_per == "word" and getattr(self.chosen, "ground_truth", None):
            yield "label_per = 'word', but ground_truth holds a label per document. Leave one of them out"


class Tokenizer(Section):
    """From texts to tokens: an existing vocabulary, or one trained on texts of the study."""

    algorithm: Literal["wordpiece", "words"] = Field(
        "wordpiece",
        description="`wordpiece`: as in BERT; `words`: every word of the training texts is a token, as it is and as "
        "white space separates it; other words are [UNK].",
    )
    source: Literal["hub", "local", "trained"] = Field(
        description="Where the vocabulary comes from; of `words`, `trained`."
    )
    repository: str = Field("google-bert/bert-base-uncased", description="`hub`: model repository with a vocab.txt.")
    revision: str = Field("main", description="`hub`: commit; a tag or branch, which may move, if `unpinned`.")
    unpinned: bool = Field(False, description="`hub`: accept a revision that may move; the download warns of it once.")
    path: str | None = Field(None, description="`local`: a vocab.txt, one token per line.")
    corpus: str | None = Field(
        None,
        description="`trained`: corpus, or dataset whose training texts, it is trained on; null = the only corpus.",
    )
    vocab_size: PositiveInt = Field(30_000, description="`trained`: entries of the vocabulary, at most.")
    min_frequency: PositiveInt | None = Field(
        None, description="`trained`: occurrences a token needs; null = 2 for `wordpiece`, 1 for `words`."
    )
    lowercase: bool = Field(True, description="`wordpiece`: lower the case before tokenising.")
    strip_accents: bool = Field(True, description="`wordpiece`: remove accents before tokenising.")
    enclose: bool = Field(True, description="Put [CLS] before and [SEP] behind every document.")

    @property
    def occurrences(self) -> int:
        """Occurrences that a token of a trained vocabulary needs."""
        return self.min_frequency or {"wordpiece": 2, "words": 1}[self.algorithm]

    @check
    def _source_is_complete(self) -> Iterator[str]:
        if self.source == "local" and self.path is None:
            yield "source is 'local', but 'path' is missing. Give the path of a vocab.txt"
        if self.source == "hub" and not self.unpinned and not re.fullmatch("[0-9a-f]{40}", self.revision):
            yield (
                f"revision = '{self.revision}' is no commit, so the vocabulary may change. Give the commit, or set "
                "unpinned: true"
            )

    @check
    def _words_are_taken_as_they_are(self) -> Iterator[str]:
        if self.algorithm != "words":
            return
        if self.source != "trained":
            yield (
                f"source is '{self.source}', but with algorithm = 'words' the vocabulary is made of the words of the "
                "study's own texts. Set source: trained"
            )
        for name in ("lowercase", "strip_accents"):
            if not getattr(self, name):
                yield (
                    f"{name} = False does nothing with algorithm = 'words', which takes words as they are. Leave it out"
                )
