"""What a task owes: a model with its head, batches, scores and predictions.

A task of one file is read by the workflow, which must not import torch; so this module imports none either.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from lib.tasks.parameters import TaskParameters

if TYPE_CHECKING:
    import pandas as pd
    from datasets import Dataset
    from torch import Tensor
    from transformers import EvalPrediction, PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase
    from transformers.trainer_utils import PredictionOutput


class Task(ABC):
    """Base of every task: the part `task` of a kind defines `class Task`, derived from this one.

    Args:
        parameters: typed parameters of the task's kind.
        labels: names of the classes in the order of their numbers; None for a task without labels.
        seed: of the run, for the task's own draws.
    """

    auto_model: ClassVar[str]
    """The class of transformers that makes a model with the task's head from a configuration."""
    best: ClassVar[str]
    """Metric on validation by which the best epoch is chosen."""
    greater_is_better: ClassVar[bool] = True
    beside: ClassVar[str | None] = None
    """What training batches hold beside what the model takes, for `loss`; None = nothing."""

    def __init__(self, parameters: TaskParameters, *, labels: Sequence[str] | None, seed: int) -> None:
        self.parameters = parameters
        self.labels = list(labels or [])
        self.seed = seed

    def model_options(self) -> dict[str, Any]:
        """Return the fields of the model's configuration that the task decides."""
        return {}

    def class_names(self) -> dict[str, dict[Any, Any]]:
        """Return the fields of a model's configuration that name the classes."""
        names = dict(enumerate(self.labels))
        return {"id2label": names, "label2id": {name: label for label, name in names.items()}}

    def model(self, config: PretrainedConfig) -> PreTrainedModel:
        """Return a model with the task's head and first weights; its `base_model` maps tokens to states."""
        return getattr(importlib.import_module("transformers"), self.auto_model).from_config(config)

    @abstractmethod
    def collator(
        self, tokenizer: PreTrainedTokenizerBase
    ) -> Callable[[Sequence[Mapping[str, Any]]], dict[str, Tensor]]:
        """Return the function that makes a batch of examples of `lib.data.tokens.TokenDataset`."""

    def begin(self, split: str, tokens: Dataset) -> None:  # noqa: B027 most tasks need no more than batches hold
        """Hear which split is predicted next: `validation`, or `test`, always after validation.

        Args:
            split: its name.
            tokens: the split, in the order in which it is predicted.
        """

    @abstractmethod
    def metrics(self, prediction: EvalPrediction) -> dict[str, float]:
        """Return the scores of a split from what `prediction_step` returned for its batches."""

    def prediction_step(
        self, model: PreTrainedModel, inputs: Mapping[str, Tensor]
    ) -> tuple[Tensor | None, Tensor | tuple[Tensor, ...], Tensor] | None:
        """Return loss, what is kept of the outputs, and of the labels, of a batch; None = logits and labels whole."""
        return None

    def loss(self, loss: Tensor, logits: Tensor, beside: Tensor, items: Tensor | int | None) -> Tensor:
        """Return the loss of a training batch that has something `beside`.

        Args:
            loss: that of the model.
            logits: its scores.
            beside: what the batch has beside.
            items: number of items over all parts of an accumulated batch; None = those at hand.
        """
        raise TypeError(f"{type(self).__name__} has no loss of its own, yet says that there is something beside")

    def predictions(self, tokens: Dataset, output: PredictionOutput) -> pd.DataFrame:
        """Return one row per document: `id`, `label`, `prediction`, what else is predicted, and its `group`.

        Labels are missing where a test split has none.

        Args:
            tokens: the split, in the order of `output`.
            output: what was predicted.
        """
        raise TypeError(f"{type(self).__name__} predicts nothing, yet its parameters say `predicts`")

    def evaluate(self, classifier: Any, documents: Mapping[str, pd.DataFrame]) -> Evaluation:
        """Do the task by a backbone that needs no training loop.

        Args:
            classifier: the backbone, a `TextClassifier` or a `SpanFinder`, as the task's parameters ask for.
            documents: `id`, `text`, `label` (of spans, an array of pairs; in test perhaps missing throughout) and
                perhaps `text_pair` and `group` of the documents by split.

        Returns:
            Predictions with a column `split`, and metrics (`eval_*` of validation, `test_*`).
        """
        raise TypeError(f"{type(self).__name__} cannot be evaluated without training, yet its parameters say so")


Evaluation = tuple["pd.DataFrame", dict[str, float]]
Collator = Callable[[Sequence[Mapping[str, Any]]], "dict[str, Tensor]"]
