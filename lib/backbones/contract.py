"""Interfaces of backbones, one per ability.

The workflow reads backbones of one file, and must not import torch, so this module does not import it either.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from lib.backbones.settings import BackboneSettings
from lib.core.vocabulary import rows

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    import pandas as pd
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

    from lib.backbones.settings import Precision


class TokenBackbone(ABC):
    """Maps tokens to states that a task's head is trained on (ability `states`).

    The part `backbone` of a kind defines `class Backbone`, derived from this class or from `TextClassifier`. Its models
    are models of transformers: `base_model` has `embeddings` and, if blocks can be frozen, a list `layers`, in which
    the attention module is called `attention`. A backbone of several files has a part `model`, which defines `Model`,
    the class of `base_model`; each head of `lib.backbones.heads` is put on it, unless the parameters name `own_heads`.

    Args:
        parameters: typed parameters of the backbone's kind.
        seed: seed of the run, for the backbone's own draws.
    """

    model_class: ClassVar[type[PreTrainedModel]]
    """The model without a head."""

    def __init__(self, parameters: BackboneSettings, *, seed: int) -> None:
        self.parameters = parameters
        self.seed = seed

    def config(self, tokenizer: PreTrainedTokenizerBase, options: dict[str, Any]) -> PretrainedConfig:
        """Return the configuration that a task builds a model from.

        Args:
            tokenizer: of the run.
            options: fields that the task decides.
        """
        special = {"vocab_size": rows(tokenizer), "pad_token_id": tokenizer.pad_token_id}
        if self.parameters.needs_mechanism or self.parameters.held_mechanisms:
            special["feature_seed"] = self.seed
        return self.model_class.config_class(**self.parameters.model_dump(exclude={"kind"}), **special | options)

    def load_weights(self, model: PreTrainedModel, folder: str | Path, *, with_head: bool = False) -> None:
        """Replace the weights of `model` by those saved in `folder`, strictly.

        Args:
            model: with its task's head and first weights.
            folder: of the saved model.
            with_head: the head's weights must be there, too; otherwise a new task starts from a head of its own.

        Raises:
            RunError: the model is missing, or does not fit. `model` is unchanged.
        """
        from lib.backbones.stored import load_weights

        load_weights(model, folder, with_head=with_head)

    def check(self, model: PreTrainedModel) -> None:  # noqa: B027 most backbones have nothing to check
        """Check that a model follows its parameters, where this is not certain.

        Raises:
            ConfigError: it is not.
        """

    def quantize(self, model: PreTrainedModel, precision: Precision) -> None:  # noqa: B027 most backbones never are
        """Quantise the backbone of `model`, which has its initial weights, if the parameters say so.

        Args:
            model: still on a CPU.
            precision: of the run.

        Raises:
            RunError: a package is missing.
        """

    def set_step(self, model: PreTrainedModel, step: int | None) -> None:  # noqa: B027 most backbones never change
        """Prepare for an optimiser step, counted from 0; None = for an evaluation, as the stored model computes."""


class Validation(NamedTuple):
    """Validation documents, to choose settings of a backbone."""

    texts: pd.Series | pd.DataFrame
    """The validation texts, or pairs of texts (two columns)."""
    classes: int
    """Number of classes of a text; 0 = texts have none."""
    score: Callable[[Any], float]
    """Returns the task's score of the answers of a backbone to the texts: probabilities of classes, or pieces. The
    greatest is the best."""


class TextBackbone(ABC):
    """Reads texts and does its task without a training loop; arguments as in `TokenBackbone`."""

    def __init__(self, parameters: BackboneSettings, *, seed: int) -> None:
        self.parameters = parameters
        self.seed = seed
        self.labels: Sequence[str] = ()
        """Names of the classes, in the order of their numbers."""
        self.sets = False
        """Whether a text has several classes, or none, so that labels are lists of them."""
        self.validation: Validation | None = None
        """Validation documents, to choose settings of the next fit; None = it has no choice."""
        self.chosen: dict[str, Any] = {}
        """Settings that the fit chose, by name."""
        self.candidates: list[dict[str, Any]] = []
        """Settings that it chose from, each with its `score`."""

    @property
    @abstractmethod
    def weights(self) -> int:
        """Number of weights that were fitted."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write the fit to a folder, which may be there, without pickle."""

    @abstractmethod
    def load(self, folder: Path) -> None:
        """Take an earlier fit from a folder, in place of a fit.

        Raises:
            RunError: it is damaged, or does not fit the parameters.
        """


class TextClassifier(TextBackbone):
    """Classifies texts (ability `class_probabilities`)."""

    featureless: float
    """Share of the texts without a feature, of those read last, to fit or to classify."""

    @abstractmethod
    def fit(self, texts: pd.Series | pd.DataFrame, labels: pd.Series) -> None:
        """Fit to labelled texts, or pairs of texts (two columns).

        Raises:
            DataError: nothing can be learnt from them.
        """

    @abstractmethod
    def class_probabilities(self, texts: pd.Series | pd.DataFrame, classes: int) -> np.ndarray:
        """Return the predicted distribution of each text, or pair of texts [n, classes]."""
