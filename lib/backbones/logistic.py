"""A linear model, the decision of baselines; its penalty and class weights may be chosen on validation, or by folds.

Shapes: n texts or words, F features, C classes.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field

from lib.backbones import contract
from lib.backbones.fitted import NUMBERS, Fit, require_shape
from lib.backbones.settings import BackboneSettings
from lib.core.errors import ConfigError, DataError
from lib.core.settings import PositiveFloat, PositiveInt

DECISION = ("coef", "intercept", "classes")
"""Arrays of a fitted regression."""
STRENGTHS = (1.0, 3.0, 10.0, 30.0, 100.0)
"""Values of `C` that are tried, from the strongest penalty on."""
FOLDS = 5
WEIGHTS = (None, "balanced")
"""Values of `class_weight` that are tried."""


class LogisticSettings(BackboneSettings):
    """Base of the settings of backbones that decide by logistic regression, or by another linear model."""

    decision: Literal["logistic", "svm", "ridge"] = Field("logistic", exclude_if=lambda value: value == "logistic")
    """The linear model: logistic regression, a linear support vector machine or ridge regression on the classes. The
    last two give no probabilities, so the softmax of their scores stands for them."""
    C: PositiveFloat | Literal["validation", "folds"] = "validation"
    """Inverse strength of the penalty on weights; `validation` = of 1, 3, 10, 30 and 100 the one with the best score on
    validation, by the metric that also selects the best epoch; among equals the smallest. `folds` = the one with the
    best mean macro-F1 over five folds of the training documents, each class in all of them."""
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

    def require_classes(self, labels: Any) -> None:
        """Refuse documents that are all of one class.

        Raises:
            DataError: they are.
        """
        if labels.nunique() < 2:
            raise DataError("only one class in training; expected at least two. Add documents of the others.")

    def decision(self, features: Any, labels: Any, read: Callable[[Any], Any]) -> Any:
        """Return the regression, fitted; the best one on validation where there is a choice.

        Args:
            features: of the training texts [n, F].
            labels: their classes [n].
            read: returns the features of other texts.

        Raises:
            ConfigError: there is a choice, but no validation.
            DataError: a class has too few documents for folds.
        """
        from sklearn.model_selection import StratifiedKFold, cross_val_score  # starts slowly

        settings, validation = self.parameters, self.validation
        strengths = STRENGTHS if isinstance(settings.C, str) else (settings.C,)
        weights = WEIGHTS if settings.class_weight == "validation" else (settings.class_weight,)
        tried = [{"C": strength, "class_weight": weight} for strength in strengths for weight in weights]
        if isinstance(named := settings.class_weight, dict):
            by_number = {number: named.get(name, 1.0) for number, name in enumerate(self.labels)}
            models = [self._linear(each | {"class_weight": by_number}) for each in tried]
        else:
            models = [self._linear(each) for each in tried]
        if len(tried) == 1:
            return models[0].fit(features, labels)
        if settings.C == "folds":
            if (fewest := np.unique(labels, return_counts=True)[1].min()) < FOLDS:
                few = f"a class has {fewest} training documents; expected {FOLDS}, one for each fold"
                raise DataError(f"{few}. Add some, or set C to a number.")
            folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
            scores = [cross_val_score(each, features, labels, scoring="f1_macro", cv=folds).mean() for each in models]
        elif validation is None:
            raise ConfigError("backbone: no validation documents to choose C and class_weight by. Set both to a value.")
        else:
            texts, classes, score = validation
            held_out = read(texts)
            fitted = [each.fit(features, labels) for each in models]
            scores = [score(self.answers(each, held_out, texts, classes)) for each in fitted]
        best = scores.index(max(scores))  # the first of equals
        self.chosen = tried[best]
        self.candidates = [each | {"score": float(found)} for each, found in zip(tried, scores, strict=True)]
        return models[best].fit(features, labels) if settings.C == "folds" else models[best]

    def _linear(self, options: Mapping[str, Any]) -> Any:
        """Return a linear model that is not fitted."""
        from sklearn.linear_model import LogisticRegression, RidgeClassifier  # starts slowly
        from sklearn.svm import LinearSVC

        kind, most = self.parameters.decision, self.parameters.max_iter
        if kind == "ridge":  # which has the penalty itself, relative to C as scikit-learn's manual says
            return RidgeClassifier(alpha=1 / (2 * options["C"]), class_weight=options["class_weight"])
        if kind == "svm":
            return LinearSVC(max_iter=most, random_state=0, **options)
        return LogisticRegression(max_iter=most, **options)

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
        if self.parameters.decision == "logistic":
            probabilities[:, regression.classes_] = regression.predict_proba(features)
            return probabilities
        from scipy.special import softmax  # a plan needs no statistics

        scores = regression.decision_function(features)
        of_classes = np.stack([-scores, scores], axis=1) if scores.ndim == 1 else scores
        probabilities[:, regression.classes_] = softmax(of_classes, axis=1)
        return probabilities

    @property
    def weights(self) -> int:
        """See `lib.backbones.contract.TextBackbone.weights`: those of the regression."""
        regression = self.classifier[-1]
        return regression.coef_.size + regression.intercept_.size

    def decision_numbers(self) -> dict[str, np.ndarray]:
        """Return the arrays that the regression consists of."""
        regression = self.classifier[-1]
        classes, intercept = regression.classes_, np.atleast_1d(regression.intercept_)
        return {"coef": np.atleast_2d(regression.coef_), "intercept": intercept, "classes": classes}

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

        # It also stands for the other linear models, whose scores have the same formula.
        classes, regression = fit.numbers["classes"], LogisticRegression()
        rows = 1 if len(classes) == 2 else len(classes)
        require_shape(folder / NUMBERS, "coef", fit.numbers["coef"], rows, features)
        require_shape(folder / NUMBERS, "intercept", fit.numbers["intercept"], rows)
        for name in DECISION:
            setattr(regression, f"{name}_", fit.numbers[name])
        return regression
