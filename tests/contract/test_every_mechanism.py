"""What every mechanism owes, run over the examples of every mechanism found, however many there are.

What may differ between them is read from their declarations (`lib.attention.settings`).
"""

import math
import sys

import pytest
import torch
from encoder_cases import fresh_python
from extending import extended
from mechanism_cases import (
    BIASED,
    EXAMPLES,
    EXTENSIONS,
    HEADS,
    REFERENCES,
    WIDTH,
    assert_close,
    attend,
    build,
    cotangent_of,
    detached,
    draw,
    has_weights,
    masks,
    run,
    truth,
    without_shortcuts,
)

from lib.attention.contract import Attention, set_step, without_padding
from lib.attention.settings import MECHANISMS
from lib.backbones.settings import BACKBONES
from lib.core.errors import ConfigError
from lib.core.extensions import ROOT

pytestmark = pytest.mark.extensions(*EXTENSIONS)
every_mechanism = pytest.mark.parametrize("name", EXAMPLES | BIASED)
HAVE_SHORTCUTS = {"lsh", "window", "bigbird", "strided", "topk", "topk_blocks", "lolcats"}
LENGTHS = [2, 3, 4, 5, 7, 8, 9, 10, 63, 64, 65, 130]


def ways(name, monkeypatch):
    """Yield for each way in which a mechanism computes: short texts by a faster one, if it has one, and as long ones.

    Without the faster one, few tokens are enough to test what computes many.
    """
    if (EXAMPLES | BIASED)[name]["kind"] in HAVE_SHORTCUTS:
        yield "as short texts"
    without_shortcuts(monkeypatch)
    yield "as long texts"


def limits(mechanism):
    """Return the places where a mechanism's modules say how many numbers they have in memory at a time."""
    modules = [sys.modules[base.__module__] for base in type(mechanism).__mro__]
    return [getattr(module, name) for module in modules for name in ("SCORES", "FEATURES") if hasattr(module, name)]


with extended(*EXTENSIONS):
    IN_BLOCKS = [name for name in EXAMPLES | BIASED if limits(build(name))]


def test_kind_has_reference_and_examples():
    places = ("lib", "studies/*")
    folders = {path.parent.name for place in places for path in ROOT.glob(f"{place}/attention/*/mechanism.py")}
    assert folders <= set(MECHANISMS.kinds())
    assert {"sdpa", "lsh", "favor", "window", "bigbird", "strided", "linformer", "hedgehog", "lolcats"} <= folders
    for kind in folders:
        assert {values["kind"] for values in REFERENCES[kind].EXAMPLES.values()} == {kind}
        assert issubclass(MECHANISMS.load(kind, "mechanism").Mechanism, Attention)


@every_mechanism
@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_output_and_gradients_with_padding(name, monkeypatch):
    """They are those of the dense reference, which reads every text alone, and nothing of its padding."""
    for _ in ways(name, monkeypatch):
        for length, training in ((1, False), (26, True)):
            mechanism = build(name).train(training)
            set_step(mechanism, 7)
            mask, cotangent = torch.cat([masks(length), torch.zeros(1, length)]), cotangent_of(5, length)
            tensors = draw(mechanism, 5, length)
            contents = torch.tensor([0, 1e9, math.inf, math.nan, math.nan])[:, None, None, None]
            with torch.no_grad():
                for rows in tensors:
                    rows.copy_(torch.where(mask.bool()[:, None, :, None], rows, contents))
            expected = truth(mechanism, tensors, mask, cotangent)
            with torch.autograd.detect_anomaly():  # refuses a nan on the way, even one that is dropped in the end
                actual = run(lambda *rows: attend(mechanism, rows, mask), tensors, cotangent)  # noqa: B023 - called at once
            assert_close(actual, expected, 1e-5, of_gradients=5e-5)
            assert all((part.movedim(2, 1)[mask == 0] == 0).all() for part in actual)
            whole = detached([rows[:1] for rows in tensors], torch.float32)
            if mechanism.settings.shares_query_and_key:
                whole = (whole[0], whole[0], whole[2])
            alone = run(lambda *rows: attend(mechanism, rows), whole, cotangent[:1])  # noqa: B023 - called at once
            assert_close(alone, [part[:1] for part in actual], 2e-5)


@every_mechanism
def test_padding_that_nobody_clears(name, monkeypatch):
    """If it is finite, it changes no bit."""
    length = 30
    mask, cotangent = masks(length), cotangent_of(4, length)
    mask[3, 0] = 1
    real = mask.bool()[:, None, :, None]
    for _ in ways(name, monkeypatch):
        for training in (False, True):
            mechanism = build(name).train(training)
            tensors = draw(mechanism, 4, length)
            others = [10 * rows.detach().flip(2) for rows in tensors]
            changed = [torch.where(real, *pair).requires_grad_() for pair in zip(tensors, others, strict=True)]
            if mechanism.settings.shares_query_and_key:
                changed[1] = changed[0]
            cleared = run(lambda *rows: attend(mechanism, rows, mask), tensors, cotangent * real)  # noqa: B023 - at once
            for given in (tensors, changed):
                output, *gradients = run(
                    lambda *rows: attend(mechanism, rows, mask, padding_is_finite=True),  # noqa: B023 - called at once
                    given,
                    cotangent * real,
                )
                assert torch.equal(output * real, cleared[0])
                assert output.isfinite().all()
                assert all(map(torch.equal, gradients, cleared[1:]))


@pytest.mark.parametrize("name", IN_BLOCKS)
def test_working_block_by_block(name, monkeypatch):
    without_shortcuts(monkeypatch)
    mechanism = build(name)
    tensors, mask, cotangent = draw(mechanism, 4, 26), masks(26), cotangent_of(4, 26)
    expected = run(lambda *rows: attend(mechanism, rows, mask), tensors, cotangent)
    for size in (1, 40):
        for limit in limits(mechanism):
            monkeypatch.setitem(limit, "cpu", size)
        assert_close(run(lambda *rows: attend(mechanism, rows, mask), tensors, cotangent), expected, 1e-5)


@every_mechanism
def test_weights(name, monkeypatch):
    """They are those of the reference, without dropout; it is refused where there are none to drop."""
    without_shortcuts(monkeypatch)
    identity = torch.eye(26, dtype=torch.float64).expand(4, HEADS, 26, 26)
    for training, length in ((False, 26), (True, 26), (True, 1)):
        mechanism = build(name).train(training)
        set_step(mechanism, 7)
        (query, key, *_), mask = draw(mechanism, 4, length, dtype=torch.float64), masks(length)
        if not has_weights(mechanism):
            with pytest.raises(ValueError, match="no sums of values"):
                mechanism.weights(query, key, mask)
            continue
        weights, state = mechanism.weights(query, key, mask), torch.get_rng_state()
        columns = identity[..., :length, :length]
        expected = REFERENCES[mechanism.settings.kind].reference(mechanism, query, key, columns, mask)
        torch.testing.assert_close(weights, expected, atol=1e-6, rtol=1e-6)
        real = mask.bool()[:, None].expand(-1, HEADS, -1)
        assert (weights[~real] == 0).all()
        assert (weights.transpose(-1, -2)[~real] == 0).all()
        sums = weights.sum(-1)
        is_stochastic = sums.allclose(real.double(), atol=1e-5, rtol=0) and bool((weights >= 0).all())
        if mechanism.settings.row_stochastic or length > 1:  # a token alone may have the weight 1 with every mechanism
            assert is_stochastic == mechanism.settings.row_stochastic
        if mechanism.settings.takes_attention_dropout:
            mechanism.dropout = 0.5
            assert torch.equal(mechanism.weights(query, key, mask), weights)
            assert torch.equal(torch.get_rng_state(), state)
            assert mechanism.dropout == 0.5
    if not mechanism.settings.takes_attention_dropout:
        with pytest.raises(ConfigError, match="attention_dropout"):
            build(name, dropout=0.5)


@every_mechanism
def test_draws_order_and_reach(name):
    """Draws belong to the mechanism alone; the order of tokens counts, and texts end, where it is said."""
    mechanism, state = build(name), torch.get_rng_state()
    longest = mechanism.settings.longest()
    length = min(longest or 300, 300)
    tensors, order = draw(mechanism, 1, length), torch.randperm(length, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        for training in (True, False):
            mechanism = build(name).train(training)
            first = attend(mechanism, tensors)
            assert torch.equal(first, attend(mechanism, tensors))
            assert torch.equal(first, attend(build(name).train(training), tensors))
            mechanism.reset_features()
            assert torch.equal(first, attend(mechanism, tensors))
        assert torch.equal(state, torch.get_rng_state())
        permuted = [tensor[:, :, order] for tensor in tensors]
        if mechanism.settings.shares_query_and_key:
            permuted[1] = permuted[0]
        follows = attend(mechanism, permuted).allclose(first[:, :, order], atol=1e-5)
    assert follows != (mechanism.settings.depends_on_positions or name in BIASED)
    if longest:
        with pytest.raises(ValueError, match=str(longest + 1)):
            attend(mechanism, draw(mechanism, 1, longest + 1))


@pytest.mark.extended
@every_mechanism
def test_other_lengths_and_widths(name, monkeypatch):
    """Those around the borders of chunks and blocks, to the last digits."""
    for _ in ways(name, monkeypatch):
        for length, width in [(length, WIDTH) for length in LENGTHS] + [(26, 32), (26, 80)]:
            mechanism = build(name, head_size=width).double()
            if length > (mechanism.settings.longest() or length):
                continue
            if hasattr(mechanism.settings, "eps"):
                mechanism.settings = mechanism.settings.model_copy(update={"eps": 1e-13})
            tensors = draw(mechanism, 4, length, dtype=torch.float64)
            mask, cotangent = masks(length), cotangent_of(4, length, width)
            actual = run(lambda *rows: attend(mechanism, rows, mask), tensors, cotangent)  # noqa: B023 - called at once
            assert_close(actual, truth(mechanism, tensors, mask, cotangent), 1e-10)


@pytest.mark.extended
@every_mechanism
def test_low_precision(name, monkeypatch):
    """It is near the reference in half precision and in mixed precision, and norms up to 50 stay finite."""
    mask, cotangent = masks(50), cotangent_of(4, 50)
    for _ in ways(name, monkeypatch):
        for dtype, tolerance in ((torch.bfloat16, 3e-2), (torch.float16, 4e-3)):
            mechanism = build(name)

            def masked(*rows, mechanism=mechanism):
                return attend(mechanism, rows, mask)

            tensors = draw(mechanism, 4, 50, dtype=dtype)
            assert masked(*tensors).dtype == dtype
            expected = truth(mechanism, tensors, mask, cotangent)
            assert_close(run(masked, tensors, cotangent), expected, tolerance)
            if has_weights(mechanism):
                weights = mechanism.weights(*tensors[:2], mask)
                with torch.autocast("cpu", dtype=dtype):
                    assert torch.equal(mechanism.weights(*tensors[:2], mask), weights)
            whole = draw(mechanism, 4, 50)
            with torch.autocast("cpu", dtype=dtype):
                assert masked(*whole).dtype == torch.float32
                mixed = run(masked, whole, cotangent)
            assert_close(mixed, truth(mechanism, whole, mask, cotangent), 3e-2)
            if not getattr(mechanism.settings, "stabilize", True):
                continue  # the unstabilised feature map overflows, as documented
            with torch.no_grad():
                for rows in whole[: 1 if whole[1] is whole[0] else 2]:
                    rows *= 50 / rows.norm(dim=-1, keepdim=True)
                    rows[:, :, ::3] *= 0.01
            for sign in (1, -1):
                if whole[1] is not whole[0]:
                    with torch.no_grad():
                        whole[1].copy_(sign * whole[0])
                assert all(part.isfinite().all() for part in run(masked, detached(whole, dtype), cotangent))


@pytest.mark.extended
def test_fresh_process_gives_the_same(tmp_path):
    saved = {}
    for name in EXAMPLES:
        mechanism = build(name)
        tensors = detached(draw(mechanism, 1, 40), torch.float32)
        output = attend(mechanism, tensors).detach()
        saved[name] = (EXAMPLES[name], mechanism.state_dict(), tensors, output)
    torch.save(saved, tmp_path / "saved.pt")
    program = f"""
import torch
from lib.attention.contract import build
from lib.attention.settings import MECHANISMS
for name, (values, state, tensors, output) in torch.load({str(tmp_path / "saved.pt")!r}).items():
    shape = {{"num_heads": {HEADS}, "head_size": {WIDTH}, "width": {HEADS * WIDTH}}}
    mechanism, (query, key, value, *states) = build(MECHANISMS.parse(values), layer=1, seed=3, **shape).eval(), tensors
    for round in ("drawn", "loaded"):
        found = mechanism(query, key, value, **({{"states": states[0][:, 0]}} if states else {{}}))
        torch.testing.assert_close(found, output, atol=1e-6, rtol=1e-6)
        mechanism.load_state_dict(state)
"""
    fresh_python(program)


def test_reach_of_an_encoder():
    def encoder(name, **settings):
        mechanism = {"mechanism": EXAMPLES[name]}
        return BACKBONES.parse({"kind": "encoder", **mechanism, **settings})

    learned = {"position_embedding_type": "learned", "max_position_embeddings": 40}
    assert [encoder(name).longest() for name in ("sdpa-native", "linformer")] == [None, 64]
    assert [encoder(name, **learned).longest() for name in ("sdpa-native", "linformer")] == [40, 40]
    assert encoder("linformer", **learned | {"max_position_embeddings": 100}).longest() == 64


def test_hidden_padding_beside_masked_fill():
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        rows = torch.randn(3, 2, 7, 4, dtype=dtype).transpose(1, 2).contiguous().transpose(1, 2)
        real = torch.rand(3, 7) < 0.5
        rows.transpose(1, 2)[~real] = torch.tensor([math.nan, math.inf, -math.inf, -1.0], dtype=dtype)
        rows[rows > 1] = -0.0
        gradient, found = torch.randn_like(rows), []
        leaf, other = (rows.clone().requires_grad_() for _ in range(2))
        hidden = [without_padding(leaf, real), other.masked_fill(~real[:, None, :, None], 0)]
        for each, given in zip(hidden, (leaf, other), strict=True):
            each.backward(gradient)
            found.append([tensor.detach().contiguous().view(torch.uint8) for tensor in (each, given.grad)])
        assert all(torch.equal(*pair) for pair in zip(*found, strict=True))
