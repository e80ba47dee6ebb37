"""The Triton kernels of LSH, FAVOR+ and windows, interpreted where there is no GPU and compiled where there is one."""

import importlib

import pytest
import torch
from mechanism_cases import HEADS, SLOPES, assert_close, build, detached, masks, run, truth

from lib.attention.kernels import Launch, set_kernels
from lib.core.errors import RunError

pytest.importorskip("triton", reason="without triton: make .venv/.kernels")
pytestmark = pytest.mark.extended
# An error of their own is no reason to skip.
favor_kernels, lsh_kernels, window_kernels = (
    importlib.import_module(f"lib.attention.{kind}.kernels") for kind in ("favor", "lsh", "window")
)

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def lsh(chunk, rounds, masked=False):
    return {"kind": "lsh", "num_hashes": rounds, "chunk_size": chunk, "mask_within_chunks": masked}


def favor(draws, **values):
    return {"kind": "favor", "nb_features": 2 * draws, **values}


def window(width, global_tokens=0, dilation=1):
    return {"kind": "window", "width": width, "global_tokens": global_tokens, "dilation": dilation}


CASES = {  # settings, head width, slopes, tokens
    "lsh of one token": (lsh(4, 2, True), 16, None, 1),
    "lsh with tiles over many chunks": (lsh(3, 3, True), 5, SLOPES, 50),
    "lsh with tiles over some chunks": (lsh(8, 2), 32, None, 70),
    "lsh with tiles within chunks": (lsh(64, 1), 64, SLOPES, 150),
    "lsh of wide heads": (lsh(8, 1, True), 128, None, 40),
    "favor of one token": (favor(5), 8, None, 1),
    "favor of odd sizes": (favor(10), 20, None, 65),
    "favor of many features": (favor(128), 64, None, 20),
    "favor of wide heads": (favor(32), 128, None, 7),
    "a window of one token": (window(16), 16, None, 1),
    "a window beyond the text": (window(128), 16, SLOPES, 40),
    "windows over tiles": (window(128), 64, None, 140),
    "tiles wholly within windows": (window(64), 80, None, 75),
    "several global tokens": (window(64, 3), 5, None, 110),
    "tiles of global tokens": (window(8, 40), 16, SLOPES, 90),
    "more global tokens than the text has": (window(8, 9), 8, None, 3),
}


def made(values, width=16, slopes=None, **changes):
    mechanism = build("", values=values, head_size=width, slopes=slopes, **changes).to(DEVICE)
    set_kernels(mechanism, "triton")
    return mechanism


def rows(mechanism, batch, length, seed=0, dtype=torch.float32):
    """Return query, key and value as a model has them: the heads of a token beside each other."""
    generator, shape = torch.Generator().manual_seed(seed), (batch, length, HEADS, mechanism.head_size)
    query, key, value = (
        torch.randn(shape, generator=generator).to(DEVICE, dtype).transpose(1, 2).requires_grad_() for _ in range(3)
    )
    return (query, query, value) if mechanism.settings.shares_query_and_key else (query, key, value)


def cotangent(mechanism, batch, length):
    return rows(mechanism, batch, length, seed=1)[2].detach().double()


def assert_as_the_reference(mechanism, length, mask):
    """Compare outputs and gradients, with hostile numbers at padding, which the reference does not read."""
    tensors, of_output = rows(mechanism, len(mask), length), cotangent(mechanism, len(mask), length)
    with torch.no_grad():
        for tensor, content in zip(tensors, (float("nan"), float("inf"), float("nan")), strict=True):
            tensor.transpose(1, 2)[mask == 0] = content
    actual = run(lambda *each: mechanism(*each, mask), tensors, of_output)
    assert mechanism.computed_by == "triton"
    assert_close(actual, truth(mechanism, tensors, mask, of_output), 1e-5, of_gradients=5e-5)
    assert all((part.transpose(1, 2)[mask == 0] == 0).all() for part in actual)
    return tensors, of_output, actual


@pytest.mark.parametrize("case", CASES)
def test_output_and_gradients_with_padding(case):
    """And the same again bit by bit, of any layout, and without a mask."""
    values, width, slopes, length = CASES[case]
    mechanism = made(values, width, slopes)
    mask = torch.cat([masks(length), torch.zeros(1, length)]).to(DEVICE)
    tensors, of_output, actual = assert_as_the_reference(mechanism, length, mask)
    again = run(lambda *each: mechanism(*each, mask), tensors, of_output)
    assert all(map(torch.equal, again, actual))
    alone = detached([each[:1].contiguous() for each in tensors], torch.float32)
    if mechanism.settings.shares_query_and_key:
        alone = (alone[0], alone[0], alone[2])
    assert_close(run(mechanism, alone, of_output[:1]), [part[:1] for part in actual], 1e-5)


@pytest.mark.parametrize(
    ("values", "module", "limit", "size"),
    [
        (window(8, 1), window_kernels, "PART", 20),
        (window(8, 40), window_kernels, "PART", 20),
        (favor(16), favor_kernels, "LEAST_TOKENS", 5),
    ],
)
def test_tokens_in_parts_of_which_one_is_padding(values, module, limit, size, monkeypatch):
    monkeypatch.setattr(module, limit, size)
    mask = masks(90)[[0, 3]].to(DEVICE)
    mask[1, 13:75] = 0
    assert_as_the_reference(made(values), 90, mask)


def test_tokens_of_lsh_are_sorted_by_their_hash():
    mechanism, length = made(lsh(3, 3), 5), 130
    query, mask = rows(mechanism, 4, length)[0].detach(), masks(length).to(DEVICE)
    query = query.masked_fill(mask[:, None, :, None] == 0, 0)
    for real in (mask.bool(), None):
        shown = torch.ones(4, length, dtype=torch.bool, device=DEVICE) if real is None else real
        _, order = mechanism.hash(query, shown).sort(dim=-1, stable=True)
        rotations = mechanism.rotations(mechanism._columns(length), torch.device(DEVICE))
        packed = lsh_kernels.sort(query, real, None if real is None else real.sum(-1), rotations, 3)
        tokens = packed & ((1 << lsh_kernels.bits_of(length)) - 1)
        assert torch.equal(tokens, order.flatten(0, 1).to(tokens.dtype))


def test_dropout_of_lsh():
    """Weights are kept as often, and scaled, as they should be, and the backward pass drops the same."""
    mechanism, length, width = made(lsh(8, 1), dropout=0.4).train(), 80, 16
    query, _, value = rows(mechanism, 2, length)
    whole, parts = mechanism.weights(query, query), []
    for part in torch.eye(length, device=DEVICE).split(width, dim=1):
        torch.manual_seed(5)
        parts.append(mechanism(query, query, part.expand(query.shape)))
    weights = torch.cat(parts, dim=-1).detach()
    kept = weights > 0
    torch.testing.assert_close(weights[kept], whole[kept] / 0.6, atol=1e-6, rtol=1e-5)
    assert kept.sum().item() / (whole > 0).sum().item() == pytest.approx(0.6, abs=0.03)

    def exact(query, _, value):
        scores = (query @ query.mT / 4).masked_fill(whole == 0, float("-inf"))
        return (scores.softmax(-1) * kept / 0.6) @ value

    of_output, found = cotangent(mechanism, 2, length), []
    for function, dtype in ((mechanism, torch.float32), (exact, torch.float64)):
        torch.manual_seed(5)
        leaf = query.detach().to(dtype).requires_grad_()
        found.append(run(function, (leaf, leaf, value.detach().to(dtype).requires_grad_()), of_output))
    assert_close(*found, 1e-5)


def test_sums_of_favor_over_65536_tokens(monkeypatch):
    length, width = 65_536, 16
    if DEVICE == "cpu":  # fewer turns, which the interpreter takes its time for
        monkeypatch.setitem(favor_kernels.LAUNCHES["single"], "summarise", Launch(16, 1024, 8, 2))
    mechanism = made(favor(8), width, num_heads=1)
    key, value = (torch.randn(1, 1, length, width, generator=torch.Generator().manual_seed(seed)) for seed in (0, 1))
    key, value = key.to(DEVICE) / 2, value.to(DEVICE) + 1  # so that sums do not cancel
    sums, summaries = favor_kernels._summarise(key, value, mechanism.features, None, width**-0.25)
    exponents = key.double() @ mechanism.features.double().mT * width**-0.25
    offset = -key.double().square().sum(-1, keepdim=True) * width**-0.5 / 2
    features = torch.cat([exponents + offset, offset - exponents], -1)[0, 0].exp()  # [N, M]
    torch.testing.assert_close(sums[0].double(), features.sum(0).log2(), atol=1e-6, rtol=1e-6)
    expected = features.T @ value[0, 0].double() / features.sum(0)[:, None]
    torch.testing.assert_close(summaries[0].double(), expected, atol=0, rtol=2e-6)


@pytest.mark.parametrize("values", [lsh(8, 2), favor(8), window(8, 1)], ids=lambda values: values["kind"])
def test_weights_types_and_what_kernels_do_not_take(values):
    mechanism, mask = made(values), masks(30).to(DEVICE)
    query, key, value = rows(mechanism, 4, 30)
    weights = mechanism.weights(query, key, mask)
    assert mechanism.computed_by == "triton"
    torch.testing.assert_close(weights @ value, mechanism(query, key, value, mask), atol=1e-5, rtol=1e-5)
    set_kernels(mechanism, "torch")
    torch.testing.assert_close(mechanism.weights(query, key, mask), weights, atol=1e-6, rtol=1e-5)
    mechanism, empty = made(values), torch.empty(0, HEADS, 5, 16, device=DEVICE)
    assert mechanism(empty, empty, empty).shape == empty.shape
    assert mechanism.computed_by == "torch"
    wide = made(values, 130)
    with pytest.raises(RunError, match="130"):
        wide(*rows(wide, 1, 4))
    others = {"window": [window(4, 0, 2)], "favor": [favor(8, phi="relu"), favor(8, stabilize=False)]}
    for other in others.get(values["kind"], []):
        mechanism = made(other)
        mechanism(*rows(mechanism, 1, 12))
        assert mechanism.computed_by == "torch"


def test_windows_hide_queries_that_nobody_cleaned():
    mechanism, mask = made(window(8, 1)), masks(40).bool().to(DEVICE)
    mechanism.pads_queries = False  # as in models of other people, which call `attend` alone
    query, key, value = rows(mechanism, 4, 40)
    hostile = query.where(mask[:, None, :, None], float("nan"))
    assert torch.equal(mechanism.attend(hostile, key, value, mask), mechanism(query, key, value, mask))
