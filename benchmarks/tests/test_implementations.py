"""The implementations that ours are compared with run, and compute what ours compute where they should."""

import pytest
import torch
import yaml

from benchmarks.compared import EXTRA, FLEX, FORMULA, PROJECTED
from benchmarks.implementations import AttentionCase, ragged_mask

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


def test_count_of_exact_attention():
    counted = case().count()
    assert counted.kernels == "torch"  # a name is told of kernels of a GPU
    assert counted.bytes_kept == 4 * 2 * 2 * 64 * (4 * 16 + 1)
    assert counted.operations == 7 * 2 * 2 * 2 * 64 * 64 * 16


@pytest.mark.parametrize(("padding", "dtype"), [("none", "bfloat16"), ("ragged", "float32")])
def test_memory_of_the_grid(repository, padding, dtype):
    mechanisms = yaml.safe_load((repository / "config/config.yaml").read_text())["experiment"]["mechanisms"]
    shape = {"length": 512, "batch": 1, "head_size": 64, "padding": padding, "dtype": dtype}
    kept = {name: case("ours", name, values, **shape).count().bytes_kept for name, values in mechanisms.items()}
    assert len(kept) == 9
    assert max(kept.values()) <= 1.5 * kept["sdpa"], kept


@pytest.mark.extended
def test_memory_of_blocks():
    shape = {"length": 2_048, "batch": 1, "head_size": 64, "padding": "ragged"}
    rows = {"sdpa": SDPA} | {
        name: each for name, each in EXTRA.items() if each["kind"] in ("window", "bigbird", "strided")
    }
    kept = {name: case("ours", name, values, **shape).count().bytes_kept for name, values in rows.items()}
    assert len(kept) == 5
    assert max(kept.values()) <= 1.01 * kept["sdpa"], kept


@pytest.mark.extended
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
def test_gradients_of_implementations(implementation, mechanism, parameters, package):
    if package:
        pytest.importorskip(package, reason="an optional package of make bench")
    attention = case(implementation, mechanism, parameters, padding="ragged").prepare()
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
        ("transformers", f"lsh{PROJECTED}", LSH),
    ],
)
def test_padding_of_ragged_rows(implementation, mechanism, parameters):
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


@pytest.mark.extended
@pytest.mark.parametrize("padding", ["none", "ragged"])
@pytest.mark.parametrize(
    ("implementation", "mechanism", "parameters", "package"),
    [
        ("linformer", f"linformer{PROJECTED}", LINFORMER, "linformer"),
        ("x-transformers", "topk", TOPK, "x_transformers"),
        ("local-attention", "window", LOCAL, "local_attention"),
    ],
)
def test_packages_by_ours(implementation, mechanism, parameters, package, padding):
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


@pytest.mark.extended
@pytest.mark.parametrize(("padding", "number"), [("none", 0), ("ragged", 3)])
def test_flex_attention_by_our_window(padding, number):
    """It has no gradients on a CPU."""
    settings = {"parameters": LOCAL | {"global_tokens": number}, "padding": padding, "length": 200}
    ours, theirs = (case(owner, "window", **settings).prepare() for owner in ("ours", FLEX))
    for tensor in theirs.inputs:
        tensor.requires_grad_(False)
    torch.testing.assert_close(ours.forward(), theirs.forward(), rtol=1e-4, atol=1e-5)


def test_published_formula_of_cosformer():
    """With padding, ours counts real tokens, and theirs all."""
    ours, theirs = (case(owner, "cosformer", COSFORMER).prepare() for owner in ("ours", FORMULA))
    torch.testing.assert_close(ours.forward(), theirs.forward(), rtol=1e-4, atol=1e-5)
