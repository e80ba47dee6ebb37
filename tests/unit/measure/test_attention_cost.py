import itertools
import sys

import pytest
import torch
import yaml

from lib.attention.settings import MECHANISMS
from lib.core.errors import ConfigError
from lib.measure.attention_cost import LENGTHS, attention_cases, attention_cost
from lib.measure.compared import EXTRA, FLEX, FORMULA, NAIVE, PROJECTED
from lib.measure.cost import REPETITIONS
from lib.measure.implementations import AttentionCase, is_installed, ragged_mask
from lib.measure.tables import COLUMNS, LEAST

SDPA, LSH, FAVOR = (
    {"kind": "sdpa"},
    {"kind": "lsh", "num_hashes": 2, "chunk_size": 16},
    {"kind": "favor", "nb_features": 16},
)
NYSTROM = {"kind": "nystrom", "landmarks": 8}
WINDOW = {"kind": "window", "width": 16, "global_tokens": 1}
BIGBIRD = {"kind": "bigbird", "block_size": 4, "random_blocks": 2}
LINFORMER = {"kind": "linformer", "rank": 8, "length": 64}
TOPK = {"kind": "topk", "keys": 8}
LOCAL = {"kind": "window", "width": 16}
COSFORMER = {"kind": "cosformer"}


def case(implementation="ours", mechanism="sdpa", parameters=SDPA, **changes):
    shape = {"length": 64, "batch": 2, "padding": "none", "heads": 2, "head_size": 16, "device": "cpu"}
    named = {"implementation": implementation, "mechanism": mechanism, "parameters": parameters}
    return AttentionCase(**(named | shape | {"dtype": "float32"} | changes))


def test_a_table_of_every_mechanism_length_and_padding():
    mechanisms = {"sdpa": SDPA, "small-lsh": LSH, "small-favor": FAVOR}
    table = attention_cost(
        mechanisms, lengths=[64, 32], heads=2, head_size=16, device="cpu", dtype="float32", seconds=0.01
    )
    assert list(table) == COLUMNS["attention_cost"]
    keys = ["implementation", "mechanism", "length", "padding"]
    names = [*(("ours", name) for name in mechanisms), ("torch", "sdpa")]
    expected = [(*name, length, padding) for name in names for length in (32, 64) for padding in ("none", "ragged")]
    expected += [("ours", *NAIVE, length, "none") for length in (32, 64)]
    assert sorted(table[keys].itertuples(index=False, name=None)) == sorted(expected)
    assert (table["length"] * table["batch"] == 64).all()
    assert (table["min_ms"] <= table["median_ms"]).all()
    assert (table["median_ms"] <= table["max_ms"]).all()
    assert (table[["min_ms", "bytes_kept", "gemm_share", "peak_mb"]] > 0).all(axis=None)
    assert table["repetitions"].between(LEAST, REPETITIONS).all()


def test_a_list_of_mechanisms_costs_what_its_layers_cost():
    counts = {}
    lists = {"hybrid": [WINDOW, WINDOW, SDPA], "window": WINDOW, "sdpa": SDPA, "shared": [LSH, SDPA], "lsh": LSH}
    for name, parameters in lists.items():
        tested = case(mechanism=name, parameters=parameters)
        counts[name] = tested.count().operations
        attention = tested.prepare()
        attention()
        assert all(tensor.grad is None for tensor in attention.inputs)
        assert len(attention.inputs) == (2 if name == "lsh" else 3)
    assert counts["hybrid"] == 2 * counts["window"] + counts["sdpa"]
    assert counts["shared"] == counts["lsh"] + counts["sdpa"]
    table = attention_cost(
        {"hybrid": lists["hybrid"], "short": [SDPA, LINFORMER]},
        lengths=[64, 128],
        heads=1,
        head_size=8,
        device="cpu",
        dtype="float32",
        seconds=0,
    )
    of_lists = table[table["mechanism"].isin(["hybrid", "short"]) & (table["padding"] == "none")]
    found = list(of_lists[["mechanism", "length"]].itertuples(index=False, name=None))
    assert found == [("hybrid", 64), ("short", 64), ("hybrid", 128)]  # Linformer reads 64 tokens


@pytest.mark.parametrize(("seconds", "repetitions"), [(0, LEAST), (1000, REPETITIONS)])
def test_a_row_is_repeated_three_times_at_least_and_as_often_as_fits_into_its_time(seconds, repetitions):
    table = attention_cost(
        {"sdpa": SDPA}, lengths=[16, 32], heads=1, head_size=8, device="cpu", dtype="float32", seconds=seconds
    )
    assert (table["repetitions"] == repetitions).all()


def test_every_implementation_has_ragged_rows(repository):
    mechanisms = yaml.safe_load((repository / "config/config.yaml").read_text())["experiment"]["mechanisms"]
    cases = attention_cases(mechanisms, LENGTHS, heads=8, head_size=64, device="cpu", dtype="float32")
    rows = {"none": set(), "ragged": set()}
    for row in cases:
        rows[row.padding].add((row.implementation, row.mechanism, row.length))
        assert row.length * row.batch == max(LENGTHS)
    assert {implementation for implementation, *_ in rows["ragged"]} == {
        "ours", "torch", "reformer-pytorch", "transformers", "performer-pytorch"
    }  # fmt: skip
    assert {length for implementation, _, length in rows["ragged"] if implementation == "torch"} == {
        512, 1024, 2048, 4096
    }  # fmt: skip
    for padding, lengths in {"none": {512, 2048, 8192}, "ragged": {512}}.items():
        for row in (("transformers", f"lsh-h2-c64{PROJECTED}"), ("ours", f"lsh-h2-c64{PROJECTED}"),
                    ("reformer-pytorch", "lsh-h2-c64")):  # fmt: skip
            assert {length for *name, length in rows[padding] if tuple(name) == row} == lengths
    assert {length for *_, length in rows["ragged"]} == {512, 1024, 2048, 4096}
    assert {name for _, name, length in rows["none"] - rows["ragged"] if length == 512} == set(NAIVE)
    assert rows["ragged"] < rows["none"]


def test_what_is_measured_beside_the_grid_bears_the_names_of_its_parameters_and_ends_where_it_reads_no_further():
    assert {name: MECHANISMS.parse(values).name() for name, values in EXTRA.items()} == {name: name for name in EXTRA}
    short = {"linformer-k4": {"kind": "linformer", "rank": 4, "length": 1024}}
    cases = list(attention_cases(short | EXTRA, LENGTHS, heads=8, head_size=64, device="cpu", dtype="float32"))
    reach = {name: max(each.length for each in cases if each.mechanism == name) for name in short | EXTRA}
    assert reach == dict.fromkeys(EXTRA, 16_384) | {"linformer-k4": 1024}
    assert {each.implementation for each in cases if each.mechanism == f"nystrom-m64{PROJECTED}"} == {
        "ours", "transformers"
    }  # fmt: skip
    theirs = {(each.mechanism, each.length) for each in cases if each.implementation == "transformers"}
    for name, lengths in (("window-w256-g1", {512, 2_048, 8_192}), ("bigbird-b64-w3-g2-r3", {2_048})):
        assert {length for mechanism, length in theirs if mechanism == name + PROJECTED} == lengths
    peers = {
        (each.implementation, each.length) for each in cases if each.implementation not in ("ours", "transformers")
    }
    everywhere = itertools.product(("linformer", "local-attention", FORMULA), (512, 2_048, 8_192))
    assert peers == {("x-transformers", 512), ("x-transformers", 2_048), *everywhere}


def test_exact_attention_keeps_its_arguments_its_output_and_a_number_a_query():
    counted = case().count()
    assert counted.kernels == "torch"  # a name is told of kernels of a GPU
    assert counted.bytes_kept == 4 * 2 * 2 * 64 * (4 * 16 + 1)
    assert counted.operations == 7 * 2 * 2 * 2 * 64 * 64 * 16


@pytest.mark.parametrize("padding", ["none", "ragged"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_no_configuration_of_the_grid_keeps_more_than_one_and_a_half_of_exact_attention(repository, padding, dtype):
    mechanisms = yaml.safe_load((repository / "config/config.yaml").read_text())["experiment"]["mechanisms"]
    shape = {"length": 512, "batch": 1, "head_size": 64, "padding": padding, "dtype": dtype}
    kept = {name: case("ours", name, values, **shape).count().bytes_kept for name, values in mechanisms.items()}
    assert len(kept) == 9
    assert max(kept.values()) <= 1.5 * kept["sdpa"], kept


@pytest.mark.parametrize("padding", ["none", "ragged"])
def test_what_attends_by_blocks_keeps_no_more_than_exact_attention(padding):
    shape = {"length": 2_048, "batch": 1, "head_size": 64, "padding": padding}
    rows = {"sdpa": SDPA} | {
        name: each for name, each in EXTRA.items() if each["kind"] in ("window", "bigbird", "strided")
    }
    kept = {name: case("ours", name, values, **shape).count().bytes_kept for name, values in rows.items()}
    assert len(kept) == 5
    assert max(kept.values()) <= 1.01 * kept["sdpa"], kept


@pytest.mark.parametrize("padding", ["none", "ragged"])
@pytest.mark.parametrize(
    ("implementation", "mechanism", "parameters", "package"),
    [
        ("torch", "sdpa", SDPA, None),
        ("ours", f"lsh{PROJECTED}", LSH, None),
        ("transformers", f"lsh{PROJECTED}", LSH, None),
        ("ours", f"nystrom{PROJECTED}", NYSTROM, None),
        ("transformers", f"nystrom{PROJECTED}", NYSTROM, None),
        ("transformers", f"window{PROJECTED}", WINDOW, None),
        ("transformers", f"bigbird{PROJECTED}", BIGBIRD, None),
        ("reformer-pytorch", "lsh", LSH, "reformer_pytorch"),
        ("performer-pytorch", "favor", FAVOR, "performer_pytorch"),
        ("linformer", f"linformer{PROJECTED}", LINFORMER, "linformer"),
        ("x-transformers", "topk", TOPK, "x_transformers"),
        ("local-attention", "window", LOCAL, "local_attention"),
        (FORMULA, "cosformer", COSFORMER, None),
    ],
)
def test_implementations_to_compare_with_run(implementation, mechanism, parameters, package, padding):
    if package:
        pytest.importorskip(package, reason="an optional package of make bench")
    attention = case(implementation, mechanism, parameters, padding=padding).prepare()
    output = attention.forward()
    assert output.shape == ((2, 64, 32) if mechanism.endswith(PROJECTED) else (2, 2, 64, 16))
    # Longformer's global tokens have projections of their own; Linformer has its table of shares.
    weights = {"lsh": 2, "window": 6, "linformer": 4}.get(parameters["kind"], 3) if mechanism.endswith(PROJECTED) else 0
    assert sum(weight.dim() == 2 for weight in attention.parameters) == weights
    output.sum().backward()
    for tensor in attention.inputs:
        assert tensor.grad.isfinite().all()
        assert tensor.grad.abs().max() > 0


@pytest.mark.parametrize(
    ("implementation", "mechanism", "parameters"),
    [
        ("ours", "sdpa", SDPA),
        ("torch", "sdpa", SDPA),
        ("ours", f"lsh{PROJECTED}", LSH),
        ("transformers", f"lsh{PROJECTED}", LSH),
    ],
)
def test_padding_is_hidden_from_the_real_tokens_of_ragged_rows(implementation, mechanism, parameters):
    real = ragged_mask(2, 64, "cpu")

    def output(padding, filled):
        attention = case(implementation, mechanism, parameters, padding=padding).prepare()
        rows = [tensor for tensor in attention.inputs if all(tensor is not weight for weight in attention.parameters)]
        for tensor in rows if filled else ():
            tensor.data.movedim(-2, 1)[~real] = 3.0
        torch.manual_seed(1)
        result = attention.forward()
        return (result if result.dim() == 3 else result.transpose(1, 2))[real]

    torch.testing.assert_close(output("ragged", filled=True), output("ragged", filled=False))
    assert not torch.allclose(output("none", filled=True), output("none", filled=False))


@pytest.mark.parametrize("padding", ["none", "ragged"])
@pytest.mark.parametrize(
    ("implementation", "mechanism", "parameters", "package"),
    [
        ("linformer", f"linformer{PROJECTED}", LINFORMER, "linformer"),
        ("x-transformers", "topk", TOPK, "x_transformers"),
        ("local-attention", "window", LOCAL, "local_attention"),
    ],
)
def test_packages_compute_what_ours_computes(implementation, mechanism, parameters, package, padding):
    pytest.importorskip(package, reason="an optional package of make bench")
    ours = case("ours", mechanism, parameters, padding=padding).prepare()
    theirs = case(implementation, mechanism, parameters, padding=padding).prepare()
    # Both have the projections of queries, keys and values in this order, and one table, which has another shape.
    for square in (True, False):
        weights = [
            [weight for weight in each.parameters if (weight.shape[0] == weight.shape[1]) == square]
            for each in (ours, theirs)
        ]
        for mine, other in zip(*weights, strict=True):
            mine.data.copy_(other.data)
    outputs = [each.forward() for each in (ours, theirs)]
    if padding == "ragged":
        real = ragged_mask(2, 64, "cpu")
        outputs = [(each if each.dim() == 3 else each.transpose(1, 2))[real] for each in outputs]
    torch.testing.assert_close(*outputs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("padding", ["none", "ragged"])
@pytest.mark.parametrize("number", [0, 1, 3])
def test_flex_attention_computes_what_our_window_computes(padding, number):
    """It has no gradients on a CPU."""
    settings = {"parameters": LOCAL | {"global_tokens": number}, "padding": padding, "length": 200}
    ours, theirs = (case(owner, "window", **settings).prepare() for owner in ("ours", FLEX))
    for tensor in theirs.inputs:
        tensor.requires_grad_(False)
    torch.testing.assert_close(ours.forward(), theirs.forward(), rtol=1e-4, atol=1e-5)


def test_flex_attention_is_measured_on_a_gpu_at_every_length_with_and_without_padding():
    windows = {name: each for name, each in EXTRA.items() if each["kind"] == "window"}
    rows = {
        device: {
            (each.mechanism, each.length, each.padding)
            for each in attention_cases(windows, LENGTHS, heads=8, head_size=64, device=device, dtype="bfloat16")
            if each.implementation == FLEX
        }
        for device in ("cpu", "cuda")
    }
    assert rows == {"cpu": set(), "cuda": set(itertools.product(windows, LENGTHS, ("none", "ragged")))}


def test_the_published_formula_of_cosformer_is_ours_without_padding():
    """With padding, ours counts real tokens, and theirs all."""
    ours, theirs = (case(owner, "cosformer", COSFORMER).prepare() for owner in ("ours", FORMULA))
    torch.testing.assert_close(ours.forward(), theirs.forward(), rtol=1e-4, atol=1e-5)


def test_a_missing_package_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "performer_pytorch", None)
    with pytest.raises(ConfigError, match=r"performer-pytorch cannot be imported.*make bench"):
        case("performer-pytorch", "favor", FAVOR).prepare()


def test_ragged_rows_have_three_quarters_of_the_tokens_in_the_mean():
    for batch in (1, 4, 32):
        real = ragged_mask(batch, 512, "cpu").sum(-1)
        assert real.float().mean().item() == pytest.approx(384, abs=1)
        assert real.min() >= 256
        assert real.max() <= 512


def test_a_missing_package_leaves_out_its_rows_with_one_warning(monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "performer_pytorch", None)
    is_installed.cache_clear()
    table = attention_cost(
        {"favor-m64": FAVOR}, lengths=[16, 32], heads=1, head_size=8, device="cpu", dtype="float32", seconds=0
    )
    is_installed.cache_clear()
    assert set(table["implementation"]) == {"ours"}
    assert caplog.text.count("performer-pytorch is not installed: its rows are left out") == 1


def test_on_a_gpu_a_mechanism_with_kernels_has_a_row_by_torch_and_then_one_by_triton(monkeypatch):
    monkeypatch.setattr("lib.measure.comparison.has_kernels", lambda kind: kind == "favor")
    sizes = {"lengths": [32], "heads": 1, "head_size": 8, "dtype": "float32"}
    rows = {
        device: [
            (row.implementation, row.mechanism, row.kernels)
            for row in attention_cases({"sdpa": SDPA, "favor-m64": FAVOR}, device=device, **sizes)
            if row.padding == "ragged"
        ]
        for device in ("cpu", "cuda")
    }
    others = [("ours", "sdpa", "torch"), ("torch", "sdpa", "torch")]
    peer = ("performer-pytorch", "favor-m64", "torch")
    assert rows["cpu"] == [*others, ("ours", "favor-m64", "torch"), peer]
    assert rows["cuda"] == [*others, ("ours", "favor-m64", "torch"), ("ours", "favor-m64", "triton"), peer]
