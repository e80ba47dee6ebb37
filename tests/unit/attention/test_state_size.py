"""State sizes of mechanisms, against the tensors that they build and the keys that their queries reach."""

import pytest
import torch
from mechanism_cases import EXAMPLES, EXTENSIONS, WIDTH, build, draw

from lib.attention.settings import MECHANISMS

pytestmark = pytest.mark.extensions(*EXTENSIONS)

SPARSE = ("sdpa", "lsh", "window", "strided", "bigbird", "topk_blocks")


def reached(mechanism, length):
    """Return how many tokens each query gives a weight to, at most over heads."""
    with torch.no_grad():
        query, key, _ = (each.detach() for each in draw(mechanism, 1, length))
        weights = mechanism.weights(query, query if mechanism.settings.shares_query_and_key else key)
    return (weights != 0).sum(-1).amax(1)[0]


def test_mechanism_says_its_size():
    lengths = (1, 16, 64, 256)
    for name, values in EXAMPLES.items():
        settings = MECHANISMS.parse(values)
        if settings.kind == "module":  # which nobody knows from outside
            continue
        found = [settings.state_numbers(tokens, WIDTH) for tokens in lengths]
        assert all(isinstance(size, int) and size > 0 for size in found), name
        assert found == sorted(found), name
        if settings.kind in SPARSE:
            blocks = 1 + (settings.kind == "topk_blocks")  # and the means of blocks
            assert all(size <= blocks * 2 * tokens * WIDTH for size, tokens in zip(found, lengths, strict=True)), name


def test_no_query_reaches_more_than_is_counted():
    for name in (name for name, values in EXAMPLES.items() if values["kind"] in SPARSE):
        mechanism = build(name)
        for length in (5, 24, 61):
            reach = reached(mechanism, length)
            if getattr(mechanism.settings, "global_tokens", 0) or getattr(mechanism.settings, "global_blocks", 0):
                reach = reach[reach < length]  # global tokens see all
            counted = mechanism.settings.state_numbers(length, WIDTH) / (2 * WIDTH)
            assert reach.max() <= counted if len(reach) else counted <= length, (name, length)


@pytest.mark.parametrize(
    ("values", "tokens"),
    [
        ({"kind": "sdpa"}, 64),
        ({"kind": "window", "width": 6}, 7),
        ({"kind": "window", "width": 6, "global_tokens": 2}, 9),
        ({"kind": "window", "width": 6, "dilation": 2}, 7),
        ({"kind": "strided", "stride": 4}, 22),
        ({"kind": "bigbird", "block_size": 4, "window_blocks": 3, "global_blocks": 2, "random_blocks": 1}, 24),
        ({"kind": "lsh", "num_hashes": 1, "chunk_size": 4}, 12),
        ({"kind": "topk_blocks", "block_size": 4, "blocks": 2, "window": 1}, 20),
    ],
)
def test_some_query_reaches_as_many_as_are_counted(values, tokens):
    mechanism = build("", values=values)
    means = 64 // 4 if values["kind"] == "topk_blocks" else 0  # of blocks
    assert mechanism.settings.state_numbers(64, WIDTH) == (2 * tokens + means) * WIDTH
    reach = reached(mechanism, 64)
    if values["kind"] == "lsh":  # sees itself only where it sees nothing else
        assert reach.max() == tokens - 1
    else:
        assert tokens in reach


@pytest.mark.parametrize("values", [{"nb_features": 16}, {"nb_features": 6, "features": "saderf"}])
def test_sums_of_favor(values):
    mechanism = build("", values={"kind": "favor", **values})
    kept = mechanism(*draw(mechanism, 1, 40)).grad_fn.saved_tensors
    sums, summaries = kept[-3:-1] if kept[-1] is None or kept[-1].dim() == 3 else kept[-2:]
    columns = values["nb_features"]
    assert (sums.shape[1:], summaries.shape[1:]) == ((1, columns), (columns, WIDTH))
    assert sums[0].numel() + summaries[0].numel() == mechanism.settings.state_numbers(40, WIDTH)


def test_sums_of_cosformer():
    mechanism = build("", values={"kind": "cosformer"})
    sums, totals = mechanism(*draw(mechanism, 1, 40)).grad_fn.saved_tensors[-2:]
    assert sums[0].numel() + totals[0].numel() == mechanism.settings.state_numbers(40, WIDTH)
