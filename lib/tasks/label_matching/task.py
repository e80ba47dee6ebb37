"""Zero-shot classification by the similarity of documents and phrases.

Shapes: B batch, C classes, D hidden size.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from lib.backbones.heads.text_encoding import TextEncoding
from lib.data.classification import ClassificationCollator
from lib.data.padding import pad_examples
from lib.tasks import contract
from lib.tasks.document_classification import DocumentClassification
from lib.tasks.label_matching.settings import Settings


class Task(DocumentClassification):
    """Find the phrase that a document is most similar to; nothing is learnt.

    Source: Reimers and Gurevych 2019, "Sentence-BERT", for mean pooling and the cosine.
    """

    auto_model: ClassVar[str] = TextEncoding.auto_model
    parameters: Settings

    def model_options(self) -> dict[str, Any]:
        """See `lib.tasks.contract.Task.model_options`."""
        return {"classifier_pooling": self.parameters.classifier_pooling} | self.class_names()

    def collator(self, tokenizer: PreTrainedTokenizerBase) -> contract.Collator:
        """See `lib.tasks.contract.Task.collator`; the tokeniser reads the phrases as well."""
        ids = tokenizer(self.parameters.phrases)["input_ids"]
        phrases = [{"id": text, "input_ids": row} for text, row in zip(self.parameters.phrases, ids, strict=True)]
        self._phrases = pad_examples(phrases, tokenizer.pad_token_id)
        self._phrase_vectors: Tensor | None = None
        return ClassificationCollator(tokenizer.pad_token_id)

    def prediction_step(self, model: PreTrainedModel, inputs: Mapping[str, Tensor]) -> tuple[None, Tensor, Tensor]:
        """Return scaled cosines of documents and phrases [B, C], and the labels [B]."""
        with torch.no_grad():
            if self._phrase_vectors is None:
                phrases = {name: value.to(inputs["input_ids"].device) for name, value in self._phrases.items()}
                self._phrase_vectors = model(**phrases).pooler_output.float()
            documents = {name: value for name, value in inputs.items() if name != "labels"}
            vectors = model(**documents).pooler_output.float()  # [B, D]
        return None, self.parameters.scale * vectors @ self._phrase_vectors.T, inputs["labels"]
