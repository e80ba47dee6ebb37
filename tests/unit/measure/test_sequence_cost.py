import pytest
import torch
from torch import nn

from lib.backbones.encoder.settings import Settings as Encoder
from lib.measure.compared import NAIVE
from lib.measure.cost import REPETITIONS
from lib.measure.length_cost import PASSES, RECURRENT, attention_layer, recurrent_layer, sequence_cost
from lib.measure.tables import COLUMNS

SDPA, LSH = {"kind": "sdpa"}, {"kind": "lsh", "num_hashes": 2, "chunk_size": 16}
SMALL = Encoder(hidden_size=32, num_attention_heads=2)
SIZES = {"device": "cpu", "dtype": "float32", "seconds": 0.01, "minutes": 1, "gibibytes": 1}


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_a_table_of_every_layer_pass_and_length_with_one_thread_and_with_all(two_threads):
    table = sequence_cost({"sdpa": SDPA, "lsh": LSH}, SMALL, lengths=[32, 16], **SIZES)
    assert torch.get_num_threads() == 2
    assert list(table) == COLUMNS["sequence_cost"]
    families = dict.fromkeys(("rnn", "lstm", "gru"), "recurrent") | {"ssm": "state space"}
    families |= dict.fromkeys(("sdpa", "lsh", *NAIVE), "attention")
    rows = list(table[["length", "threads", "layer", "pass"]].itertuples(index=False, name=None))
    assert rows == [(n, t, name, kind) for n in (16, 32) for t in (1, 2) for name in families for kind in PASSES]
    assert (table["family"] == table["layer"].map(families)).all()
    assert (table["min_ms"] <= table["median_ms"]).all()
    assert (table["median_ms"] <= table["max_ms"]).all()
    assert (table["min_ms"] > 0).all()
    assert table["us_per_token"].tolist() == pytest.approx((1000 * table["median_ms"] / table["length"]).tolist())
    assert table["repetitions"].between(1, REPETITIONS).all()
    assert table["skipped"].isna().all()


@pytest.mark.parametrize("kind", RECURRENT)
def test_a_recurrent_layer_reads_both_directions_with_half_the_width_each(kind):
    layer, gates = recurrent_layer(kind, 32), {"rnn": 1, "lstm": 4, "gru": 3}[kind]
    # Per direction and gate: weights of 32 inputs and 16 states, and two biases.
    assert sum(weight.numel() for weight in layer.parameters()) == 2 * gates * 16 * (32 + 16 + 2)
    states = torch.randn(1, 8, 32)
    output = layer(states)
    assert output.shape == states.shape
    changed = states.clone()
    changed[0, 4] += 1
    difference = (layer(changed) - output).abs()[0]
    assert (difference[:4, :16] == 0).all()  # the forward half knows nothing of what follows
    assert (difference[4:, :16].amax(-1) > 0).all()
    assert (difference[:5, 16:].amax(-1) > 0).all()
    assert (difference[5:, 16:] == 0).all()


def test_the_layer_of_attention_is_the_encoders_with_positions():
    layer = attention_layer(SDPA, SMALL)
    assert sum(isinstance(module, nn.Linear) for module in layer.modules()) == 4
    states = torch.randn(1, 1, 32).expand(1, 8, 32) + torch.tensor([0.0, 1.0] * 4)[None, :, None]
    output = layer(states)
    assert output.shape == (1, 8, 32)
    assert not torch.allclose(output[0, 0], output[0, 2], atol=1e-7)  # the same token at another position


def test_what_exceeds_a_limit_is_not_measured(monkeypatch):
    table = sequence_cost({}, SMALL, lengths=[16, 256], **(SIZES | {"gibibytes": 1 / 1024}))
    skipped = table.set_index("length")["skipped"].dropna()  # 3 x 2 x 256^2 x 4 bytes are 1.5 MiB
    assert set(table[table["skipped"].notna()]["layer"]) == set(NAIVE)
    assert set(skipped.index) == {256}
    assert set(skipped) == {"more than 0.000976562 GiB"}

    monkeypatch.setattr("lib.measure.length_cost.repeated", lambda made, *_: {key: [2.0, 1.0, 3.0] for key in made})
    table = sequence_cost({"lsh": LSH, "sdpa": SDPA}, SMALL, lengths=[16, 64], **(SIZES | {"minutes": 8 / 60}))
    assert set(table[table["skipped"].notna()]["layer"]) == {"sdpa", *NAIVE}  # 8 s and 32 s are expected
    rows = table[(table["length"] == 64) & (table["layer"] == "sdpa")]
    assert set(rows["skipped"]) == {"more than 8 s"}
    assert rows["median_ms"].isna().all()
    assert (rows["repetitions"] == 0).all()
    rows = table[(table["length"] == 16) & (table["layer"] == "sdpa")]
    assert (rows[["median_ms", "min_ms", "max_ms", "us_per_token"]] == [2000, 1000, 3000, 125_000]).all(axis=None)
