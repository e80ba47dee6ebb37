"""Logistic regression, the decision of baselines; its penalty and class weights may be chosen on validation.

Shapes: n texts or words, F features, C classes.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np

from lib.backbones import contract
from lib.backbones.fitted import NUMBERS, Fit, require_shape
from lib.backbones.settings import BackboneSettings
from lib.core.errors import ConfigError
from lib.core.settings import PositiveFloat, PositiveInt

DECISION = ("coef", "intercept", "classes")
"""Arrays of a fitted regression."""
STRENGTHS = (1.0, 3.0, 10.0, 30.0, 100.0)
"""Values of `C` that are tried, from the strongest penalty on."""
WEIGHTS = (None, "balanced")
"""Values of `class_weight` that are tried."""


class LogisticSettings(BackboneSettings):
    """Base of the settings of backbones that decide by logistic regression."""

    C: PositiveFloat | Literal["validation"] = "validation"
    """Inverse strength of the penalty on weights; `validation` = of 1, 3, 10, 30 and 100 the one with the best score on
    validation, by the metric that also selects the best epoch; among equals the smallest."""
    class_weight: Literal["balanced", "validation"] | dict[str, PositiveFloat] | None = "validation"
    """`balanced` = rare classes weigh as much as frequent ones; a mapping = the weight of each class by its name, 1 for
    the others; null = all documents weigh alike; `validation` = the better of `balanced` and null on validation, chosen
    together with `C`; null if they are equal. Not set = `class_weights` of the stage's recipe, if that is set."""
    max_iter: PositiveInt = 1000
    """Maximum number of iterations of the optimiser (lbfgs)."""


class LogisticBackbone(contract.TextBackbone):
    """Base of the backbones that decide by logistic regression."""

    parameters: LogisticSettings
    classifier: Any
    """Pipeline of the step that makes features of texts, and the regression."""

    def decision(self, features: Any, labels: Any, read: Callable[[Any], Any]) -> Any:
        """Return the regression, fitted; the best one on validation where there is a choice.

        Args:
            features: of the training texts [n, F].
            labels: their classes [n].
            read: returns the features of other texts.

        Raises:
            ConfigError: there is a choice, but no validation.
        """
        from sklearn.linear_model import LogisticRegression  # starts slowly

        settings, validation = self.parameters, self.validation
        strengths = STRENGTHS if settings.C == "validation" else (settings.C,)
        weights = WEIGHTS if settings.class_weight == "validation" else (settings.class_weight,)
        tried = [{"C": strength, "class_weight": weight} for strength in strengths for weight in weights]
        if len(tried) > 1 and validation is None:
            raise ConfigError("backbone: no validation documents to choose C and class_weight by. Set both to a value.")
        options: dict[str, Any] = {"max_iter": settings.max_iter}
        if isinstance(named := settings.class_weight, dict):
            options["class_weight"] = {number: named.get(name, 1.0) for number, name in enumerate(self.labels)}
        fitted = [LogisticRegression(**(each | options)).fit(features, labels) for each in tried]
        if len(tried) == 1 or validation is None:
            return fitted[0]
        texts, classes, score = validation
        held_out = read(texts)
        scores = [score(self.answers(each, held_out, texts, classes)) for each in fitted]
        best = scores.index(max(scores))  # the first of equals
        self.chosen = tried[best]
        self.candidates = [each | {"score": found} for each, found in zip(tried, scores, strict=True)]
        return fitted[best]

    def answers(self, regression: Any, features: Any, texts: Any, classes: int) -> Any:
        """Return the answers of a regression to texts, as the task scores them: here the distribution over all classes.

        A class that training never saw has probability 0.

        Args:
            regression: fitted.
            features: of the texts [n, F].
            texts: texts, or pairs of texts [n].
            classes: number of classes; 0 = texts have none.
        """
        probabilities = np.zeros((len(texts), classes))
        probabilities[:, regression.classes_] = regression.predict_proba(features)
        return probabilities

    @property
    def weights(self) -> int:
        """See `lib.backbones.contract.TextBackbone.weights`: those of the regression."""
        regression = self.classifier[-1]
        return regression.coef_.size + regression.intercept_.size

    def decision_numbers(self) -> dict[str, np.ndarray]:
        """Return the arrays that the regression consists of."""
        regression = self.classifier[-1]
        return {name: getattr(regression, f"{name}_") for name in DECISION}

    def decision_of(self, fit: Fit, features: int, folder: Path) -> Any:
        """Return the regression of an earlier fit.

        Args:
            fit: has the arrays of `decision_numbers`.
            features: F.
            folder: where the fit was read.

        Raises:
            RunError: the arrays do not fit the features, or each other.
        """
        from sklearn.linear_model import LogisticRegression

        classes, regression = fit.numbers["classes"], LogisticRegression()
        rows = 1 if len(classes) == 2 else len(classes)
        require_shape(folder / NUMBERS, "coef", fit.numbers["coef"], rows, features)
        require_shape(folder / NUMBERS, "intercept", fit.numbers["intercept"], rows)
        for name in DECISION:
            setattr(regression, f"{name}_", fit.numbers[name])
        return regression
