import numpy as np
import pytest

from lib.advice.estimates import RESERVE, START_UP, Hardware, Steps, micro_batches, ratio, row
from lib.advice.preparing import OwnTexts
from lib.study.recipe import Recipe

HARDWARE = Hardware("cpu", "fp32", gibibytes=16.0, in_use_mb=500.0, micro_batch_tokens=32_768)


def made_steps(*, fixed=0.0, per_token=1e-3, growth=0.0, lengths=(128, 512, 2048), **changes):
    """Return what would be measured of steps that cost `fixed + B * N * (per_token + growth * N)` seconds."""

    def seconds(size, length):
        return fixed + size * length * (per_token + growth * length)

    sizes = [(2, lengths[0]), *((max(2, 4096 // length), length) for length in lengths)]
    made = {
        "batches": [(size, length, seconds(size, length)) for size, length in sizes],
        "forward_share": 0.25,
        "optimiser_seconds": 0.0,
        "grows": growth > 0,
        "mb": 0.0,
        "mb_per_token": 0.25,
    }
    return Steps(**made | changes)


def recipe(**changes):
    return Recipe(**{"epochs": 2, "learning_rate": 1e-3, "min_lr_ratio": 0.5, "batch_size": 4} | changes)


def test_cost_of_exact_attention_grows_beyond_the_measured():
    steps = made_steps(per_token=1e-3, growth=1e-6)
    assert steps.per_token(np.array([512, 2048, 16_384])) == pytest.approx([1.512e-3, 3.048e-3, 17.384e-3])


def test_cost_of_an_epoch_is_its_tokens_and_updates():
    steps = made_steps(per_token=1e-3, optimiser_seconds=0.5)
    cost = steps.cost(HARDWARE, recipe(), np.full(10, 100), 10)
    assert cost.seconds == pytest.approx(10 * 100 * 1e-3 + 3 * 0.5)  # batches of 4, 4 and 2


def test_cost_of_micro_batches_has_the_fixed_part_each():
    steps = made_steps(fixed=0.2)
    tight = Hardware("cpu", "fp32", gibibytes=16.0, in_use_mb=500.0, micro_batch_tokens=200)
    cost = steps.cost(tight, recipe(), np.full(8, 100), 8)
    assert cost.seconds == pytest.approx(8 * 100 * 1e-3 + 4 * 0.2)  # 2 documents at a time
    assert cost.micro_batch_tokens == 200
    assert not cost.reduced


def test_cost_of_frozen_blocks_has_no_backward_pass():
    """A forward pass is a quarter of a step; for one of two epochs, one of two blocks has nothing else."""
    cost = made_steps(blocks=2).cost(HARDWARE, recipe(freeze_layers=1), np.full(8, 100), 8)
    frozen = 0.25 + 0.75 / 2
    assert cost.seconds == pytest.approx(0.8 * (frozen + 1) / 2)
    settings = recipe(freeze_layers=1, freeze_embeddings=False)
    cost = made_steps(blocks=2).cost(HARDWARE, settings, np.full(8, 100), 8)
    assert cost.seconds == pytest.approx(0.8)


def test_cost_of_the_head_is_the_same_at_any_length():
    steps = made_steps(growth=1e-6, head_seconds=2e-3)
    for length in (128, 300, 2048, 8192):
        cost = steps.cost(HARDWARE, recipe(), np.full(4, length), 4)
        assert cost.seconds == pytest.approx(4 * length * (3e-3 + 1e-6 * length), rel=1e-6)


def test_micro_batches_of_similar_lengths_count_padding():
    lengths = [5, 1, 4, 2, 3, 6]
    sizes, widths = micro_batches(lengths, batch_size=2, budget=12)
    assert sizes.tolist() == [2, 2, 2]
    assert sorted(widths.tolist()) == [2, 4, 6]
    sizes, widths = micro_batches(lengths, batch_size=6, budget=12)
    assert sizes.tolist() == [2, 3, 1]
    assert widths.tolist() == [6, 4, 1]


def test_memory_that_is_short_takes_smaller_micro_batches():
    """500 MiB are in use, the weights take 1000, and every 4096 tokens 1000 more."""
    steps = made_steps(mb=1000.0, mb_per_token=1000 / 4096)
    lengths = np.full(16, 2048)

    def cost(gibibytes):
        machine = Hardware("cpu", "fp32", gibibytes=gibibytes, in_use_mb=500.0, micro_batch_tokens=16 * 2048)
        return steps.cost(machine, recipe(batch_size=16), lengths, 16)

    assert cost(16.0).mb == pytest.approx(500 + 1000 + 8000)
    assert not cost(16.0).reduced
    assert cost(4.0).fits
    assert cost(4.0).reduced
    assert cost(4.0).mb == pytest.approx(RESERVE * 4096, abs=1)
    assert 4 * 2048 < cost(4.0).micro_batch_tokens < 6 * 2048
    assert not cost(2.0).fits
    assert cost(2.0).micro_batch_tokens == 2048


def test_ratio_has_an_interval_that_an_outlier_keeps():
    seconds = [0.5, 0.52, 0.48, 0.5, 0.51, 0.49, 0.5, 5.0, 0.5]
    assert ratio(np.array(seconds), np.ones(9)) == "0.50 [0.49, 0.52]"


def test_ratio_is_of_the_same_turn():
    """The machine is busy in half of the turns and takes three times as long."""
    busy = np.array([1, 3, 1, 3, 1, 3, 3.0])
    assert ratio(0.5 * busy, 1.0 * busy) == "0.50 [0.50, 0.50]"
    assert ratio(0.5 * busy[:5], busy[:5]) == "0.50 (5 turns)", "fewer than six have no interval"


@pytest.mark.parametrize(
    ("splits", "evaluated"),
    [({"train": 80, "validation": 10, "test": 10}, 20 * 10 + 20), ({"train": 80, "held_out": 20}, 20 * 20)],
)
def test_time_of_a_run_has_its_evaluations(splits, evaluated):
    """After each of 20 epochs; those of labelled texts predict validation and test in the end."""
    steps = Steps([(1, 10, 1.0), (2, 10, 2.0)], 0.5, 0.0, grows=False, mb=1.0, mb_per_token=0.1)
    own = OwnTexts({}, splits, [], {"no": 50, "yes": 50} if "test" in splits else {})
    found = row("minilm", [steps], recipe(epochs=20, batch_size=16), np.full(80, 10), own, HARDWARE)
    assert found.seconds == pytest.approx(START_UP + 20 * 80 + evaluated * 0.5)
