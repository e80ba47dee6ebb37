import itertools

import numpy as np
import pytest
from scipy.stats import ttest_1samp
from sklearn.metrics import f1_score

from lib.evaluation.statistics import Estimate, PairedPredictions, PairedSpans, holm, mcnemar_test, smallest_difference


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


def test_macro_f1_against_sklearn():
    """Of two seeds and three models; class 4 neither occurs nor is predicted, and counts as 0 there as well."""
    generator = np.random.default_rng(1)
    labels, predictions = generator.integers(4, size=50), generator.integers(4, size=(2, 3, 50))
    found = paired(labels, predictions, classes=5).f1()
    assert found.shape == (2, 3)
    for score, model in zip(found.ravel(), predictions.reshape(6, 50), strict=True):
        expected = f1_score(labels, model, labels=range(5), average="macro", zero_division=0)
        assert score == pytest.approx(expected, abs=1e-12)
        assert macro_f1(labels, model, 5) == pytest.approx(expected, abs=1e-12)


def test_predictions_of_no_class():
    """As where a model writes something else; the first item is of class 0, so that no count slips into another one."""
    labels, predictions = np.array([0, 1, 0, 2]), np.array([[-1, 1, 0, -1], [0, 1, 0, 2]])
    found = paired(labels, predictions)
    for score, model in zip(found.f1()[0], predictions, strict=True):
        assert score == pytest.approx(f1_score(labels, model, labels=range(3), average="macro", zero_division=0))
    assert found.right()[0].tolist() == [[False, True, True, False], [True] * 4]


def test_right_documents_of_several_items():
    items = paired([0, 1, 1, 0, 2], [[0, 1, 1, 0, 2], [0, 2, 1, 0, 2]], documents=[0, 0, 1, 2, 2])
    assert items.right().tolist() == [[[True, True, True], [False, True, True]]]


@pytest.mark.parametrize("documents", [[0, 1, 2, 3], [0, 0, 1, 2]])
def test_left_out_documents(documents):
    labels, predictions = np.array([0, 1, 1, 2]), np.array([[0, 1, 2, 2], [1, 1, 1, 0]])
    found = paired(labels, predictions, documents).left_out
    assert found.shape == (max(documents) + 1, 1, 2)
    for document, scores in enumerate(found[:, 0]):
        others = np.array(documents) != document
        expected = [macro_f1(labels[others], model[others], 3) for model in predictions]
        assert scores.tolist() == pytest.approx(expected)


def estimate(values, left_out=None, documents=101):
    """Of seeds, on documents that are all alike if none are given."""
    values = np.array(values, float)
    return Estimate(values, np.tile(values, (documents, 1)) if left_out is None else np.array(left_out, float))


def shares(right):
    """The share of right documents of every seed [S, n], and without each document."""
    right = np.array(right, float)
    return Estimate(right.mean(axis=1), ((right.sum(axis=1)[:, None] - right) / (right.shape[1] - 1)).T)


def test_interval_of_seeds_alone():
    low, high = estimate([0.1, 0.2]).difference_interval(0.95)
    assert [low, high] == pytest.approx([0.15 - 12.706 * 0.05, 0.15 + 12.706 * 0.05], abs=1e-3)
    low, high = estimate([0.1, 0.2, 0.3]).difference_interval(0.95)
    assert [low, high] == pytest.approx([0.2 - 4.3027 * 0.1 / 3**0.5, 0.2 + 4.3027 * 0.1 / 3**0.5], abs=1e-4)
    assert estimate([0.1, 0.2, 0.3]).p_value() == pytest.approx(ttest_1samp([0.1, 0.2, 0.3], 0).pvalue)


def test_interval_of_documents_alone():
    """The jackknife of a mean gives its usual variance."""
    values = np.random.default_rng(0).random(50) - 0.3
    one = shares([values])
    expected = ttest_1samp(values, 0)
    assert one.p_value() == pytest.approx(expected.pvalue, rel=1e-6)
    assert [*one.difference_interval(0.9)] == pytest.approx([*expected.confidence_interval(0.9)])


def test_variance_of_seeds_and_documents():
    """Documents that move both seeds alike stay in the mean; what moves one alone is in the seeds' variance already."""
    generator = np.random.default_rng(2)
    common, own = generator.standard_normal(400), 2 * generator.standard_normal((2, 400))
    both = shares(common + own)
    own_of_seeds = (common + own).mean(axis=1).var(ddof=1) / 2
    assert both.of_seeds == pytest.approx(own_of_seeds)
    assert both.of_documents == pytest.approx(1 / 400, rel=0.35)
    assert both.of_documents_given_models == pytest.approx(3 / 400, rel=0.25)
    low, high = both.difference_interval(0.95)
    squared = max(12.706**2 * both.of_seeds + 1.966**2 * both.of_documents, 1.966**2 * both.of_documents_given_models)
    assert (high - low) / 2 == pytest.approx(squared**0.5, rel=1e-3)


def test_p_value_against_its_interval():
    generator = np.random.default_rng(3)
    several = shares(0.25 + generator.standard_normal((3, 200)))
    ends = several.difference_interval(1 - several.p_value())
    assert min(map(abs, ends)) == pytest.approx(0, abs=1e-9)


def test_p_value_of_extremes():
    assert estimate([0.0, 0.0]).p_value() == 1
    assert estimate([1.0], documents=6).p_value() == 2 / 2**6
    assert 0 < estimate([0.5, 0.5], documents=5000).p_value() < 1e-100


def test_score_interval_in_bounds():
    right = np.arange(100) >= 3
    low, high = shares([right]).score_interval(0.95)
    assert 0.9 < low < 0.97 < high < 1
    assert 0.97 - low > high - 0.97
    assert shares([np.ones(50)]).score_interval(0.95) == (pytest.approx(0.05 ** (1 / 50)), 1)
    assert shares([np.zeros(50)]).score_interval(0.95) == (0, pytest.approx(1 - 0.05 ** (1 / 50)))
    assert estimate([0.2, 0.9]).score_interval(0.95) == (0, 1)


def test_interval_with_an_absent_class():
    """Rounding gives a variance of 1e-31 then, which is none."""
    labels = np.arange(40) % 2
    low, high = paired(labels, [labels], classes=3).score(0).score_interval(0.95)
    reach = (1 - 0.05 ** (1 / 20)) * 2**0.5 / 3
    assert (low, high) == (pytest.approx(2 / 3 - reach), pytest.approx(2 / 3))


@pytest.mark.parametrize(("model", "count"), [(0, 1), (1, 2), (2, 30)])
def test_interval_of_no_width(model, count):
    """Models that are right, that name one class alone, that are wrong; and their differences."""
    labels = np.arange(2 * count) % 2
    predictions = [labels, np.zeros_like(labels), 1 - labels]
    several = paired(labels, predictions, classes=3)
    low, high = several.score(model).score_interval(0.95)
    assert 0 <= low < high <= 1
    low, high = several.difference(model, model - 1).difference_interval(0.95)
    assert -1 <= low < high <= 1


@pytest.mark.parametrize("seed", range(5))
def test_difference_mirrored(seed):
    """Of models that often find a class never, or always."""
    generator = np.random.default_rng(seed)
    labels = generator.permutation([0] * 20 + [1] * 3 + [2] * 2)
    predictions = np.where(generator.random((1, 2, 25)) < 0.9, labels * (generator.random((1, 2, 25)) < 0.5), labels)
    several = paired(labels, predictions, classes=3)
    one, other = several.difference(0, 1), several.difference(1, 0)
    low, high = one.difference_interval(0.95)
    assert other.difference_interval(0.95) == (pytest.approx(-high), pytest.approx(-low))
    assert one.p_value() == pytest.approx(other.p_value())


def test_difference_against_a_bootstrap():
    """Drawing documents anew, for both models at once: what makes them hard for both does not count."""
    generator = np.random.default_rng(7)
    labels, hard = generator.integers(3, size=300), generator.random(300) < 0.3
    predictions = [np.where(hard | (generator.random(300) < 0.05), (labels + 1) % 3, labels) for _ in range(2)]
    drawn = generator.integers(300, size=(600, 300))
    scores = [[macro_f1(labels[places], each[places], 3) for each in predictions] for places in drawn]
    difference = paired(labels, predictions).difference(0, 1)
    assert difference.of_documents_given_models == pytest.approx(np.subtract(*np.transpose(scores)).var(), rel=0.2)


def test_copies_of_one_evaluation():
    generator = np.random.default_rng(8)
    labels, runs = generator.integers(3, size=60), np.array([["a", "x"], ["b", "y"], ["a", "x"], ["a", "z"]])
    two = np.where(generator.random((2, 1, 60)) < 0.7, labels, 0)
    other = np.where(generator.random((3, 1, 60)) < 0.6, labels, 1)
    predictions = np.concatenate([two[[0, 1, 0, 0]], other[[0, 1, 0, 2]]], axis=1)
    several = PairedPredictions(["ours", "theirs"], labels, predictions, np.arange(60), 3, runs=runs)
    for found, seeds in (
        (several.score(0), [0, 1]),
        (several.score(1), [0, 1, 3]),
        (several.difference(0, 1), [0, 1, 3]),
    ):
        assert found.seeds == len(seeds)
    once = paired(labels, predictions[[0, 1, 3]], classes=3).difference(0, 1)
    assert several.difference(0, 1).difference_interval(0.95) == once.difference_interval(0.95)
    assert several.score(0).mean == pytest.approx(paired(labels, two, classes=3).score(0).mean)


def outcomes(only_ours, only_theirs, both):
    """Which documents two models get right."""
    ours = [True] * only_ours + [False] * only_theirs + [True] * both
    theirs = [False] * only_ours + [True] * only_theirs + [True] * both
    return ours, theirs


def test_mcnemar_by_hand():
    """By hand: of 9 such documents at most 1 on a side has the chance 2 (1 + 9) / 2^9, whatever both get right."""
    for both in (0, 500):
        ours, theirs = outcomes(1, 8, both)
        assert mcnemar_test(np.array([ours]), np.array([theirs])) == pytest.approx(20 / 512)
    assert mcnemar_test(np.array([[True, False]]), np.array([[True, False]])) == 1


def test_mcnemar_of_several_seeds():
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


@pytest.mark.extended
@pytest.mark.parametrize("seeds", [1, 2, 3])
def test_smallest_difference_in_draws(seeds):
    generator, runs = np.random.default_rng(4), 2000
    of_seeds, of_documents = (0.0 if seeds == 1 else 0.0001), 0.0004
    smallest = smallest_difference(of_seeds, of_documents, seeds, 400, level=0.05, power=0.8)
    common = generator.standard_normal((runs, 1, 400))
    common = (common - common.mean(axis=2, keepdims=True)) * (400 * of_documents) ** 0.5
    common += generator.standard_normal((runs, 1, 1)) * of_documents**0.5  # their mean over all documents
    own = generator.standard_normal((runs, seeds, 1)) * (seeds * of_seeds) ** 0.5
    shown = [shares(smallest + each).p_value() <= 0.05 for each in common + own]
    assert np.mean(shown) == pytest.approx(0.8, abs=0.035)


def test_f1_of_spans_against_sklearn():
    """As if each character were an item of two classes, of which only the one inside counts."""
    generator = np.random.default_rng(3)
    labels, found = generator.random((4, 30)) < 0.3, generator.random((2, 3, 4, 30)) < 0.3  # 4 documents
    found[0, 0, 1] = labels[1]
    counts = [each.sum(axis=-1) for each in (found & labels, found & ~labels, ~found & labels)]
    spans = PairedSpans(["a", "b", "c"], *counts)
    for place in itertools.product(range(2), range(3)):
        assert spans.f1()[place] == pytest.approx(f1_score(labels.ravel(), found[place].ravel()))
    assert (spans.right() == (found == labels).all(axis=-1)).all()
    assert spans.right()[0, 0, 1]
    one = PairedSpans(["c"], *(each[:, 2:] for each in counts))
    assert one.left_out[..., 0] == pytest.approx(spans.left_out[..., 2])


@pytest.mark.parametrize("average", ["micro", "macro"])
def test_sets_against_sklearn(average):
    """Two seeds and models; one class does not occur, one is not even given, some sets are empty, the last one, too."""
    generator = np.random.default_rng(4)
    shares = np.array([0.5, 0.1, 0.3, 0, 0, 0.9])
    true = generator.random((25, 6)) < shares
    given = (true ^ (generator.random((2, 2, 25, 6)) < 0.3)) & (np.arange(6) != 3)
    given[0, 0], true[[3, 24]], given[..., [4, 24], :] = true & (generator.random(6) < 0.5), False, False

    def sets(has):
        found = np.empty(has.shape[:-1], object)
        for place in np.ndindex(found.shape):
            found[place] = np.flatnonzero(has[place])
        return found

    found = PairedPredictions.of_sets(["a", "b"], sets(true), sets(given), 6, f"f1_{average}")

    def f1(labels, each):
        return f1_score(labels, each, average=average, zero_division=0)

    for place in np.ndindex(2, 2):
        assert found.f1()[place] == pytest.approx(f1(true, given[place]), abs=1e-12)
        without = [f1(*(np.delete(each, number, axis=0) for each in (true, given[place]))) for number in range(25)]
        assert found.left_out[:, *place] == pytest.approx(np.array(without), abs=1e-12)
    assert (found.right() == (given == true).all(axis=-1)).all()
    assert found.documents_of_classes.sum() == (true.sum() if average == "macro" else true.any(axis=1).sum())
