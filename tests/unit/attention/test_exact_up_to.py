"""Up to how many tokens a mechanism says that it reads a text exactly, against the weights of exact attention."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from mechanism_cases import BIASED, EXAMPLES, EXTENSIONS, SLOPES, build, draw, has_weights, without_shortcuts

from lib.attention.settings import MECHANISMS
from lib.backbones.settings import BACKBONES

pytestmark = pytest.mark.extensions(*EXTENSIONS)

FEW, SOME = st.integers(1, 4), st.integers(0, 3)
WITH_A_BORDER = st.one_of(
    st.fixed_dictionaries({"kind": st.just("lsh"), "num_hashes": FEW, "chunk_size": st.integers(1, 20)}),
    st.fixed_dictionaries(
        {"kind": st.just("window"), "width": FEW.map(lambda half: 2 * half), "global_tokens": SOME, "dilation": FEW}
    ),
    st.fixed_dictionaries({"kind": st.just("strided"), "stride": st.integers(2, 30)}),
    st.fixed_dictionaries({"kind": st.just("topk"), "keys": st.integers(1, 30)}),
    st.fixed_dictionaries({"kind": st.just("topk_blocks"), "block_size": FEW, "blocks": FEW, "window": SOME}),
    st.fixed_dictionaries(
        {
            "kind": st.just("bigbird"),
            "block_size": FEW,
            "window_blocks": SOME.map(lambda side: 2 * side + 1),
            "global_blocks": SOME,
            "random_blocks": SOME,
        }
    ),
)

WITH_BORDERS = {
    "lsh": {"kind": "lsh", "num_hashes": 2, "chunk_size": 20},
    "lsh-union": {"kind": "lsh", "num_hashes": 2, "chunk_size": 20, "join": "union"},
    "window": {"kind": "window", "width": 76, "global_tokens": 1},
    "strided": {"kind": "strided", "stride": 39},
    "topk": {"kind": "topk", "keys": 40},
    "topk_blocks": {"kind": "topk_blocks", "block_size": 8, "blocks": 3, "window": 1},
    "bigbird": {"kind": "bigbird", "block_size": 8, "window_blocks": 3, "global_blocks": 2, "random_blocks": 1},
    "lolcats": {"kind": "lolcats", "block_size": 20, "window_blocks": 3},
}
"""Settings with which 40 tokens are read exactly."""


@torch.no_grad()
def error(mechanism, length):
    """Return the greatest difference from the weights of exact attention; LSH leaves out the token itself."""
    query, key, _ = draw(mechanism, 1, length, dtype=torch.float64)
    scores = query @ key.mT / mechanism.head_size**0.5
    if (slopes := mechanism.slopes(query.device)) is not None:
        places = torch.arange(length)
        scores -= slopes[:, None, None] * (places[:, None] - places).abs()
    if mechanism.settings.kind == "lsh" and length > 1:
        scores.diagonal(dim1=-2, dim2=-1).fill_(float("-inf"))
    return (mechanism.weights(query, key) - scores.softmax(-1)).abs().max().item()


@given(WITH_A_BORDER)
@settings(max_examples=40, deadline=None)
def test_texts_up_to_the_border_and_beyond(values):
    mechanism = build("", values=values, slopes=SLOPES)
    border = mechanism.settings.exact_up_to()
    assert error(mechanism, border) < 1e-12
    assert error(mechanism, max(1, border // 2)) < 1e-12
    assert error(mechanism, border + 1) > 1e-9


def outputs_and_gradients(mechanism, real):
    """Return what the mechanism makes of 40 tokens in float32, and its gradients."""
    query, key, value = (rows.requires_grad_() for rows in draw(mechanism, 2, 40))
    inputs = [query, value] if mechanism.settings.shares_query_and_key else [query, key, value]
    key = query if mechanism.settings.shares_query_and_key else key
    output = mechanism(query, key, value, real)
    return [output, *torch.autograd.grad(output.square().sum(), inputs)]


def test_lsh_with_dropout_computes_its_rounds():
    mechanism = build("", values=WITH_BORDERS["lsh"], dropout=0.5).train()
    query, _, _ = draw(mechanism, 1, 40)
    assert not mechanism.is_exact_at(query)
    assert mechanism.eval().is_exact_at(query)


def test_exactness_of_24_tokens():
    for name in EXAMPLES | BIASED:
        mechanism = build(name)
        border = mechanism.settings.exact_up_to()
        if not has_weights(mechanism):
            assert border == 0, name
            continue
        assert (error(mechanism, 24) < 1e-12) == (border is None or border >= 24), name
    with_a_border = {values["kind"] for values in EXAMPLES.values() if MECHANISMS.parse(values).exact_up_to()}
    assert with_a_border <= {values["kind"] for values in WITH_BORDERS.values()}
    unbounded = build("", values={"kind": "strided", "stride": 1})
    assert unbounded.settings.exact_up_to() is None
    assert error(unbounded, 200) < 1e-12
    joined = build("", values={"kind": "lsh", "num_hashes": 2, "chunk_size": 16, "join": "union"})
    # A little beyond it, several rounds together may happen to show every token all others.
    assert error(joined, joined.settings.exact_up_to()) < 1e-12 < error(joined, 64)


@pytest.mark.parametrize("name", WITH_BORDERS)
def test_one_call_up_to_the_border(name, monkeypatch):
    """It equals the mechanism's own computation, which is not begun."""
    biases = (None, SLOPES) if MECHANISMS.parse(WITH_BORDERS[name]).takes_bias else (None,)
    left, right = torch.ones(2, 40).long(), torch.ones(2, 40).long()
    left[0, :13], right[0, 27:], right[1] = 0, 0, 0
    short = {}
    with monkeypatch.context() as patch:
        patch.setattr(type(build("", values=WITH_BORDERS[name])), "attend", None)
        for case in itertools.product(biases, (0, 1, 2)):
            mechanism = build("", values=WITH_BORDERS[name], slopes=case[0])
            assert mechanism.settings.exact_up_to() == 40
            short[case] = outputs_and_gradients(mechanism, (None, left, right)[case[1]])
        longer = draw(mechanism, 1, 41)[0]
        with pytest.raises(TypeError):
            mechanism(longer, longer, longer)
    without_shortcuts(monkeypatch)
    for (slopes, side), found in short.items():
        mechanism = build("", values=WITH_BORDERS[name], slopes=slopes)
        for one, other in zip(found, outputs_and_gradients(mechanism, (None, left, right)[side]), strict=True):
            assert (one - other).abs().max() <= 1e-5 * other.abs().max()


def test_reach_of_documents_and_other_backbones():
    def reach(segment, **mechanism):
        encoder = BACKBONES.parse({"kind": "encoder", "mechanism": mechanism})
        values = {"kind": "hierarchical", "encoder": encoder, "segment": segment, "overlap": 4}
        return BACKBONES.parse(values).exact_up_to()

    assert reach(128, kind="lsh", num_hashes=2, chunk_size=64) is None
    assert reach(129, kind="lsh", num_hashes=2, chunk_size=64) == 128
    assert reach(512, kind="favor", nb_features=64) == 0
    assert reach(512, kind="sdpa") is None
    assert BACKBONES.parse({"kind": "recurrent", "cell": "gru"}).exact_up_to() is None
