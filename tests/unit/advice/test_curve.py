"""Learning curves of rows without training, and the labels that a gain takes."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

from lib.advice.answer import curve_table, labels_answer
from lib.advice.curve import Curve, Size, documents_needed, drawn, learning_curve
from lib.advice.quick import QuickRow
from lib.evaluation.statistics import PairedPredictions

SIZES = [80, 160, 320]


def row(*, told=1.0, sizes=(60, 60)):
    """Return a row whose first feature tells the class as far as `told`, and the classes."""
    labels = np.repeat(np.arange(len(sizes)), sizes)
    features = np.random.default_rng(1).normal(size=(len(labels), 8))
    features[:, 0] += told * labels
    return QuickRow("known", 0.0, 0.0, False, features), labels


@pytest.mark.parametrize("groups", [None, np.arange(130) % 26], ids=["documents", "groups"])
def test_curve_equals_own_models_of_drawn_documents(groups):
    known, labels = row(sizes=(90, 40))
    curve = learning_curve(known, labels, 60, groups)
    assert curve.sizes == [Size(13), Size(16, 8), Size(26), Size(32, 16), Size(52), Size(64, 32), Size(104)]
    assert (curve.left_out, curve.paired.f1().shape) == (False, (10, 7))
    for draw in (0, 9):
        for place, size in enumerate(curve.sizes):
            given = np.zeros_like(labels)
            kind = StratifiedKFold if groups is None else StratifiedGroupKFold
            folds = kind(5, shuffle=True, random_state=draw).split(labels, labels, groups)
            for fold, (others, test) in enumerate(folds):
                some = others[drawn(labels[others], size, 5 * draw + fold)]
                given[test] = (
                    LogisticRegression(C=10).fit(known.features[some], labels[some]).predict(known.features[test])
                )
            own = f1_score(labels, given, average="macro")
            assert curve.paired.f1()[draw, place] == pytest.approx(own, abs=1e-12)
    table = curve_table([curve]).splitlines()
    scores = 100 * curve.paired.f1()[:, 1]
    assert table[3].replace(" ", "") == f"|16(8ofeachclass)|{scores.mean():.1f}({scores.std(ddof=1):.1f})|"


def test_draws_keep_the_shares_of_classes_and_grow():
    labels = np.random.default_rng(0).choice(3, 500, p=[0.8, 0.17, 0.03])
    counts = np.bincount(labels)
    before: set[int] = set()
    for documents in (10, 40, 160, 320):
        some = drawn(labels, Size(documents), 1)
        found = np.bincount(labels[some], minlength=3)
        assert len(set(some)) == documents
        assert (np.abs(found - documents * counts / 500) <= 1.5).all()
        assert found.min() >= 1
        assert before <= set(some)
        before = set(some)
    equal = [drawn(labels, Size(24, 8), seed) for seed in (1, 2)]
    assert [np.bincount(labels[each]).tolist() for each in equal] == [[8, 8, 8]] * 2
    assert {*equal[0]} != {*equal[1]}


def test_draws_and_large_sizes_are_left_out_where_time_is_short():
    known, labels = row(sizes=(300, 300))
    curve = learning_curve(known, labels, 0.0)
    assert [size.documents for size in curve.sizes if not size.each] == [15, 30, 60]
    assert (len(curve.paired.predictions), curve.left_out) == (3, True)
    assert curve_table([curve]).endswith("of 3 draws; C is 10. There was no time for larger sizes of `known`.")


def test_too_few_documents_have_no_curve():
    assert learning_curve(*row(sizes=(24, 24)), 0.0) is None, "38 documents cannot be halved twice to 10"
    assert [size.documents for size in learning_curve(*row(sizes=(25, 25)), 0.0).sizes][-1] == 40


def planted(seed, *, rise, exponent, documents=400):
    """Return a curve of documents, some of them hard, and what more documents really gain."""
    draw = np.random.default_rng(seed)

    def score(size):
        return 0.75 + rise * (1 - (size / documents) ** -exponent) / exponent

    hard, labels = draw.random(documents), np.arange(documents) % 2
    noise = draw.normal(0, 0.1, (10, 1, documents))  # of the draw
    right = (hard + noise) % 1 < score(np.array(SIZES))[:, None]
    given = np.where(right, labels, 1 - labels)
    paired = PairedPredictions([*map(str, SIZES)], labels, given, np.arange(documents), 2)
    return Curve("planted", [*map(Size, SIZES)], paired, left_out=False), score


@pytest.mark.parametrize("exponent", [0.3, 0.8])
def test_intervals_hold_what_a_planted_power_law_needs(exponent):
    held, shown = 0, 0
    for seed in range(40):
        curve, score = planted(seed, rise=0.06, exponent=exponent)
        true = next(more for more in range(1, 4000) if score(400 + more) - score(400) >= 0.02)
        needed = documents_needed(*curve.largest(), 400)
        held, shown = held + (needed.low <= true <= needed.high), shown + needed.shown
    assert held >= 32, "80 % of the intervals"
    assert shown >= 20


def test_power_law_without_noise_is_recovered():
    scores = 0.75 + 0.06 * (1 - (np.array(SIZES) / 400) ** -0.4) / 0.4
    needed = documents_needed(np.array(SIZES), scores, 1e-8 * np.eye(3), 400)
    true = 400 * ((1 - 0.4 * 0.02 / 0.06) ** (-1 / 0.4) - 1)
    assert needed.about == pytest.approx(true, rel=0.2)
    assert needed.low < true < needed.high


def test_flat_curve_says_that_labels_are_not_shown_to_help():
    curve = learning_curve(*row(told=0.0), 60)
    gained, low, high = curve.last_doubling()
    assert low < 0 < high
    said = labels_answer(curve, 120)
    assert said.startswith(f"**More labels are not shown to help:** `known` gained {100 * gained:+.1f} points (")
    assert said.endswith("more than 10 times as many may be needed beyond 120.")
