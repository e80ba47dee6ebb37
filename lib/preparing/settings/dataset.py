"""Settings of a labelled dataset."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from lib.core.settings import LARGE, BaseSettings, PositiveInt, Size, check, unset
from lib.preparing.settings.augmentation import Augmentation
from lib.preparing.settings.document_form import MaxTokens, Texts
from lib.preparing.settings.placement import Placement
from lib.preparing.settings.preparation import Preparation
from lib.preparing.settings.sources import Documents, RemoteFile


class NearCopies(BaseSettings):
    """When a text is a near copy of another one: by the Jaccard similarity of their shingles, in lower case."""

    unit: Literal["words", "characters"] = "words"
    """Unit of the shingles."""
    size: Size = 1
    """Units per shingle; longer texts need longer shingles."""
    threshold: Annotated[float, Field(gt=0, le=1)] = 0.6
    """Minimum share of the shingles of both texts that they have in common."""
    permutations: Annotated[int, Field(ge=16, le=LARGE)] = 128
    """Hash functions of MinHash: with more of them, fewer candidates are compared needlessly."""


class TextDescription(BaseSettings):
    """Settings for the description of a dataset's texts."""

    labels: list[str] | None = None
    """Names of the classes of documents, in the order of their numbers; null = they have none."""
    near_copies: NearCopies = Field(default_factory=NearCopies)


class Dataset(Preparation, Documents):
    """A labelled dataset."""

    augmentation: Augmentation | None = None
    """More training documents; null = none."""
    placement: Placement | None = Field(None, exclude_if=unset)
    """Place of each text inside articles of a corpus, so that the place of the evidence is known; null = documents are
    the texts alone."""

    max_tokens: MaxTokens
    """Maximum length of a document in tokens, [CLS] and [SEP] included; longer ones are cut. If spans are labelled,
    longer documents become windows of this length instead. Of a pair that is read together, it is the length of both
    texts, of which the longer one is cut first; of one read separately, of each."""
    pairs: Literal["together", "separately"] = Field("together", exclude_if="together".__eq__)
    """Input of a model for documents with `text_pair`: `together`, one sequence, [CLS] first [SEP] second [SEP], with
    segment ids for models that have such embeddings; `separately`, two sequences, which the task `pair_classification`
    compares."""
    window_stride: PositiveInt | Annotated[float, Field(gt=0, lt=1)] = 0.5
    """Distance between the starts of two windows of `label_per: span`: a number of tokens, or a share (below 1)
    of the tokens of a window without [CLS] and [SEP]."""

    near_copies: NearCopies = Field(default_factory=NearCopies)
    """Definition of a near copy of a training text, if the report shows near copies."""

    @property
    def preparation(self) -> Preparation:
        """The settings that the preparation of the raw files reads."""
        return Preparation.model_validate(self.model_dump(include=set(Preparation.model_fields)))

    @property
    def description(self) -> TextDescription:
        """The settings that the description of its texts reads."""
        return TextDescription(labels=self.labels if self.label_form == "class" else None, near_copies=self.near_copies)

    @property
    def texts(self) -> Texts:
        """How models read its documents."""
        return "single" if self.text_pair is None else self.pairs

    @property
    def composed(self) -> bool:
        """See the base; placed texts are parts of documents that nobody wrote."""
        return super().composed or self.placement is not None

    @property
    def remote_files(self) -> list[RemoteFile]:
        """The files behind URLs that are fetched for it: texts, ground truth, an archive of WordNet."""
        archives = [self.augmentation.archive] if self.augmentation else []
        return [*super().remote_files, *(file for file in archives if file is not None)]

    @check
    def _documents_allow_what_is_made_of_them(self) -> Iterator[str]:
        stride, room = self.window_stride, self.max_tokens - 2
        if self.label_per == "span" and stride > room:
            yield f"window_stride = {stride}, but a window holds {room} tokens, so some would be in none. Lower it"
        unlike = self.label_per != "document" or self.label_set
        if self.placement is not None and (self.text_pair or self.augmentation or unlike):
            yield "placement: places single texts with a label. Leave text_pair, augmentation, label_per, label_set out"
        marked = self.label_set is not None and self.label_set.given_as == "columns"
        if marked and getattr(self.chosen, "ground_truth", None):
            yield "label_set.given_as = 'columns': these are in the files of the texts. Leave ground_truth out"
        if self.split.drawn_folds and self.source == "generated":
            yield "split.folds: texts are generated by the name of a dataset, and so differ by fold. Take files"
        if self.augmentation is None:
            return
        if self.text_pair is not None or self.label_form != "class":
            yield "augmentation: copies single texts of classes. Leave text_pair, label_range, label_per, label_set out"
        elif unknown := [label for label in self.augmentation.labels if label not in self.labels]:
            yield f"augmentation.labels: {unknown} are none of the labels {self.labels}. Name some of them"
        if self.augmentation.leaked and (by := self.split.kept or ("held_out" if self.split.held_out else None)):
            yield f"augmentation.leaked: splits all documents again, but split.{by} gives splits. Leave one of them out"
