import itertools
from collections import Counter

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.metrics import accuracy_score, f1_score

from lib.evaluation.statistics import (
    PairedPredictions,
    PairedSpans,
    bootstrap_test,
    holm,
    interval,
    mcnemar_test,
    smallest_difference,
)


def paired(labels, predictions, documents=None, classes=None):
    """Predictions of one seed [M, m], or of several [S, M, m]; without documents each item is one."""
    labels, predictions = np.array(labels), np.array(predictions)
    predictions = predictions[None] if predictions.ndim == 2 else predictions
    documents = np.arange(len(labels)) if documents is None else np.array(documents)
    names = [f"model-{number}" for number in range(predictions.shape[1])]
    return PairedPredictions(names, labels, predictions, documents, classes or int(max(labels)) + 1)


def macro_f1(labels, predictions, classes):
    """By definition, which is much faster than scikit-learn."""
    right = [2 * ((labels == c) & (predictions == c)).sum() for c in range(classes)]
    named = [(labels == c).sum() + (predictions == c).sum() for c in range(classes)]
    return sum(r / n for r, n in zip(right, named, strict=True) if n) / classes


def test_macro_f1_is_that_of_scikit_learn():
    """Of two seeds and three models; class 4 neither occurs nor is predicted, and counts as 0 there as well."""
    generator = np.random.default_rng(1)
    labels, predictions = generator.integers(4, size=50), generator.integers(4, size=(2, 3, 50))
    found = paired(labels, predictions, classes=5).f1()
    assert found.shape == (2, 3)
    for score, model in zip(found.ravel(), predictions.reshape(6, 50), strict=True):
        expected = f1_score(labels, model, labels=range(5), average="macro", zero_division=0)
        assert score == pytest.approx(expected, abs=1e-12)
        assert macro_f1(labels, model, 5) == pytest.approx(expected, abs=1e-12)


def test_no_class_is_wrong_and_no_other_class():
    """As where a model writes something else; the first item is of class 0, so that no count slips into another one."""
    labels, predictions = np.array([0, 1, 0, 2]), np.array([[-1, 1, 0, -1], [0, 1, 0, 2]])
    found = paired(labels, predictions)
    for score, model in zip(found.f1()[0], predictions, strict=True):
        assert score == pytest.approx(f1_score(labels, model, labels=range(3), average="macro", zero_division=0))
    assert found.right()[0].tolist() == [[False, True, True, False], [True] * 4]


def test_a_document_is_right_if_all_of_its_items_are():
    items = paired([0, 1, 1, 0, 2], [[0, 1, 1, 0, 2], [0, 2, 1, 0, 2]], documents=[0, 0, 1, 2, 2])
    assert items.right().tolist() == [[[True, True, True], [False, True, True]]]


@pytest.mark.parametrize("documents", [[0, 1, 2, 3], [0, 0, 1, 2]])
def test_resamples_are_drawn_from_all_there_are(documents):
    """Few documents can be resampled in few ways, so the distribution of the paired difference is known exactly."""
    labels, predictions = np.array([0, 1, 1, 2]), np.array([[0, 1, 2, 2], [1, 1, 1, 0]])
    items = [np.flatnonzero(np.array(documents) == document) for document in range(max(documents) + 1)]
    exact = Counter()
    for drawn in itertools.product(items, repeat=len(items)):
        taken = np.concatenate(drawn)
        ours, theirs = (macro_f1(labels[taken], model[taken], 3) for model in predictions)
        exact[round(ours - theirs, 9)] += len(items) ** -len(items)
    resampled = paired(labels, predictions, documents).resampled_f1("few", resamples=20_000)
    found = Counter(np.round(resampled[:, 0] - resampled[:, 1], 9).tolist())
    assert set(found) <= set(exact)
    for difference, share in exact.items():
        assert found[difference] / 20_000 == pytest.approx(share, abs=5 * (share / 20_000) ** 0.5)


def test_seeds_are_resampled_with_the_documents():
    """Documents are all alike, so all that varies is the mean over seeds, whose variance is known: s^2 / 3."""
    predictions = np.array([[[0] * 20], [[0] * 20], [[1] * 20]])
    several = paired([0] * 20, predictions, classes=2)
    assert several.f1().ravel().tolist() == [0.5, 0.5, 0]
    resampled = several.resampled_f1("alike", resamples=20_000)
    assert resampled.mean() == pytest.approx(1 / 3, abs=0.01)
    assert resampled.var() == pytest.approx(np.var([0.5, 0.5, 0], ddof=1) / 3, rel=0.03)
    assert paired([0] * 20, predictions[:1], classes=2).resampled_f1("alike", resamples=1000).var() == 0


def test_draws_belong_to_the_key_and_not_to_the_models():
    generator = np.random.default_rng(2)
    labels, predictions = generator.integers(2, size=40), generator.integers(2, size=(2, 3, 40))
    all_models = paired(labels, predictions).resampled_f1("imdb", resamples=500)
    two_models = paired(labels, predictions[:, 1:]).resampled_f1("imdb", resamples=500)
    assert two_models.tolist() == all_models[:, 1:].tolist()
    assert paired(labels, predictions).resampled_f1("arxiv", resamples=500).tolist() != all_models.tolist()


def test_an_interval_holds_its_share_of_the_resamples():
    low, high = interval(np.stack([np.arange(101), np.arange(101) * 2], axis=1), 0.9)
    assert [*low, *high] == pytest.approx([5, 10, 95, 190])


def outcomes(only_ours, only_theirs, both):
    """Which documents two models get right."""
    ours = [True] * only_ours + [False] * only_theirs + [True] * both
    theirs = [False] * only_ours + [True] * only_theirs + [True] * both
    return ours, theirs


def test_mcnemar_counts_the_documents_that_one_gets_right():
    """By hand: of 9 such documents at most 1 on a side has the chance 2 (1 + 9) / 2^9, whatever both get right."""
    for both in (0, 500):
        ours, theirs = outcomes(1, 8, both)
        assert mcnemar_test(np.array([ours]), np.array([theirs])) == pytest.approx(20 / 512)
    assert mcnemar_test(np.array([[True, False]]), np.array([[True, False]])) == 1


def test_p_values_of_seeds_are_combined_however_they_depend():
    """Half of the seeds, rounded up, must have a small one, which is multiplied by S over that number."""
    strong, weak = outcomes(1, 8, 3), outcomes(2, 2, 8)

    def p(*seeds):
        ours, theirs = zip(*seeds, strict=True)
        return mcnemar_test(np.array(ours), np.array(theirs))

    assert p(strong, weak) == pytest.approx(2 * 20 / 512)
    assert p(strong, weak, strong) == pytest.approx(1.5 * 20 / 512)
    assert p(weak, strong, weak) == 1


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]).tolist() == pytest.approx([0.03, 0.06, 0.06])


def test_the_smallest_difference_is_shown_as_often_as_said():
    """Simulated: the normal approximation says 80 %; the exact test, which is a little stricter, finds about that."""
    documents, disagreement, runs = 2000, 0.1, 20_000
    difference = smallest_difference(documents, disagreement, level=0.05, power=0.8)
    generator = np.random.default_rng(4)
    one_right = generator.binomial(documents, disagreement, size=runs)
    ours = generator.binomial(one_right, (1 + difference / disagreement) / 2)
    p = np.minimum(2 * binom.cdf(np.minimum(ours, one_right - ours), one_right, 0.5), 1)
    assert 0.76 < (p <= 0.05).mean() < 0.82


def test_more_documents_show_smaller_differences_and_few_show_none():
    small, large = (smallest_difference(documents, 0.1, 0.05, 0.8) for documents in (1000, 4000))
    assert large == pytest.approx(small / 2, rel=0.01)
    assert smallest_difference(90, 0.02, 0.05, 0.8) is None  # not even if all of the 2 % were on one side
    assert smallest_difference(1, 0.5, 0.05, 0.8) is None
    assert smallest_difference(1000, 0, 0.05, 0.8) is None


def test_accuracy_is_the_share_of_right_documents():
    generator = np.random.default_rng(5)
    labels, predictions = generator.integers(3, size=30), generator.integers(3, size=(1, 2, 30))
    found = paired(labels, predictions).right().mean(axis=-1)[0]
    assert found.tolist() == pytest.approx([accuracy_score(labels, each) for each in predictions[0]])


def test_f1_of_spans_is_that_of_their_characters():
    """As if each character were an item of two classes, of which only the one inside counts."""
    generator = np.random.default_rng(3)
    labels, found = generator.random((4, 30)) < 0.3, generator.random((2, 3, 4, 30)) < 0.3  # 4 documents
    found[0, 0, 1] = labels[1]
    spans = PairedSpans(["a", "b", "c"], (found & labels).sum(axis=-1), (found != labels).sum(axis=-1))
    for place in itertools.product(range(2), range(3)):
        assert spans.f1()[place] == pytest.approx(f1_score(labels.ravel(), found[place].ravel()))
    assert (spans.right() == (found == labels).all(axis=-1)).all()
    assert spans.right()[0, 0, 1]
    resampled = spans.resampled_f1("spans", resamples=500)
    assert resampled.shape == (500, 3)
    one = PairedSpans(["c"], spans.true_positives[:, 2:], spans.wrong[:, 2:])
    assert one.resampled_f1("spans", resamples=500)[:, 0] == pytest.approx(resampled[:, 2])


def test_the_bootstrap_tests_on_both_sides():
    assert bootstrap_test(np.array([1.0] * 999)) == pytest.approx(2 / 1000)
    assert bootstrap_test(np.array([-1.0] * 989 + [0.0] * 10)) == pytest.approx(2 * 11 / 1000)
    assert bootstrap_test(np.array([-1.0, 1.0])) == 1
