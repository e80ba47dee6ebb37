import math

import numpy as np
import pytest
import sklearn
from scipy.stats import binom
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, precision_score, recall_score

from lib.core.errors import ConfigError, DataError
from lib.evaluation import decisions

SCORES = {"precision": precision_score, "recall": recall_score, "f1": f1_score}


def drawn(number):
    """Return probabilities [60, 3], many of them equal, and labels that are mostly the likeliest class."""
    generator = np.random.default_rng(number)
    probabilities = np.round(8 * generator.dirichlet(np.ones(3), 60)) / 8
    wrong = generator.random(60) < 0.3
    return probabilities, np.where(wrong, generator.integers(0, 3, 60), probabilities.argmax(axis=1))


def test_temperature_by_hand():
    """Of four documents with a confidence of 0.9, three are right: ln 9 / T = ln 3."""
    probabilities = np.float32([[0.9, 0.1]] * 3 + [[0.1, 0.9]])
    assert decisions.temperature(probabilities, [0, 0, 0, 0]) == pytest.approx(2, rel=1e-5)
    assert decisions.at_temperature(probabilities, 2)[[0, 3], 0].tolist() == pytest.approx([0.75, 0.25])
    assert decisions.at_temperature([[0.0, 1.0]], 3.0).tolist() == [pytest.approx([0, 1], abs=1e-12)]
    assert 0.01 <= decisions.temperature([[0.6, 0.4], [1, 0]], [0, 0]) < 0.02  # any lower one is as good
    assert decisions.temperature([[0.6, 0.4], [1, 0]], [1, 1]) == pytest.approx(100, rel=1e-3)


def test_temperature_against_scikit_learn():
    if tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 8):
        pytest.skip("scikit-learn has temperatures from version 1.8")
    shape = {"n_informative": 6, "n_redundant": 0, "n_classes": 4, "flip_y": 0.3}
    features, labels = make_classification(400, 10, **shape, random_state=1)
    model = LogisticRegression(C=100).fit(features[:60], labels[:60])
    calibrated = CalibratedClassifierCV(FrozenEstimator(model), method="temperature")
    expected = calibrated.fit(features[60:200], labels[60:200]).predict_proba(features[200:])
    found = decisions.temperature(model.predict_proba(features[60:200]), labels[60:200])
    assert 1.2 < found < 20
    probabilities = decisions.at_temperature(model.predict_proba(features[200:]), found)
    np.testing.assert_allclose(probabilities, expected, rtol=1e-4)


@pytest.mark.parametrize("number", range(5))
@pytest.mark.parametrize(("measure", "least"), [("precision", 0.5), ("recall", 0.75), ("f1", 0), ("f1", 0.2)])
def test_threshold_among_all(measure, least, number):
    probabilities, labels = drawn(number)
    is_class, own = labels == 1, probabilities[:, 1]
    found = {}
    for each in np.unique(own):
        scores = {name: score(is_class, own >= each, zero_division=0) for name, score in SCORES.items()}
        if scores[measure] >= least:
            order = {"precision": ["recall", "precision"], "recall": ["precision", "recall"], "f1": ["f1"]}[measure]
            found[each] = [round(scores[name], 12) for name in order] + [each]
    assert decisions.threshold(own, is_class, measure, least) == max(found, key=found.get)


def test_threshold_that_none_reaches():
    with pytest.raises(DataError, match="precision of 60 %; the best is 50.0 %"):
        decisions.threshold([0.9, 0.5], [False, True], "precision", 0.6)
    with pytest.raises(DataError, match="no document is of the class"):
        decisions.threshold([0.9, 0.5], [False, False], "f1")


def test_decisions_by_thresholds():
    probabilities = np.float32([[0.5, 0.3, 0.2], [0.45, 0.35, 0.2], [0.3, 0.3, 0.4], [0.1, 0.6, 0.3]])
    assert decisions.decide(probabilities, {}).tolist() == [0, 0, 2, 1]
    assert decisions.decide(probabilities, {1: 0.33}).tolist() == [0, 1, 2, 1]
    assert decisions.decide(probabilities, {0: 0.5, 2: 0.3}).tolist() == [0, 1, 2, 2]
    assert decisions.decide(probabilities, {2: 0.2, 1: 0.25}).tolist() == [1, 1, 2, 1]
    assert decisions.decide([[1.0, 0.0]], {1: 0.0}).tolist() == [1]  # as where a recall of 1 is wanted
    with pytest.raises(ConfigError, match="all classes have one"):
        decisions.decide(probabilities, dict.fromkeys(range(3), 0.5))


@pytest.mark.parametrize("number", range(5))
def test_least_confidence_among_all(number):
    probabilities, labels = drawn(number)
    confidence, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == labels
    for wrong in (0.1, 0.25, 1.0):
        fitting = [each for each in confidence if (~right[confidence >= each]).mean() <= wrong]
        assert not fitting or decisions.least_confidence(right, confidence, wrong) == min(fitting)


def test_least_confidence_of_ties():
    right, confidence = [True, True, False, True, False], np.float32([0.9, 0.8, 0.8, 0.8, 0.7])
    assert decisions.least_confidence(right, confidence, 0.25) == np.float32(0.8)
    assert decisions.least_confidence(right, confidence, 0.24) == np.float32(0.9)
    with pytest.raises(DataError, match="no confidence leaves at most 1 % wrong; the best is 50.0 %"):
        decisions.least_confidence([True, False], [0.8, 0.8], 0.01)


def test_least_confidence_with_certainty():
    """With a tenth wrong, so few would be wrong with a chance of 10 %, from 3 ln 0.1 / ln 0.9 = 66 documents on."""
    right, confidence = np.arange(300) % 40 != 3, np.linspace(1, 0.5, 300)
    right[200:] = np.arange(100) % 3 > 0
    found = decisions.decided(right, confidence, decisions.least_confidence(right, confidence, 0.1, 0.9))
    chances = binom.cdf(np.cumsum(~right), np.arange(1, 301), 0.1)
    assert found.decided == 66 + (chances[65:] > 0.1).argmax() - 1
    right[:20] = False
    with pytest.raises(DataError, match="wrong with a certainty of 90 %; the best is 40"):
        decisions.least_confidence(right, confidence, 0.1, 0.9)
    with pytest.raises(DataError, match="; that takes 688 documents"):
        decisions.least_confidence(right, confidence, 0.01, 0.9)


def test_counts_of_decided_documents():
    found = decisions.Decided(1000, 720, 14)
    assert str(found) == (
        "of 1,000 documents 720 are decided (72.0 %, 69.1 to 74.8), "
        "14 of them wrong (1.9 %, 1.1 to 3.2), 280 are left to a person"
    )
    low, high = found.shares[1][1:]
    assert [binom.sf(13, 720, low), binom.cdf(14, 720, high)] == pytest.approx([0.025, 0.025])
    assert decisions.decided([True, False, False], np.float32([0.9, 0.9, 0.8]), np.float32(0.9)) == (3, 2, 1)
    none = decisions.decided([True] * 2, [0.9, 0.8], math.inf)
    assert str(none) == "of 2 documents 0 are decided (0.0 %, 0.0 to 84.2), 2 are left to a person"
