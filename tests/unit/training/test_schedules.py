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
def test_every_share_of_warm_up_gives_rates_up_to_the_peak(schedule):
    for steps in range(1, 101):
        shares = {0.0, 0.05, 0.1, 0.25, 0.5, 0.9, math.nextafter(1.0, 0.0), 1.0, 1 / steps, (steps - 1) / steps}
        for share in shares:
            found = rates(schedule, steps, warmup_ratio=share)
            assert len(found) == steps
            assert all(0 <= rate <= PEAK * (1 + 1e-12) for rate in found), (steps, share)


@pytest.mark.parametrize(("steps", "share"), [(10, 0.1), (20, 0.05), (4, 0.25)])
def test_a_rise_of_one_step_begins_low_and_falls_after_it(steps, share):
    found = rates("one_cycle", steps, warmup_ratio=share)
    assert found[0] == pytest.approx(PEAK / 25)
    assert max(found) == found[1]
    assert found[1:] == sorted(found[1:], reverse=True)


def test_a_rise_over_all_steps_ends_at_the_peak():
    found = rates("one_cycle", 20, warmup_ratio=1.0)
    assert found == sorted(found)
    assert found[-1] == pytest.approx(PEAK)


def test_warm_up_has_the_steps_that_its_decimals_say():
    for percent, steps in itertools.product(range(101), range(1, 700)):
        recipe = Recipe.model_validate(SETTINGS | {"warmup_ratio": percent / 100})
        assert warmup_steps(recipe, steps) == -(-percent * steps // 100), (percent, steps)


def test_a_rise_that_torch_can_compute_is_as_torch_has_it():
    """So that the rates of earlier runs stay."""
    found = rates("one_cycle", 5, warmup_ratio=0.5)  # 2.5 steps rise, from step 0 to 1.5
    low = PEAK / 25
    assert found[1] == pytest.approx(PEAK + (low - PEAK) / 2 * (math.cos(math.pi / 1.5) + 1), rel=1e-12)
    assert found[2] == pytest.approx(0.1 * PEAK + 0.9 * PEAK / 2 * (math.cos(math.pi * 0.5 / 2.5) + 1), rel=1e-12)
