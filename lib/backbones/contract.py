"""What a backbone owes, by what it is able to do.

A backbone of one file is read by the workflow, which must not import torch; so this module imports none either.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from lib.core.kinds import BackboneParameters

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    import pandas as pd
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase, TrainerCallback


class TokenBackbone(ABC):
    """Maps tokens to states that a task's head is trained on (ability `states`).

    The part `backbone` of a kind defines `class Backbone`, derived from this class or from `TextClassifier`. Its models
    are models of transformers: `base_model` has `embeddings` and, if blocks can be frozen, a list `layers`, in which
    what attends is called `attention`.

    Args:
        parameters: typed parameters of the backbone's kind.
        seed: of the run, for the backbone's own draws.
    """

    def __init__(self, parameters: BackboneParameters, *, seed: int) -> None:
        self.parameters = parameters
        self.seed = seed

    @abstractmethod
    def config(self, tokenizer: PreTrainedTokenizerBase, options: dict[str, Any]) -> PretrainedConfig:
        """Return the configuration of a model, from which a task makes one.

        Args:
            tokenizer: of the run.
            options: fields that the task decides.
        """

    @abstractmethod
    def load_weights(self, model: PreTrainedModel, folder: str | Path, *, with_head: bool = False) -> None:
        """Replace the weights of `model` by those saved in `folder`, strictly.

        Args:
            model: with its task's head and first weights.
            folder: of the saved model.
            with_head: the head's weights must be there, too; otherwise a new task starts from a head of its own.

        Raises:
            RunError: there is no such model, or it does not fit. `model` is unchanged.
        """

    def check(self, model: PreTrainedModel) -> None:  # noqa: B027 most backbones have nothing to check
        """Look whether a model that was made is what the parameters say, where that does not go without saying.

        Raises:
            ConfigError: it is not.
        """

    def callbacks(self, model: PreTrainedModel) -> list[TrainerCallback]:
        """Return what is to happen to `model` while it trains."""
        return []


class TextClassifier(ABC):
    """Classifies texts without a training loop (ability `class_probabilities`); arguments as in `TokenBackbone`."""

    def __init__(self, parameters: BackboneParameters, *, seed: int) -> None:
        self.parameters = parameters
        self.seed = seed

    @abstractmethod
    def fit(self, texts: pd.Series, labels: pd.Series) -> None:
        """Learn from labelled texts what can be learnt from them.

        Raises:
            DataError: nothing can be learnt from them.
        """

    @abstractmethod
    def class_probabilities(self, texts: pd.Series, classes: int) -> np.ndarray:
        """Return the predicted distribution of each text [n, classes]."""

    @property
    @abstractmethod
    def weights(self) -> int:
        """Number of weights that were fitted."""
