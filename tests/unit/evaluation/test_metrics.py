import math
import subprocess
import sys
import warnings

import numpy as np
import pytest

from lib.core.errors import RunError
from lib.evaluation.metrics import class_report, classification_metrics, decision_metrics, regression_metrics


def one_hot(predictions, classes):
    return np.eye(classes)[predictions]


def test_metrics_by_hand():
    # Predicted 0, 0, 1, 1 for 0, 1, 1, 1: class 0 has precision 1/2, recall 1; class 1 precision 1, recall 2/3.
    probabilities = [[0.9, 0.1], [0.6, 0.4], [0.2, 0.8], [0.5 - 1e-9, 0.5 + 1e-9]]
    metrics = classification_metrics([0, 1, 1, 1], probabilities, ["no", "yes"])
    assert metrics["accuracy"] == pytest.approx(3 / 4)
    assert metrics["balanced_accuracy"] == pytest.approx((1 + 2 / 3) / 2)
    assert metrics["precision_macro"] == pytest.approx(3 / 4)
    assert metrics["recall_macro"] == pytest.approx(5 / 6)
    assert metrics["f1_macro"] == pytest.approx((2 / 3 + 4 / 5) / 2)
    assert metrics["f1_micro"] == metrics["precision_micro"] == metrics["recall_micro"] == pytest.approx(3 / 4)
    assert metrics["f1_class_no"] == pytest.approx(2 / 3)
    assert metrics["precision_class_yes"] == pytest.approx(1)
    assert metrics["mean_confidence"] == pytest.approx((0.9 + 0.6 + 0.8 + 0.5) / 4)
    entropies = [-sum(p * math.log(p) for p in row) for row in probabilities]
    assert metrics["mean_entropy"] == pytest.approx(np.mean(entropies))
    assert not any(name.startswith("top_") for name in metrics)


@pytest.mark.parametrize("classes", [3, 4, 11])
def test_decisions_alone(classes):
    """Of 4 classes the last one neither occurs nor is predicted; more than 10 have no scores of their own."""
    generator = np.random.default_rng(1)
    labels, predictions = generator.integers(min(classes, 3), size=(2, 40))
    names = [f"c{number}" for number in range(classes)]
    whole = classification_metrics(labels, one_hot(predictions, classes), names)
    found = decision_metrics(labels, predictions, names)
    assert found == pytest.approx({name: whole[name] for name in found})
    assert {name for name in whole if name not in found} <= {
        "mean_confidence",
        "mean_entropy",
        "top_3_accuracy",
        "top_5_accuracy",
    }


def test_top_k_with_more_classes():
    probabilities = [[0.4, 0.3, 0.2, 0.1], [0.4, 0.3, 0.2, 0.1]]
    metrics = classification_metrics([2, 3], probabilities, list("abcd"))
    assert metrics["top_3_accuracy"] == 0.5
    assert "top_5_accuracy" not in metrics
    assert "top_3_accuracy" not in classification_metrics([2], [[0.2, 0.2, 0.6]], list("abc"))


def test_top_k_with_ties():
    probabilities = np.full((6, 6), 1 / 6)
    metrics = classification_metrics(range(6), probabilities, list("abcdef"))
    assert metrics["accuracy"] == pytest.approx(1 / 6)
    assert metrics["top_3_accuracy"] == pytest.approx(3 / 6)
    assert metrics["top_5_accuracy"] == pytest.approx(5 / 6)


def test_metrics_with_an_absent_class():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        metrics = classification_metrics([1, 1, 1, 1], one_hot([1, 1, 1, 1], 2), ["no", "yes"])
    assert metrics["f1_macro"] == 0.5
    assert metrics["f1_class_no"] == 0
    assert metrics["balanced_accuracy"] == metrics["accuracy"] == 1


def test_metrics_per_class_up_to_ten_classes():
    names = [f"c{number}" for number in range(11)]
    labels = np.arange(11)
    metrics = classification_metrics(labels, one_hot(labels, 11), names)
    assert metrics["f1_macro"] == 1
    assert not any("_class_" in name for name in metrics)
    assert [row["label"] for row in class_report(labels, labels, names)] == names
    assert any("_class_" in name for name in classification_metrics(labels[:10], one_hot(labels[:10], 10), names[:10]))


def test_predictions_that_are_nan():
    with pytest.raises(RunError, match="the training has diverged"):
        classification_metrics([0, 1], [[0.5, 0.5], [math.nan, math.nan]], ["no", "yes"])


def test_rooms_without_torch():
    modules = "lib.backbones.tfidf.backbone, lib.results.scope, lib.results.style"
    code = f"import {modules}, sys; sys.exit(bool({{'torch', 'transformers'}} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_matthews_by_hand():
    # Of class 1: 2 true positives, 1 false negative, 1 true negative, no false positive.
    found = decision_metrics([1, 1, 1, 0], [1, 1, 0, 0], ["no", "yes"])["matthews"]
    assert found == pytest.approx((2 * 1 - 0 * 1) / math.sqrt(2 * 3 * 1 * 2))
    assert decision_metrics([0, 1, 1], [1, 1, 1], ["no", "yes"])["matthews"] == 0


def test_regression_by_hand():
    labels, predictions = [0.0, 1.0, 2.0, 5.0], [0.5, 1.0, 4.0, 4.5]
    found = regression_metrics(labels, predictions)
    assert found["pearson"] == pytest.approx(np.corrcoef(labels, predictions)[0, 1])
    assert found["spearman"] == pytest.approx(1)
    assert found["mse"] == pytest.approx((0.25 + 0 + 4 + 0.25) / 4)
    assert found["mae"] == pytest.approx((0.5 + 0 + 2 + 0.5) / 4)


@pytest.mark.parametrize(("labels", "predictions"), [([1, 2], [3, 3]), ([1, 1], [2, 3]), ([1], [1])])
def test_correlation_without_variance(labels, predictions):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = regression_metrics(labels, predictions)
    assert found["pearson"] == found["spearman"] == 0
