import numpy as np
import pytest

from lib.advice.estimates import Hardware
from lib.advice.training_steps import StepsCase, batches, measure_turns
from lib.backbones.settings import BACKBONES
from lib.tasks.settings import TASKS
from lib.tokens.tokenizer import SPECIAL_TOKENS
from lib.tokens.vocabularies import from_vocabulary


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer") / "tokenizer"
    vocabulary = {token: number for number, token in enumerate([*SPECIAL_TOKENS, *map(str, range(95))])}
    from_vocabulary(vocabulary, folder)
    return str(folder)


def case(tokenizer, **mechanism):
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    backbone = BACKBONES.parse({"kind": "encoder", **sizes, "mechanism": mechanism or {"kind": "sdpa"}})
    hardware = Hardware("cpu", "fp32", gibibytes=100.0, in_use_mb=0.0, micro_batch_tokens=4096)
    return StepsCase(backbone, TASKS.parse({"kind": "sequence_classification"}), tokenizer, hardware)


def measured(tokenizer, seconds=30.0, lengths=(20, 200)):
    cases = {"sdpa": case(tokenizer), "favor": case(tokenizer, kind="favor", nb_features=8)}
    return measure_turns("sdpa", cases, lengths, seconds)


@pytest.mark.extended
def test_models_take_turns(tokenizer):
    found = measured(tokenizer)
    assert len(found["sdpa"]) >= 6
    assert len(found["favor"]) == len(found["sdpa"])
    for each in (each for turns in found.values() for each in turns):
        assert [length for _, length, _ in each.batches] == [20, 20, 200]
        assert all(seconds > 0 for *_, seconds in each.batches)
        assert (each.per_token(np.array([20, 200, 4000])) > 0).all()
        assert each.mb > 0
        assert each.mb_per_token > 0
        assert 0 < each.forward_share <= 1
        assert each.optimiser_seconds > 0
    assert found["sdpa"][0].grows
    assert not found["favor"][0].grows


def test_batches_end_where_the_time_does():
    lengths = (128, 512, 2048)
    assert batches((54,), affordable=1000, most=4096) == [(1, 54), (18, 54)]
    assert batches(lengths, affordable=13_000, most=4096) == [(1, 128), (32, 128), (8, 512), (2, 2048)]
    assert batches(lengths, affordable=5000, most=4096) == [(1, 128), (13, 128), (3, 512)]
    for affordable, most in ((10, 4096), (10, 0)):
        assert batches(lengths, affordable=affordable, most=most) == [(1, 128), (2, 128), (1, 512)]
