"""Zero-shot classification by the similarity of documents and phrases.

Shapes: B batch, C classes, D hidden size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from lib.backbones.settings import Ability
from lib.core.settings import PositiveFloat, check
from lib.tasks import contract
from lib.tasks.document_classification import DocumentClassification
from lib.tasks.settings import TaskSettings

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


class Settings(TaskSettings):
    """Zero-shot classification: a document has the class of the phrase with the most similar vector."""

    trains_on: ClassVar[Ability | None] = None
    evaluates_on: ClassVar[Ability | None] = "states"
    labelled: ClassVar[bool] = True
    head: ClassVar[str | None] = "text_encoding"
    predicts: ClassVar[bool] = True
    splits: ClassVar[tuple[str, ...]] = ("validation", "test")

    kind: Literal["label_matching"]
    phrases: list[str] = Field(min_length=2)
    """A phrase for each class, in the order of the labels."""
    classifier_pooling: Literal["cls", "mean"] = "mean"
    """Aggregation of the real tokens' states into one vector, as in the training of the encoder."""
    scale: PositiveFloat = 20.0
    """Probabilities are a softmax over the cosines times this; the classes themselves depend on the cosines alone."""

    @check
    def _phrases_tell_classes_apart(self) -> Iterator[str]:
        if len(set(self.phrases)) < len(self.phrases) or not all(phrase.strip() for phrase in self.phrases):
            yield f"phrases = {self.phrases}; expected a different phrase for each class. Give each one"

    def label_errors(self, labels: Sequence[str]) -> Iterator[str]:
        """See `TaskSettings.label_errors`."""
        if len(self.phrases) != len(labels):
            yield (
                f"phrases: {len(self.phrases)} for the classes {', '.join(labels)}. Give one for each, in the order of "
                "the labels"
            )


class Task(DocumentClassification):
    """Find the phrase that a document is most similar to; nothing is learnt.

    Source: Reimers and Gurevych 2019, "Sentence-BERT", for mean pooling and the cosine.
    """

    parameters: Settings

    @classmethod
    def auto_model(cls) -> str:
        """See `lib.tasks.contract.Task.auto_model`."""
        from lib.backbones.heads.text_encoding import TextEncoding

        return TextEncoding.auto_model

    def model_options(self) -> dict[str, Any]:
        """See `lib.tasks.contract.Task.model_options`."""
        return {"classifier_pooling": self.parameters.classifier_pooling} | self.class_names()

    def collator(self, tokenizer: PreTrainedTokenizerBase) -> contract.Collator:
        """See `lib.tasks.contract.Task.collator`; the tokeniser reads the phrases as well."""
        from lib.tokens.batches import ClassificationCollator, pad_examples

        ids = tokenizer(self.parameters.phrases)["input_ids"]
        phrases = [{"id": text, "input_ids": row} for text, row in zip(self.parameters.phrases, ids, strict=True)]
        self._phrases = pad_examples(phrases, tokenizer.pad_token_id)
        self._phrase_vectors: Tensor | None = None
        return ClassificationCollator(tokenizer.pad_token_id)

    def prediction_step(self, model: PreTrainedModel, inputs: Mapping[str, Tensor]) -> tuple[None, Tensor, Tensor]:
        """Return scaled cosines of documents and phrases [B, C], and the labels [B]."""
        import torch

        with torch.no_grad():
            if self._phrase_vectors is None:
                phrases = {name: value.to(inputs["input_ids"].device) for name, value in self._phrases.items()}
                self._phrase_vectors = model(**phrases).pooler_output.float()
            documents = {name: value for name, value in inputs.items() if name != "labels"}
            vectors = model(**documents).pooler_output.float()  # [B, D]
        return None, self.parameters.scale * vectors @ self._phrase_vectors.T, inputs["labels"]
