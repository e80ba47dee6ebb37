"""Scores, thresholds and decisions of sets of classes, against scikit-learn and own code."""

import numpy as np
import pytest
from sklearn import metrics as sk

from lib.core.errors import DataError
from lib.evaluation.label_sets import chosen_thresholds, label_set_metrics


def drawn(seed, documents=60):
    """Labels, probabilities with ties, and names: some classes and some documents have no label."""
    draws = np.random.default_rng(seed)
    classes = int(draws.integers(2, 15))
    labels = draws.random((documents, classes)) < draws.uniform(0, 0.4, classes) * draws.integers(
        2, size=(documents, 1)
    )
    labels[:, 0], labels[0, 1] = False, True
    noise = draws.random((documents, classes))
    probabilities = (0.4 * labels + 0.6 * noise).round(1 if seed % 2 else 6)
    return labels, probabilities, [f"c{number}" for number in range(classes)]


def by_hand(labels, probabilities, k):
    """Recall, R-precision and nDCG at k, document by document."""
    rows = []
    for true, scores in zip(labels, probabilities, strict=True):
        if number := int(true.sum()):
            best = sorted(range(len(true)), key=lambda each: (-scores[each], each))[:k]
            hits = sum(bool(true[each]) for each in best)
            rows.append((hits / number, hits / min(number, k)))
    return np.mean(rows, axis=0)


@pytest.mark.filterwarnings("ignore:No positive class:UserWarning")
@pytest.mark.parametrize("seed", range(12))
def test_scores_of_random_tables(seed):
    labels, probabilities, names = drawn(seed)
    decided = probabilities >= 0.5
    found = label_set_metrics(labels, probabilities, decided, names)
    expected = {"subset_accuracy": (labels == decided).all(axis=1).mean(), "hamming_loss": (labels != decided).mean()}
    for average in ("micro", "macro", "weighted", "samples"):
        for name in ("precision", "recall", "f1"):
            score = getattr(sk, f"{name}_score")
            expected[f"{name}_{average}"] = score(labels, decided, average=average, zero_division=0)
    for average in ("micro", "macro"):
        precision = sk.average_precision_score(labels, probabilities, average=average)
        expected[f"average_precision_{average}"] = precision
    has = labels.any(axis=1)
    for k in (k for k in (1, 5) if k < len(names)):
        expected[f"recall_at_{k}"], expected[f"r_precision_at_{k}"] = by_hand(labels, probabilities, k)
        expected[f"ndcg_at_{k}"] = sk.ndcg_score(labels[has], probabilities[has], k=k)
    assert {name for name in found if "_class_" not in name} == expected.keys()
    assert {name: found[name] for name in expected} == pytest.approx(expected, abs=1e-12)
    assert ("f1_class_c1" in found) == (len(names) <= 10)


def f1_at(labels, probabilities, every):
    """F1 of the decisions at each of the thresholds."""
    given = probabilities.ravel() >= every[:, None]
    return 2 * (given & labels.ravel()).sum(axis=1) / (given.sum(axis=1) + labels.sum())


@pytest.mark.parametrize("seed", range(4))
def test_thresholds_are_the_best_there_are(seed):
    labels, probabilities, _ = drawn(seed)
    one, each = (chosen_thresholds(labels, probabilities, per_class=per_class) for per_class in (False, True))
    every = np.unique(probabilities)
    scores = f1_at(labels, probabilities, every)
    assert len({*one}) == 1
    assert one[0] == every[np.flatnonzero(np.isclose(scores, max(scores)))[-1]]
    for number in range(labels.shape[1]):
        own = f1_at(labels[:, number], probabilities[:, number], every)
        reached = own[list(every).index(each[number])]
        assert reached == pytest.approx(max(own)) if labels[:, number].any() else each[number] == one[0]


def test_scores_without_any_label_are_refused():
    with pytest.raises(DataError, match="none of 2 documents has a label"):
        label_set_metrics(np.zeros((2, 3)), np.zeros((2, 3)), np.zeros((2, 3)), list("abc"))
