import sys

import pytest
import yaml

from lib.core.errors import ConfigError
from lib.measure.attention_cost import NAIVE, attention_cost, count
from lib.measure.implementations import PROJECTED, Case, prepare, ragged_mask

SDPA, LSH, FAVOR = (
    {"kind": "sdpa"},
    {"kind": "lsh", "num_hashes": 2, "chunk_size": 16},
    {"kind": "favor", "nb_features": 16},
)


def case(implementation="ours", mechanism="sdpa", parameters=SDPA, **changes):
    shape = {"length": 64, "batch": 2, "padding": "none", "heads": 2, "head_size": 16, "device": "cpu"}
    return Case(implementation, mechanism, parameters, **(shape | {"dtype": "float32"} | changes))


def test_a_table_of_every_mechanism_length_and_padding():
    mechanisms = {"sdpa": SDPA, "small-lsh": LSH, "small-favor": FAVOR}
    table = attention_cost(
        mechanisms, lengths=[32, 64], heads=2, head_size=16, device="cpu", dtype="float32", seconds=0.01
    )
    keys = ["implementation", "mechanism", "length", "padding"]
    expected = [
        ("ours", name, length, padding) for name in mechanisms for length in (32, 64) for padding in ("none", "ragged")
    ]
    without = [("ours", NAIVE), ("torch", "sdpa")]
    expected += [(*name, length, "none") for name in without for length in (32, 64)]
    assert sorted(table[keys].itertuples(index=False, name=None)) == sorted(expected)
    assert (table["length"] * table["batch"] == 64).all()
    assert (table["min_ms"] <= table["median_ms"]).all()
    assert (table["median_ms"] <= table["max_ms"]).all()
    assert (table[["min_ms", "bytes_kept", "gemm_share", "peak_mb"]] > 0).all(axis=None)


def test_exact_attention_keeps_its_arguments_its_output_and_a_number_a_query():
    kept, operations = count(case())
    assert kept == 4 * 2 * 2 * 64 * (4 * 16 + 1)
    assert operations == 7 * 2 * 2 * 2 * 64 * 64 * 16


@pytest.mark.parametrize("padding", ["none", "ragged"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_no_configuration_of_the_grid_keeps_more_than_one_and_a_half_of_exact_attention(repository, padding, dtype):
    mechanisms = yaml.safe_load((repository / "config/config.yaml").read_text())["experiment"]["mechanisms"]
    shape = {"length": 512, "batch": 1, "head_size": 64, "padding": padding, "dtype": dtype}
    kept = {name: count(case("ours", name, values, **shape))[0] for name, values in mechanisms.items()}
    assert len(kept) == 9
    assert max(kept.values()) <= 1.5 * kept["sdpa"], kept


@pytest.mark.parametrize("padding", ["none", "ragged"])
@pytest.mark.parametrize(
    ("implementation", "mechanism", "parameters", "package"),
    [
        ("ours", f"lsh{PROJECTED}", LSH, None),
        ("transformers", f"lsh{PROJECTED}", LSH, None),
        ("reformer-pytorch", "lsh", LSH, "reformer_pytorch"),
        ("performer-pytorch", "favor", FAVOR, "performer_pytorch"),
    ],
)
def test_implementations_to_compare_with_run(implementation, mechanism, parameters, package, padding):
    if package:
        pytest.importorskip(package, reason="an optional package of make bench")
    attention = prepare(case(implementation, mechanism, parameters, padding=padding))
    output = attention.forward()
    assert output.shape == ((2, 64, 32) if mechanism.endswith(PROJECTED) else (2, 2, 64, 16))
    assert len(attention.parameters) == (2 if mechanism.endswith(PROJECTED) else 0)
    output.sum().backward()
    for tensor in attention.inputs:
        assert tensor.grad.isfinite().all()
        assert tensor.grad.abs().max() > 0


def test_a_missing_package_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "performer_pytorch", None)
    with pytest.raises(ConfigError, match=r"performer-pytorch cannot be imported.*make bench"):
        prepare(case("performer-pytorch", "favor", FAVOR))


def test_ragged_rows_have_three_quarters_of_the_tokens_in_the_mean():
    for batch in (1, 4, 32):
        real = ragged_mask(batch, 512, "cpu").sum(-1)
        assert real.float().mean().item() == pytest.approx(384, abs=1)
        assert real.min() >= 256
        assert real.max() <= 512
