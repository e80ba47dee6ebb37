"""Up to how many tokens a mechanism says that it reads a text exactly, against the weights of exact attention."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from mechanism_cases import BIASED, EXAMPLES, EXTENSIONS, SLOPES, build, draw, without_shortcuts

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
@settings(max_examples=150, deadline=None)
def test_texts_are_read_exactly_up_to_the_border_and_not_beyond_it(values):
    mechanism = build("", values=values, slopes=SLOPES)
    border = mechanism.settings.exact_up_to()
    assert error(mechanism, border) < 1e-12
    assert error(mechanism, max(1, border // 2)) < 1e-12
    assert error(mechanism, border + 1) > 1e-9


@pytest.mark.parametrize("name", EXAMPLES | BIASED)
def test_every_mechanism_says_the_truth_about_a_text_of_24_tokens(name):
    mechanism = build(name)
    border = mechanism.settings.exact_up_to()
    assert (error(mechanism, 24) < 1e-12) == (border is None or border >= 24)


def outputs_and_gradients(mechanism, real):
    """Return what the mechanism makes of 40 tokens in float32, and its gradients."""
    query, key, value = (rows.requires_grad_() for rows in draw(mechanism, 2, 40))
    inputs = [query, value] if mechanism.settings.shares_query_and_key else [query, key, value]
    key = query if mechanism.settings.shares_query_and_key else key
    output = mechanism(query, key, value, real)
    return [output, *torch.autograd.grad(output.square().sum(), inputs)]


@pytest.mark.parametrize("padding", ["none", "left", "right"])
@pytest.mark.parametrize("slopes", [None, SLOPES], ids=["plain", "ALiBi"])
@pytest.mark.parametrize("name", WITH_BORDERS)
def test_one_call_up_to_the_border_equals_the_mechanisms_own_computation(name, slopes, padding, monkeypatch):
    if slopes and not MECHANISMS.parse(WITH_BORDERS[name]).takes_bias:
        pytest.skip("takes no bias of distances")
    mechanism = build("", values=WITH_BORDERS[name], slopes=slopes)
    assert mechanism.settings.exact_up_to() == 40
    real = None if padding == "none" else torch.ones(2, 40).long()
    if padding == "left":
        real[0, :13] = 0
    elif padding == "right":
        real[0, 27:], real[1] = 0, 0
    short = outputs_and_gradients(mechanism, real)
    without_shortcuts(monkeypatch)
    for one, other in zip(short, outputs_and_gradients(mechanism, real), strict=True):
        assert (one - other).abs().max() <= 1e-5 * other.abs().max()


@pytest.mark.parametrize("name", WITH_BORDERS)
def test_one_call_is_what_runs_up_to_the_border(name, monkeypatch):
    mechanism = build("", values=WITH_BORDERS[name])
    monkeypatch.setattr(type(mechanism), "attend", None)
    query, key, value = draw(mechanism, 1, 40)
    mechanism(query, query if mechanism.settings.shares_query_and_key else key, value)
    longer = query.repeat(1, 1, 2, 1)
    with pytest.raises(TypeError):
        mechanism(longer, longer, longer)


def test_lsh_computes_its_rounds_where_dropout_makes_them_differ():
    mechanism = build("", values=WITH_BORDERS["lsh"], dropout=0.5).train()
    query, _, _ = draw(mechanism, 1, 40)
    assert not mechanism.is_exact_at(query)
    assert mechanism.eval().is_exact_at(query)


def test_a_stride_of_one_is_exact_at_every_length():
    mechanism = build("", values={"kind": "strided", "stride": 1})
    assert mechanism.settings.exact_up_to() is None
    assert error(mechanism, 200) < 1e-12


@pytest.mark.parametrize(("chunk", "border"), [(64, 128), (128, 256)])
def test_the_grids_lsh_reads_two_chunks_exactly(chunk, border):
    mechanism = build("", values={"kind": "lsh", "num_hashes": 2, "chunk_size": chunk})
    assert mechanism.settings.exact_up_to() == border
    assert error(mechanism, border) < 1e-12 < error(mechanism, border + 1)


def test_joined_rounds_have_the_same_border():
    """A little beyond it, several rounds together may happen to show every token all others."""
    mechanism = build("", values={"kind": "lsh", "num_hashes": 2, "chunk_size": 16, "join": "union"})
    assert mechanism.settings.exact_up_to() == 32
    assert error(mechanism, 32) < 1e-12 < error(mechanism, 64)


def test_a_document_in_segments_is_read_as_its_segments_are():
    def reach(segment, **mechanism):
        encoder = BACKBONES.parse({"kind": "encoder", "mechanism": mechanism})
        values = {"kind": "hierarchical", "encoder": encoder, "segment": segment, "overlap": 4}
        return BACKBONES.parse(values).exact_up_to()

    assert reach(128, kind="lsh", num_hashes=2, chunk_size=64) is None
    assert reach(129, kind="lsh", num_hashes=2, chunk_size=64) == 128
    assert reach(512, kind="favor", nb_features=64) == 0
    assert reach(512, kind="sdpa") is None


def test_a_backbone_without_a_mechanism_approximates_nothing():
    assert BACKBONES.parse({"kind": "recurrent", "cell": "gru"}).exact_up_to() is None


def test_every_kind_that_says_a_border_is_tried():
    with_a_border = {values["kind"] for values in EXAMPLES.values() if MECHANISMS.parse(values).exact_up_to()}
    assert with_a_border <= {values["kind"] for values in WITH_BORDERS.values()}
