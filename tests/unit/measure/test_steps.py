import numpy as np
import pytest
import torch
from step_costs import made_steps

from lib.backbones.settings import BACKBONES
from lib.data.tokenizer import SPECIAL_TOKENS
from lib.data.vocabularies import from_vocabulary
from lib.measure.cost import with_peak_mb
from lib.measure.steps import StepsCase, measure
from lib.tasks.settings import TASKS


def test_what_is_fixed_and_what_tokens_cost_are_told_apart():
    steps = made_steps(fixed=0.3, per_token=2e-3)
    assert steps.fixed == pytest.approx(0.3)
    assert steps.per_token(np.array([64, 128, 1000, 50_000])) == pytest.approx([2e-3] * 4)


def test_exact_attention_grows_beyond_what_was_measured():
    steps = made_steps(per_token=1e-3, growth=1e-6)
    assert steps.per_token(np.array([512, 2048, 16_384])) == pytest.approx([1.512e-3, 3.048e-3, 17.384e-3])


def test_noise_that_makes_long_documents_cheap_does_not_make_longer_ones_free():
    noisy = made_steps(lengths=(128, 512), batches=[(2, 128, 0.3), (32, 128, 4.2), (8, 512, 4.0)], grows=True)
    costs = noisy.per_token(np.array([512, 16_384]))
    assert costs[0] == costs[1] > 0


def test_memory_grows_with_tokens():
    steps = made_steps(peaks=(116.0, 356.0))  # of 256 and of 4096 tokens: 100 and 1 for every 16
    assert steps.peak(4096) == pytest.approx(356)
    assert steps.peak(8192) == pytest.approx(612)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer") / "tokenizer"
    vocabulary = {token: number for number, token in enumerate([*SPECIAL_TOKENS, *map(str, range(95))])}
    from_vocabulary(vocabulary, folder)
    return folder


def case(tokenizer, task="sequence_classification", mechanism=None, **changes):
    encoder = {"kind": "encoder", "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    values = {
        "backbone": BACKBONES.parse(encoder | {"mechanism": mechanism or {"kind": "sdpa"}, "intermediate_size": 32}),
        "task": TASKS.parse({"kind": task}),
        "tokenizer": str(tokenizer),
        "device": "cpu",
        "precision": "fp32",
        "lengths": (16, 64, 128),
        "most_tokens": 256,
        "most_mb": 10_000.0,
        "seconds": 2.0,
    }
    return StepsCase(**values | changes)


@pytest.mark.parametrize("task", ["sequence_classification", "masked_lm"])
def test_steps_are_measured_at_every_length(tokenizer, task):
    steps, _ = with_peak_mb(measure, case(tokenizer, task), device=torch.device("cpu"))  # its memory is its own
    assert [length for _, length, _ in steps.batches] == [16, 16, 64, 128]
    assert all(size * length <= 256 and seconds > 0 for size, length, seconds in steps.batches)
    assert 0 < steps.forward_share <= 1
    assert steps.optimiser_seconds > 0
    assert steps.weights > 100 * 16
    assert steps.grows
    assert 0 < steps.peaks[0] <= steps.peaks[1]


def test_only_exact_attention_grows(tokenizer):
    favor = {"kind": "favor", "nb_features": 8}
    assert not measure(case(tokenizer, mechanism=favor, lengths=(16, 64))).grows


def test_what_takes_too_long_or_too_much_is_left_out_but_for_two_lengths(tokenizer):
    for limit in ({"seconds": 1e-6}, {"most_mb": 0.0}):
        assert [length for _, length, _ in measure(case(tokenizer, **limit)).batches] == [16, 16, 64]
