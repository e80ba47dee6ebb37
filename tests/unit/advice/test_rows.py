import math

import numpy as np
import pytest

from lib.advice.estimates import Hardware, ModelSteps, StageCost, Steps
from lib.advice.preparing import OwnTexts
from lib.advice.rows import START_UP, Row, choose, ratio, row
from lib.study.recipe import Recipe

TURNS = 9
ONES = np.ones(TURNS)


def made(model, seconds, f1=None, fits=True):
    cost = StageCost(seconds=60.0, mb=100.0, fits=fits, micro_batch_tokens=512, reduced=False)
    return Row(model, seconds * ONES if np.isscalar(seconds) else np.array(seconds), [cost, cost], None, f1)


def taken(*rows, points=1.0):
    candidates = [made(*each) for each in rows]
    found = choose(candidates, candidates[0], points)
    return found and found.model


EXACT, FAST, POOR = ("exact", 10.0, 90.0), ("fast", 4.0, 89.1), ("poor", 1.0, 80.0)


def test_ratio_has_an_interval_that_an_outlier_keeps():
    seconds = [0.5, 0.52, 0.48, 0.5, 0.51, 0.49, 0.5, 5.0, 0.5]
    found = ratio(np.array(seconds), ONES)
    assert found.median == 0.5
    assert (found.low, found.high) == (0.49, 0.52)  # one turn that something disturbed does not widen it
    assert str(found) == "0.50 [0.49, 0.52]"
    assert taken(("exact", 1.0, 90.0), ("fast", seconds, 90.0)) == "fast"


def test_ratio_of_ties_is_rarely_faster():
    """Of 300 ties with noise of 20 % in every measurement, fewer than 1 % are advised."""
    generator = np.random.default_rng(0)
    wrong = sum(ratio(*np.exp(generator.normal(0, 0.2, (2, 7)))).faster for _ in range(300))
    assert wrong < 3


def test_ratio_is_of_the_same_turn():
    """The machine is busy in half of the turns and takes three times as long."""
    busy = np.array([1, 3, 1, 3, 1, 3, 3.0])
    found = ratio(0.5 * busy, 1.0 * busy)
    assert (found.low, found.median, found.high) == (0.5, 0.5, 0.5)


def test_ratio_of_fewer_than_six_turns_is_unknown():
    five, six = (ratio(np.full(turns, 0.1), np.ones(turns)) for turns in (5, 6))
    assert math.isnan(five.high)
    assert str(five) == "0.10 (5 turns)"
    assert not five.faster
    assert six.faster


@pytest.mark.parametrize(
    ("rows", "points", "expected"),
    [
        ([EXACT, FAST, POOR], 1.0, "fast"),
        ([EXACT, FAST, POOR], 0.5, "exact"),
        ([EXACT, FAST, POOR], 10, "poor"),
        ([EXACT, ("little", 9.3, 90.0)], 1.0, "exact"),
        ([EXACT, ("noisy", [6, 14, 5, 15, 9, 8, 12, 7, 13], 90.0)], 1.0, "exact"),
        ([EXACT, ("new", 1.0)], 1.0, "exact"),
        ([("exact", 10.0), ("new", 1.0)], 1.0, "new"),
        ([(*EXACT, False), FAST, POOR], 1.0, "fast"),
        ([(*EXACT, False), ("a", 12.0, 89.0), ("b", 11.0, 89.0)], 1.0, "b"),
        ([(*EXACT, False)], 1.0, None),
    ],
    ids=["fastest", "points", "many points", "a tenth", "tie", "unknown", "all unknown", "no memory", "slow", "none"],
)
def test_choice_is_the_fastest_of_the_good_ones(rows, points, expected):
    assert taken(*rows, points=points) == expected


@pytest.mark.parametrize(
    ("splits", "evaluated"),
    [({"train": 80, "validation": 10, "test": 10}, 20 * 10 + 20), ({"train": 80, "held_out": 20}, 20 * 20)],
)
def test_time_of_a_run_has_its_evaluations(splits, evaluated):
    """After each of 20 epochs; those of labelled texts predict validation and test in the end."""
    steps = Steps([(1, 10, 1.0), (2, 10, 2.0)], 0.5, 0.0, grows=False, mb=1.0, mb_per_token=0.1)
    own = OwnTexts({}, splits, [], {"no": 50, "yes": 50} if "test" in splits else {})
    recipe = Recipe(epochs=20, learning_rate=1e-4, min_lr_ratio=0.0, batch_size=16)
    place = Hardware("cpu", "fp32", 16.0, 500.0, 32_768)
    found = row("minilm", [ModelSteps(steps, steps, 6)], [(recipe, not own.labelled)], np.full(80, 10), own, place)
    assert found.seconds == pytest.approx(START_UP + 20 * 80 + evaluated * 0.5)
