import time

import numpy as np
import pytest
from step_costs import made_steps

from lib.backbones.settings import BACKBONES
from lib.data.tokenizer import SPECIAL_TOKENS
from lib.data.vocabularies import from_vocabulary
from lib.measure.step_turns import Load, batches_of_a_turn, measure_turns
from lib.measure.steps import StepsCase
from lib.tasks.settings import TASKS


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer") / "tokenizer"
    vocabulary = {token: number for number, token in enumerate([*SPECIAL_TOKENS, *map(str, range(95))])}
    from_vocabulary(vocabulary, folder)
    return str(folder)


def case(tokenizer, task="sequence_classification", **mechanism):
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    backbone = BACKBONES.parse({"kind": "encoder", **sizes, "mechanism": mechanism or {"kind": "sdpa"}})
    return StepsCase(backbone, TASKS.parse({"kind": task}), tokenizer, "cpu", "fp32", (), 4096, 1.0, 1e5)


def measured(tokenizer, seconds=120.0, **lengths):
    cases = {
        "sdpa": case(tokenizer),
        "favor": case(tokenizer, kind="favor", nb_features=8),
        "other": case(tokenizer, kind="favor", nb_features=16),
    }
    masked = case(tokenizer, "masked_lm")
    return measure_turns("sdpa", cases, masked, ["sdpa", "favor"], seconds=seconds, **lengths)


def test_models_take_turns_and_the_others_one(tokenizer):
    found = measured(tokenizer, usual=20, longest=200)
    assert len(found.steps["sdpa"]) >= 6
    assert len(found.steps["favor"]) in (2, len(found.steps["sdpa"]))  # two turns tell that it is far slower
    assert len(found.steps["other"]) == 1
    assert found.busy >= 0
    for turns in found.steps.values():
        for each in turns:
            assert [length for _, length, _ in each.classification.batches] == [20, 20, 200]
            assert all(seconds > 0 for *_, seconds in each.classification.batches)
            assert (each.classification.per_token(np.array([20, 200, 4000])) > 0).all()
            assert each.masked_lm.peaks[1] >= each.classification.peaks[1] > each.classification.weights * 16 / 2**20
            assert 0 < each.classification.forward_share <= 1
            assert each.classification.optimiser_seconds > 0
    assert found.steps["sdpa"][0].classification.grows
    assert not found.steps["favor"][0].classification.grows


def test_the_time_is_kept_to_but_for_one_turn(tokenizer):
    begun = time.monotonic()
    found = measured(tokenizer, seconds=0.01, usual=20, longest=200)
    assert len(found.steps["sdpa"]) == 1
    assert "other" not in found.steps
    assert time.monotonic() - begun < 60


def test_batches_follow_the_texts_and_the_time():
    assert batches_of_a_turn(27, 54, affordable=1000, most=32_768) == [(2, 54), (9, 54)]
    assert batches_of_a_turn(200, 500, affordable=4000, most=32_768) == [(2, 200), (10, 200), (4, 500)]
    assert batches_of_a_turn(5000, 14_000, affordable=5000, most=32_768) == [(1, 512), (2, 512), (1, 2048)]
    assert batches_of_a_turn(5000, 14_000, affordable=100, most=32_768) == [(1, 128), (2, 128), (1, 512)]


def test_exact_attention_grows_at_least_by_its_products():
    """A noisy turn in which long documents seem cheap does not make longer ones free."""
    noisy = made_steps(lengths=(128, 512), batches=[(2, 128, 0.3), (32, 128, 4.2), (8, 512, 4.0)], grows=True)
    flat = noisy.per_token(np.array([512, 16_384]))
    floored = made_steps(
        lengths=(128, 512),
        batches=[(2, 128, 0.3), (32, 128, 4.2), (8, 512, 4.0)],
        grows=True,
        least_growth=3e-4,
    ).per_token(np.array([512, 16_384]))
    assert flat[0] == flat[1]
    assert floored[1] / floored[0] == pytest.approx(1 + 3e-4 * (16_384 - 512))


def test_the_load_of_other_programs_is_counted_without_one_s_own():
    load = Load()
    end = time.process_time() + 0.3
    while time.process_time() < end:
        pass
    import psutil

    assert 0 <= load.cores() <= psutil.cpu_count()
