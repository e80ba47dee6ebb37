"""Interface of a task: model with head, batches, scores and predictions.

The workflow reads tasks of one file, and must not import torch. So this module does not import it, and such a task
imports it inside its methods.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from lib.tasks.settings import TaskSettings

if TYPE_CHECKING:
    import pandas as pd
    from datasets import Dataset
    from torch import Tensor
    from transformers import EvalPrediction, PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase
    from transformers.trainer_utils import PredictionOutput


class Task(ABC):
    """Base of every task: the part `task` of a kind defines a subclass, `class Task`.

    Args:
        parameters: typed parameters of the task's kind.
        labels: names of the classes in the order of their numbers; None for a task without labels.
        seed: seed of the run, for the random draws of the task.
    """

    best: ClassVar[str]
    """Validation metric that selects the best epoch."""
    greater_is_better: ClassVar[bool] = True
    extra_input: ClassVar[str | None] = None
    """Key of training batches that `loss` gets and the model does not; None = no such key."""

    def __init__(self, parameters: TaskSettings, *, labels: Sequence[str] | None, seed: int) -> None:
        self.parameters = parameters
        self.labels = list(labels or [])
        self.seed = seed

    @classmethod
    def auto_model(cls) -> str:
        """Return the class of transformers that builds a model with the task's head from a configuration."""
        raise TypeError(f"{cls.__name__} has neither a method `auto_model` nor a method `model`")

    def model_options(self) -> dict[str, Any]:
        """Return the fields of the model's configuration that depend on the task."""
        return {}

    def class_names(self) -> dict[str, dict[Any, Any]]:
        """Return the fields of a model's configuration with the names of the classes."""
        names = dict(enumerate(self.labels))
        return {"id2label": names, "label2id": {name: label for label, name in names.items()}}

    def model(self, config: PretrainedConfig) -> PreTrainedModel:
        """Return a model with the task's head and initial weights; its `base_model` maps tokens to states."""
        return getattr(importlib.import_module("transformers"), self.auto_model()).from_config(config)

    @abstractmethod
    def collator(
        self, tokenizer: PreTrainedTokenizerBase
    ) -> Callable[[Sequence[Mapping[str, Any]]], dict[str, Tensor]]:
        """Return the function that builds a batch from examples of `lib.tokens.stored.TokenDataset`."""

    def begin(self, split: str, tokens: Dataset) -> None:  # noqa: B027 most tasks need only the batches
        """Prepare for the predictions of a split: `validation`, or `test`, always after validation.

        Args:
            split: name of the split.
            tokens: the split, in the order of prediction.
        """

    @abstractmethod
    def metrics(self, prediction: EvalPrediction) -> dict[str, float]:
        """Return the scores of a split from the results of `prediction_step` for its batches."""

    def prediction_step(
        self, model: PreTrainedModel, inputs: Mapping[str, Tensor]
    ) -> tuple[Tensor | None, Tensor | tuple[Tensor, ...], Tensor] | None:
        """Return loss, outputs and labels to keep of a batch; None = all logits and labels."""
        return None

    def loss(self, loss: Tensor, logits: Tensor, extra: Tensor, items: Tensor | int | None) -> Tensor:
        """Return the loss of a training batch with an input that the model does not get.

        Args:
            loss: loss of the model.
            logits: scores of the model.
            extra: value of the key `extra_input` in the batch.
            items: number of items over all parts of an accumulated batch; None = those of this part.
        """
        raise TypeError(f"{type(self).__name__} has no method `loss`, but sets `extra_input`")

    def predictions(self, tokens: Dataset, output: PredictionOutput) -> pd.DataFrame:
        """Return one row per document: `id`, `label`, `prediction`, other predicted columns, and `group`.

        Labels are missing if a test split has none.

        Args:
            tokens: the split, in the order of `output`.
            output: predictions of the model.
        """
        raise TypeError(f"{type(self).__name__} has no method `predictions`, but its parameters set `predicts`")

    def state(self) -> dict[str, float]:
        """Return the numbers that were chosen on validation and that later predictions need, by name."""
        return {}

    def restore(self, state: Mapping[str, float]) -> None:  # noqa: B027 most tasks choose none
        """Take the result of `state`.

        Raises:
            RunError: a number is missing.
        """

    def read(self, classifier: Any, documents: pd.DataFrame) -> pd.DataFrame:
        """Return the predictions of a backbone that needs no training loop, as `predictions` does of tokens.

        Args:
            classifier: the backbone, fitted.
            documents: as those of a split of `evaluate`.
        """
        raise TypeError(f"{type(self).__name__} has no method `read`, but its parameters declare `evaluates_on`")

    def evaluate(self, classifier: Any, documents: Mapping[str, pd.DataFrame]) -> Evaluation:
        """Evaluate a backbone that needs no training loop.

        Args:
            classifier: the backbone, a `TextClassifier` or a `SpanFinder`, depending on the task's parameters.
            documents: `id`, `text`, `label` (of spans, an array of pairs; in test perhaps missing throughout) and
                perhaps `text_pair` and `group` of the documents by split.

        Returns:
            Predictions with a column `split`, and metrics (`eval_*` of validation, `test_*`).
        """
        raise TypeError(f"{type(self).__name__} has no method `evaluate`, but its parameters declare it")


def groups(tokens: Dataset) -> dict[str, Sequence[Any]]:
    """Return the column `group` of predictions, if the documents belong to groups."""
    return {"group": tokens["group"][:]} if "group" in tokens.column_names else {}


Evaluation = tuple["pd.DataFrame", dict[str, float]]
Collator = Callable[[Sequence[Mapping[str, Any]]], "dict[str, Tensor]"]
