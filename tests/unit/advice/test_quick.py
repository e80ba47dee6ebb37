"""Rows without training on own texts, and the forecast of what training adds."""

import random
from collections import Counter

import numpy as np
import pytest
from sklearn.metrics import f1_score

from lib.advice.answer import quick_answer
from lib.advice.preparing import OwnTexts
from lib.advice.quick import FOLDS, forecast, quick_rows
from lib.backbones.text_encoder import TextEncoder

NEUTRAL = [f"neutral{number}" for number in range(30)]


class Signs(TextEncoder):
    """Has the number of each sign as its vector."""

    width = 3

    def vectors(self, texts, read=print):
        read(len(texts))
        return np.array([[1 + text.count(f"sign{label}") for label in range(3)] for text in texts], np.float32)


def own_texts(*, signs=True, sizes=(80, 80, 80)):
    """Return texts of neutral words, the first of which is the sign of their class, or none."""
    draw = random.Random(1)
    labels = [label for label, size in enumerate(sizes) for _ in range(size)]
    texts = [" ".join(3 * signs * [f"sign{label}"] + draw.choices(NEUTRAL, k=60)) for label in labels]
    names = {f"class{label}": size for label, size in enumerate(sizes)}
    return OwnTexts({}, {"train": len(texts)}, texts, names, sample_labels=labels)


def test_scores_are_high_where_words_tell_the_class():
    told, blind = (quick_rows(own_texts(signs=signs), {}, {"count-frozen": Signs()}, 60) for signs in (True, False))
    assert [row.name for row in told.rows] == ["tfidf", "count-frozen"]
    assert told.paired.f1().min() > 0.9
    assert blind.paired.f1().max() < 0.5
    assert all(row.cpu >= 0 and row.seconds > 0 and row.chosen for row in told.rows)
    low, high = told.paired.difference(0, 1).difference_interval(0.95)
    assert low <= 0 <= high


def test_documents_are_drawn_by_class_where_time_is_short():
    found = quick_rows(own_texts(sizes=(2000, 200, 6)), {}, {"count-frozen": Signs()}, 0.0)
    assert found.drawn_from == 2206
    counts = found.paired.documents_of_classes
    assert 100 <= counts.sum() < 200
    assert counts[2] >= FOLDS
    assert counts[0] > 5 * counts[1] / 2
    assert not any(row.chosen for row in found.rows), "C is fixed"


def test_classes_of_fewer_documents_than_folds_are_left_out():
    found = quick_rows(own_texts(sizes=(40, 40, 2)), {}, {}, 60)
    assert (found.left_out, found.paired.classes, found.paired.documents.max() + 1) == (True, 2, 80)
    assert quick_rows(own_texts(sizes=(40, 4, 2)), {}, {}, 60) is None
    assert quick_rows(own_texts(), None, {}, 60) is None, "no row reads them"


def test_several_labels_are_decided_one_against_the_rest():
    draw = random.Random(2)
    sets = [sorted(draw.sample(range(4), draw.randrange(3))) for _ in range(120)]  # one class is of no sign
    texts = [" ".join([f"sign{label}" for label in each] * 5 + draw.choices(NEUTRAL, k=9)) for each in sets]
    sizes, names = Counter(str(len(each)) for each in sets), dict.fromkeys("abcd", 1)
    own = OwnTexts({}, {"train": 120}, texts, names, sample_labels=sets, set_sizes=sizes)
    found = quick_rows(own, None, {"count-frozen": Signs()}, 60)
    assert found.paired.documents.max() + 1 == found.drawn_from == 120, "all documents stay"
    true, given = found.paired.labels >= 0, found.paired.predictions[0, 0] >= 0
    assert true.sum() == sum(map(len, sets))
    assert found.paired.f1()[0, 0] == pytest.approx(f1_score(true, given), abs=1e-12), "of all decisions together"
    assert 0.7 < found.paired.f1()[0, 0] < 1
    assert quick_answer(found).startswith("**Best without training: `count-frozen`, micro-F1 ")


def test_forecast_is_of_the_gains_over_the_rows_at_hand(tmp_path):
    gains = [1.0, 2.0, 3.0, 2.0, 2.0]
    lines = [f"f{n},en,1000,2,80.0,{84.0 + n},{84.0 + n + gain},{10 + n}" for n, gain in enumerate(gains)]
    (tmp_path / "past.csv").write_text(
        "\n".join(["file,language,documents,classes,tfidf,frozen,fine_tuned,minutes", *lines])
    )
    found = forecast({"tfidf", "frozen"}, "en", tmp_path / "past.csv")
    reach = 1.533 * np.std(gains, ddof=1) * np.sqrt(1.2)
    assert (found.low, found.high) == pytest.approx((2 - reach, 2 + reach), abs=1e-3)
    assert (found.files, found.held, found.minutes) == (5, 3, (10, 14))
    assert forecast({"tfidf", "frozen"}, "de", tmp_path / "past.csv") is None
    alone = forecast({"tfidf"}, "en", tmp_path / "past.csv")
    assert (alone.low + alone.high) / 2 == pytest.approx(8.0), "fine-tuned less 80"
    (tmp_path / "past.csv").write_text(
        "\n".join(["file,language,documents,classes,tfidf,frozen,fine_tuned,minutes", *lines[:3]])
    )
    assert forecast({"tfidf"}, "en", tmp_path / "past.csv") is None
