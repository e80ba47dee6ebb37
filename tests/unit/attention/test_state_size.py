"""State sizes of mechanisms, against the tensors that they build and the keys that their queries reach."""

import pytest
import torch
from mechanism_cases import EXAMPLES, EXTENSIONS, WIDTH, build, draw

from lib.attention.settings import MECHANISMS

pytestmark = pytest.mark.extensions(*EXTENSIONS)

SPARSE = ("sdpa", "lsh", "window", "strided", "bigbird", "topk_blocks")


def sizes(tokens, head_size=64, **values):
    return MECHANISMS.parse(values).state_numbers(tokens, head_size)


def reached(mechanism, length):
    """Return how many tokens each query gives a weight to, at most over heads."""
    with torch.no_grad():
        query, key, _ = (each.detach() for each in draw(mechanism, 1, length))
        weights = mechanism.weights(query, query if mechanism.settings.shares_query_and_key else key)
    return (weights != 0).sum(-1).amax(1)[0]


def test_every_mechanism_says_its_size():
    lengths = (1, 16, 64, 256)
    for name, values in EXAMPLES.items():
        settings = MECHANISMS.parse(values)
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
    ],
)
def test_some_query_reaches_as_many_as_are_counted(values, tokens):
    mechanism = build("", values=values)
    assert mechanism.settings.state_numbers(64, WIDTH) == 2 * tokens * WIDTH
    reach = reached(mechanism, 64)
    if values["kind"] == "lsh":  # sees itself only where it sees nothing else
        assert reach.max() == tokens - 1
    else:
        assert tokens in reach


def test_blocks_that_are_chosen():
    settings = {"block_size": 4, "blocks": 2, "window": 1}
    assert sizes(61, 8, kind="topk_blocks", **settings) == (2 * 20 + 16) * 8
    assert sizes(20, 8, kind="topk_blocks", **settings) == 2 * 20 * 8
    mechanism = build("", values={"kind": "topk_blocks", **settings})
    assert reached(mechanism, 61).max() == 20


@pytest.mark.parametrize("values", [{"nb_features": 16}, {"nb_features": 6, "features": "saderf"}])
def test_sums_of_favor(values):
    mechanism = build("", values={"kind": "favor", **values})
    kept = mechanism(*draw(mechanism, 1, 40)).grad_fn.saved_tensors
    sums, summaries = kept[-3:-1] if kept[-1] is None or kept[-1].dim() == 3 else kept[-2:]
    columns = values["nb_features"]
    assert (sums.shape[1:], summaries.shape[1:]) == ((1, columns), (columns, WIDTH))
    assert sums[0].numel() + summaries[0].numel() == mechanism.settings.state_numbers(40, WIDTH)


@pytest.mark.parametrize(("values", "columns"), [({"phi": "relu", "nb_features": 8}, 8), ({"phi": "elu"}, WIDTH)])
def test_sums_of_other_features(values, columns):
    mechanism = build("", values={"kind": "favor", **values})
    rows = mechanism._map(draw(mechanism, 1, 40)[1])
    assert rows.shape[-1] == columns
    assert mechanism.settings.state_numbers(40, WIDTH) == columns * WIDTH + columns


def test_sums_of_cosformer():
    mechanism = build("", values={"kind": "cosformer"})
    sums, totals = mechanism(*draw(mechanism, 1, 40)).grad_fn.saved_tensors[-2:]
    assert sums[0].numel() + totals[0].numel() == mechanism.settings.state_numbers(40, WIDTH)


def test_what_the_documentation_says():
    assert sizes(64, kind="sdpa") == sizes(64, kind="topk", keys=4) == 2 * 64 * 64
    assert sizes(512, kind="window", width=32, global_tokens=1) == 2 * 34 * 64
    assert sizes(512, kind="favor", nb_features=256) == 256 * 65
    assert sizes(512, kind="favor", phi="elu") == 64 * 65
    assert sizes(512, kind="cosformer") == 128 * 65
    assert sizes(512, kind="lsh", num_hashes=2, chunk_size=16) == 2 * 96 * 64
    assert sizes(64, kind="lsh", num_hashes=2, chunk_size=16) == 2 * 64 * 64
    assert sizes(512, kind="linformer", rank=16, length=512) == 2 * 16 * 64
    assert sizes(512, kind="nystrom", landmarks=16) == 2 * 16 * 64
    assert sizes(8, kind="nystrom", landmarks=16) == 2 * 8 * 64
