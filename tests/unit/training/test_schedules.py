"""The learning rate of every step, by recipe and number of steps."""

import itertools
import math

import pytest

from lib.study.recipe import Recipe
from lib.training.optimisation import warmup_steps
from studies.hate_speech.schedule import learning_rates

PEAK = 1e-3
SETTINGS = {"epochs": 1, "learning_rate": PEAK, "min_lr_ratio": 0.1, "batch_size": 8}


def rates(schedule, steps, **recipe):
    return learning_rates(SETTINGS | {"schedule": schedule} | recipe, steps)


@pytest.mark.parametrize("schedule", ["cosine", "one_cycle"])
def test_rates_of_every_share_of_warm_up(schedule):
    for steps in range(1, 101):
        shares = {0.0, 0.05, 0.1, 0.25, 0.5, 0.9, math.nextafter(1.0, 0.0), 1.0, 1 / steps, (steps - 1) / steps}
        for share in shares:
            found = rates(schedule, steps, warmup_ratio=share)
            assert len(found) == steps
            assert all(0 <= rate <= PEAK * (1 + 1e-12) for rate in found), (steps, share)


def test_cosine_after_its_warm_up():
    """By its formula: from 0 to the peak in 3 of 12 steps, then half a cosine towards a tenth of the peak."""
    rise = [PEAK * step / 3 for step in range(3)]
    fall = [PEAK * (0.1 + 0.9 * (1 + math.cos(math.pi * step / 9)) / 2) for step in range(9)]
    assert rates("cosine", 12, warmup_ratio=0.25) == pytest.approx(rise + fall, rel=1e-9)


def test_rise_of_one_step():
    found = rates("one_cycle", 10, warmup_ratio=0.1)
    assert found[0] == pytest.approx(PEAK / 25)
    assert max(found) == found[1]
    assert found[1:] == sorted(found[1:], reverse=True)


def test_rise_over_all_steps():
    found = rates("one_cycle", 20, warmup_ratio=1.0)
    assert found == sorted(found)
    assert found[-1] == pytest.approx(PEAK)


def test_warm_up_by_decimals():
    for percent, steps in itertools.product(range(0, 101, 7), range(1, 300)):
        recipe = Recipe.model_validate(SETTINGS | {"warmup_ratio": percent / 100})
        assert warmup_steps(recipe, steps) == -(-percent * steps // 100), (percent, steps)


def test_rise_as_torch_has_it():
    """So that the rates of earlier runs stay."""
    found = rates("one_cycle", 5, warmup_ratio=0.5)  # 2.5 steps rise, from step 0 to 1.5
    low = PEAK / 25
    assert found[1] == pytest.approx(PEAK + (low - PEAK) / 2 * (math.cos(math.pi / 1.5) + 1), rel=1e-12)
    assert found[2] == pytest.approx(0.1 * PEAK + 0.9 * PEAK / 2 * (math.cos(math.pi * 0.5 / 2.5) + 1), rel=1e-12)
