"""A linear model, the decision of baselines; its penalty and class weights may be chosen on validation, or by folds.

Where documents have several classes, each class has a linear model of its own, against all documents without it.

Shapes: n texts or words, F features, C classes.
"""

from collections.abc import Callable, Mapping, Sequence
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
SURE = 1000.0
"""Score of a class that all training documents have, and the negative of one that none has: its sigmoid is 1, or 0."""


class LogisticSettings(BackboneSettings):
    """Base of the settings of backbones that decide by logistic regression, or by another linear model."""

    decision: Literal["logistic", "svm", "ridge"] = Field("logistic", exclude_if=lambda value: value == "logistic")
    """The linear model: logistic regression, a linear support vector machine or ridge regression on the classes. The
    last two give no probabilities, so the softmax of their scores stands for them; where documents have several
    classes, the sigmoid of each score."""
    C: PositiveFloat | Literal["validation", "folds"] = "validation"
    """Inverse strength of the penalty on weights; `validation` = of 1, 3, 10, 30 and 100 the one with the best score on
    validation, by the metric that also selects the best epoch; among equals the smallest. `folds` = the one with the
    best mean macro-F1 over five folds of the training documents, each class in all of them; where documents have
    several classes, the best mean micro-F1 over five folds as they are drawn."""
    class_weight: Literal["balanced", "validation"] | dict[str, PositiveFloat] | None = "validation"
    """`balanced` = rare classes weigh as much as frequent ones; a mapping = the weight of each class by its name, 1 for
    the others; null = all documents weigh alike; `validation` = the better of `balanced` and null on validation, chosen
    together with `C`; null if they are equal. Where documents have several classes, these are weights of the documents
    that have a class, against those without it. Not set = `class_weights` of the stage's recipe, if that is set."""
    max_iter: PositiveInt = 1000
    """Maximum number of iterations of the optimiser (lbfgs)."""


class LogisticBackbone(contract.TextBackbone):
    """Base of the backbones that decide by logistic regression."""

    parameters: LogisticSettings
    classifier: Any
    """Pipeline of the step that makes features of texts, and the regression."""

    def require_classes(self, labels: Any) -> None:
        """Refuse documents that are all of one class, or have all the same ones.

        Raises:
            DataError: they are.
        """
        if (labels.map(tuple) if self.sets else labels).nunique() < 2:
            one = "one set of classes" if self.sets else "one class"
            raise DataError(f"only {one} in training; expected at least two. Add documents of the others.")

    def decision(self, features: Any, labels: Any, read: Callable[[Any], Any]) -> Any:
        """Return the regression, fitted; the best one on validation where there is a choice.

        Args:
            features: of the training texts [n, F].
            labels: their classes [n], or lists of those of each.
            read: returns the features of other texts.

        Raises:
            ConfigError: there is a choice, but no validation.
            DataError: a class has too few documents for folds.
        """
        from lib.evaluation.label_sets import indicators  # a plan needs no statistics

        settings, validation = self.parameters, self.validation
        strengths = STRENGTHS if isinstance(settings.C, str) else (settings.C,)
        weights = WEIGHTS if settings.class_weight == "validation" else (settings.class_weight,)
        tried = [{"C": strength, "class_weight": weight} for strength in strengths for weight in weights]
        labels = indicators(labels, len(self.labels)) if self.sets else np.asarray(labels)
        if len(tried) == 1:
            return self._fitted(tried[0], features, labels)
        if settings.C == "folds":
            scores = self._scores_of_folds(tried, features, labels)
        elif validation is None:
            raise ConfigError("backbone: no validation documents to choose C and class_weight by. Set both to a value.")
        else:
            texts, classes, score = validation
            held_out, best, scores = read(texts), None, []
            for each in tried:  # of which only the best is kept, since all of many classes would not fit into memory
                regression = self._fitted(each, features, labels)
                scores.append(score(self.answers(regression, held_out, texts, classes)))
                best = regression if scores[-1] > max(scores[:-1], default=-np.inf) else best
        self.chosen = tried[scores.index(max(scores))]  # the first of equals
        self.candidates = [each | {"score": float(found)} for each, found in zip(tried, scores, strict=True)]
        return self._fitted(self.chosen, features, labels) if settings.C == "folds" else best

    def _scores_of_folds(self, tried: Sequence[Mapping[str, Any]], features: Any, labels: Any) -> list[float]:
        """Return the mean F1 of each of the settings over folds."""
        from sklearn.metrics import f1_score  # starts slowly
        from sklearn.model_selection import KFold, StratifiedKFold

        fewest = labels.shape[0] if self.sets else np.unique(labels, return_counts=True)[1].min()
        if fewest < FOLDS:
            few = f"{'the dataset' if self.sets else 'a class'} has {fewest} training documents; expected {FOLDS}"
            raise DataError(f"{few}, one for each fold. Add some, or set C to a number.")
        kind, average = (KFold, "micro") if self.sets else (StratifiedKFold, "macro")
        folds = [*kind(FOLDS, shuffle=True, random_state=0).split(features, labels)]

        def score(options: Mapping[str, Any], others: np.ndarray, fold: np.ndarray) -> float:
            regression, rows = self._fitted(options, features[others], labels[others]), features[fold]
            given = regression.decision_function(rows) > 0 if self.sets else regression.predict(rows)
            return f1_score(labels[fold], given, average=average)

        return [float(np.mean([score(each, *fold) for fold in folds])) for each in tried]

    def _fitted(self, options: Mapping[str, Any], features: Any, labels: Any) -> Any:
        """Return a linear model with these settings, fitted to classes [n], or to whether texts have each [n, C]."""
        if isinstance(weights := options["class_weight"], dict):
            weights = {number: weights.get(name, 1.0) for number, name in enumerate(self.labels)}
        if not self.sets:
            return self._linear({**options, "class_weight": weights}).fit(features, labels)
        from sklearn.linear_model import LogisticRegression  # starts slowly

        columns, found, (texts, classes) = labels.tocsc(), LogisticRegression(), labels.shape
        found.classes_, found.coef_ = np.arange(classes), np.zeros((classes, features.shape[1]))
        counts = columns.sum(axis=0).A1
        found.intercept_ = np.where(counts, SURE, -SURE)
        for number in np.flatnonzero(counts % texts):  # neither none nor all have it
            own = {False: 1.0, True: weights[number]} if isinstance(weights, dict) else weights
            has = columns[:, [number]].toarray().ravel()
            regression = self._linear({**options, "class_weight": own}).fit(features, has)
            found.coef_[number] = regression.coef_.ravel()
            found.intercept_[[number]] = regression.intercept_
        return found

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

        Where texts have several classes, it is the probability of each. A class that training never saw has
        probability 0.

        Args:
            regression: fitted.
            features: of the texts [n, F].
            texts: texts, or pairs of texts [n].
            classes: number of classes; 0 = texts have none.
        """
        from scipy.special import expit, softmax  # a plan needs no statistics

        if self.sets:
            return expit(regression.decision_function(features))
        probabilities = np.zeros((len(texts), classes))
        if self.parameters.decision == "logistic":
            probabilities[:, regression.classes_] = regression.predict_proba(features)
            return probabilities
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
        rows = 1 if len(classes) == 2 and not self.sets else len(classes)
        require_shape(folder / NUMBERS, "coef", fit.numbers["coef"], rows, features)
        require_shape(folder / NUMBERS, "intercept", fit.numbers["intercept"], rows)
        for name in DECISION:
            setattr(regression, f"{name}_", fit.numbers[name])
        return regression
