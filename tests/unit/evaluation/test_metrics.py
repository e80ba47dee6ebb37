import math
import subprocess
import sys
import warnings

import numpy as np
import pytest

from lib.core.errors import DataError, RunError
from lib.evaluation.metrics import (
    class_report,
    classification_metrics,
    decision_metrics,
    perplexity,
    regression_metrics,
)


def one_hot(predictions, classes):
    return np.eye(classes)[predictions]


def test_small_case_by_hand():
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
def test_what_predicted_classes_decide_is_the_same_by_themselves(classes):
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


def test_no_class_is_wrong_whatever_the_true_one_is():
    found = decision_metrics([0, 0, 1, 1], [0, -1, 1, -1], ["no", "yes"])
    assert (found["accuracy"], found["recall_macro"], found["precision_macro"]) == (0.5, 0.5, 1)
    assert (found["precision_micro"], found["recall_micro"]) == (1, 0.5)
    assert found["f1_macro"] == found["f1_class_yes"] == pytest.approx(2 / 3)


def test_certain_predictions_have_no_entropy():
    assert classification_metrics([0, 1], one_hot([0, 1], 2), ["a", "b"])["mean_entropy"] == 0


def test_top_k_by_hand_and_only_with_more_classes():
    probabilities = [[0.4, 0.3, 0.2, 0.1], [0.4, 0.3, 0.2, 0.1]]
    metrics = classification_metrics([2, 3], probabilities, list("abcd"))
    assert metrics["top_3_accuracy"] == 0.5
    assert "top_5_accuracy" not in metrics
    assert "top_3_accuracy" not in classification_metrics([2], [[0.2, 0.2, 0.6]], list("abc"))


def test_ties_go_to_the_lower_class_at_every_k():
    probabilities = np.full((6, 6), 1 / 6)
    metrics = classification_metrics(range(6), probabilities, list("abcdef"))
    assert metrics["accuracy"] == pytest.approx(1 / 6)
    assert metrics["top_3_accuracy"] == pytest.approx(3 / 6)
    assert metrics["top_5_accuracy"] == pytest.approx(5 / 6)


def test_a_split_of_one_class_counts_the_absent_one_as_zero_and_warns_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        metrics = classification_metrics([1, 1, 1, 1], one_hot([1, 1, 1, 1], 2), ["no", "yes"])
    assert metrics["f1_macro"] == 0.5
    assert metrics["f1_class_no"] == 0
    assert metrics["balanced_accuracy"] == metrics["accuracy"] == 1


def test_more_than_ten_classes_have_no_figures_per_class_in_the_metrics():
    names = [f"c{number}" for number in range(11)]
    labels = np.arange(11)
    metrics = classification_metrics(labels, one_hot(labels, 11), names)
    assert metrics["f1_macro"] == 1
    assert not any("_class_" in name for name in metrics)
    assert [row["label"] for row in class_report(labels, labels, names)] == names
    assert any("_class_" in name for name in classification_metrics(labels[:10], one_hot(labels[:10], 10), names[:10]))


@pytest.mark.parametrize(
    ("labels", "probabilities", "message"),
    [
        ([], np.empty((0, 2)), "0 labels .* do not fit"),
        ([0, 1], one_hot([0], 2), "do not fit"),
        ([0, 1], one_hot([0, 1], 3), "do not fit"),
        ([0, 2], one_hot([0, 1], 2), "from 0 to 2; expected 0 to 1"),
        ([-1, 0], one_hot([0, 1], 2), "from -1 to 0"),
    ],
)
def test_labels_that_do_not_fit_are_refused(labels, probabilities, message):
    with pytest.raises(DataError, match=message):
        classification_metrics(labels, probabilities, ["no", "yes"])


def test_a_diverged_model_is_named_as_such():
    with pytest.raises(RunError, match="the training has diverged"):
        classification_metrics([0, 1], [[0.5, 0.5], [math.nan, math.nan]], ["no", "yes"])


def test_perplexity():
    assert perplexity(0.0) == 1
    assert perplexity(math.log(7)) == pytest.approx(7)
    assert perplexity(1000.0) == math.inf


@pytest.mark.parametrize("module", ["lib.backbones.tfidf.backbone", "lib.results.scope", "lib.results.style"])
def test_rooms_without_torch(module):
    code = f"import {module}, sys; sys.exit(bool({{'torch', 'transformers'}} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_matthews_correlation_by_hand():
    # Of class 1: 2 true positives, 1 false negative, 1 true negative, no false positive.
    found = decision_metrics([1, 1, 1, 0], [1, 1, 0, 0], ["no", "yes"])["matthews"]
    assert found == pytest.approx((2 * 1 - 0 * 1) / math.sqrt(2 * 3 * 1 * 2))
    assert decision_metrics([0, 1, 1], [1, 1, 1], ["no", "yes"])["matthews"] == 0


def test_numbers_are_scored_by_correlations_and_errors():
    labels, predictions = [0.0, 1.0, 2.0, 5.0], [0.5, 1.0, 4.0, 4.5]
    found = regression_metrics(labels, predictions)
    assert found["pearson"] == pytest.approx(np.corrcoef(labels, predictions)[0, 1])
    assert found["spearman"] == pytest.approx(1)
    assert found["mse"] == pytest.approx((0.25 + 0 + 4 + 0.25) / 4)
    assert found["mae"] == pytest.approx((0.5 + 0 + 2 + 0.5) / 4)


@pytest.mark.parametrize(("labels", "predictions"), [([1, 2], [3, 3]), ([1, 1], [2, 3]), ([1], [1])])
def test_numbers_that_do_not_vary_correlate_with_nothing(labels, predictions):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = regression_metrics(labels, predictions)
    assert found["pearson"] == found["spearman"] == 0


def test_numbers_that_are_none_are_refused():
    with pytest.raises(RunError, match="1 of 2 predictions"):
        regression_metrics([1, 2], [1, math.nan])
