"""What every mechanism owes, run over the examples of every mechanism found, however many there are.

What may differ between them is read from their declarations (`lib.attention.settings`).
"""

import math
import sys

import pytest
import torch
from encoder_cases import fresh_python
from mechanism_cases import (
    BIASED,
    EXAMPLES,
    EXTENSIONS,
    HEADS,
    REFERENCES,
    WIDTH,
    Largest,
    assert_close,
    build,
    cotangent_of,
    detached,
    draw,
    masks,
    run,
    truth,
    without_shortcuts,
)
from small_studies import study
from torch.profiler import ProfilerActivity, profile

from lib.attention.contract import Attention, set_step, without_padding
from lib.attention.settings import MECHANISMS
from lib.backbones.settings import BACKBONES
from lib.core.errors import ConfigError
from lib.core.extensions import ROOT

pytestmark = pytest.mark.extensions(*EXTENSIONS)
every_mechanism = pytest.mark.parametrize("name", EXAMPLES | BIASED)
HAVE_SHORTCUTS = {"lsh", "window", "bigbird", "strided", "topk", "topk_blocks", "lolcats"}
every_way = pytest.mark.parametrize(
    ("name", "shortcuts"),
    [
        pytest.param(name, shortcuts, id=f"{name}{'-short' * shortcuts}")
        for name, values in (EXAMPLES | BIASED).items()
        for shortcuts in ([False, True] if values["kind"] in HAVE_SHORTCUTS else [False])
    ],
)
"""Every mechanism; those that have a faster way for short texts also by that."""
LENGTHS = [1, 2, 3, 4, 5, 7, 8, 9, 10, 26, 63, 64, 65, 130]


@pytest.fixture(autouse=True)
def _shortcuts(request, monkeypatch):
    """Without them, few tokens are enough to test what computes many."""
    if not getattr(request.node, "callspec", None) or not request.node.callspec.params.get("shortcuts"):
        without_shortcuts(monkeypatch)


def skip_beyond_its_reach(mechanism, length):
    if length > (mechanism.settings.longest() or length):
        pytest.skip("longer than the mechanism reads, which it refuses")


def test_every_mechanism_has_parameters_reference_and_examples():
    places = ("lib", "studies/*")
    folders = {path.parent.name for place in places for path in ROOT.glob(f"{place}/attention/*/mechanism.py")}
    assert folders == set(MECHANISMS.kinds())
    assert {"sdpa", "lsh", "favor", "window", "bigbird", "strided", "linformer", "hedgehog", "lolcats"} <= folders
    for kind in folders:
        module = MECHANISMS.load(kind, "reference")
        assert callable(module.reference)
        assert {values["kind"] for values in module.EXAMPLES.values()} == {kind}
        assert issubclass(MECHANISMS.load(kind, "mechanism").Mechanism, Attention)


@every_way
@pytest.mark.parametrize("length", LENGTHS)
def test_output_and_gradients_equal_the_reference(name, shortcuts, length):
    mechanism = build(name)
    skip_beyond_its_reach(mechanism, length)
    tensors, mask, cotangent = draw(mechanism, 4, length), masks(length), cotangent_of(4, length)
    actual = run(lambda *rows: mechanism(*rows, mask), tensors, cotangent)
    assert_close(actual, truth(mechanism, tensors, mask, cotangent), 1e-5, of_gradients=5e-5)


@every_mechanism
def test_equals_the_reference_at_every_width_of_heads(name):
    for width in (32, 64, 80):
        mechanism = build(name, head_size=width)
        tensors, mask, cotangent = draw(mechanism, 4, 26), masks(26), cotangent_of(4, 26, width)
        actual = run(lambda *rows: mechanism(*rows, mask), tensors, cotangent)  # noqa: B023 - called at once
        assert_close(actual, truth(mechanism, tensors, mask, cotangent), 2e-5, of_gradients=1e-4)


@every_way
def test_equals_the_reference_to_the_last_digits_in_float64(name, shortcuts):
    mechanism = build(name)
    if hasattr(mechanism.settings, "eps"):
        mechanism.settings = mechanism.settings.model_copy(update={"eps": 1e-13})
    tensors, mask, cotangent = draw(mechanism, 4, 26, dtype=torch.float64), masks(26), cotangent_of(4, 26)
    actual = run(lambda *rows: mechanism(*rows, mask), tensors, cotangent)
    assert_close(actual, truth(mechanism, tensors, mask, cotangent), 1e-11)


@every_way
def test_reference_holds_in_training_too(name, shortcuts):
    mechanism = build(name).train()
    set_step(mechanism, 7)
    tensors, mask, cotangent = draw(mechanism, 4, 30), masks(30), cotangent_of(4, 30)
    actual = run(lambda *rows: mechanism(*rows, mask), tensors, cotangent)
    assert_close(actual, truth(mechanism, tensors, mask, cotangent), 1e-5)


@every_mechanism
def test_no_mask_is_a_mask_of_ones(name):
    mechanism = build(name)
    tensors, cotangent = draw(mechanism, 2, 21), cotangent_of(2, 21)
    without = run(mechanism, tensors, cotangent)
    assert_close(without, run(lambda *rows: mechanism(*rows, torch.ones(2, 21)), tensors, cotangent), 1e-5)


@every_way
@pytest.mark.parametrize("place", ["right", "left", "middle", "scattered"])
def test_padding_is_exact(name, shortcuts, place):
    """One document stands in several rows, whose padding holds different things, between two that are longer."""
    if name in BIASED and place in ("middle", "scattered"):
        pytest.skip("padding between two tokens counts as distance, as in every position encoding")
    mechanism = build(name)
    length, longer, contents = 19, 44, (0.0, 1e9, float("inf"), float("nan"))
    kept = {
        "right": torch.arange(length),
        "left": torch.arange(longer - length, longer),
        "middle": torch.cat([torch.arange(9), torch.arange(longer - length + 9, longer)]),
        "scattered": torch.randperm(longer, generator=torch.Generator().manual_seed(5))[:length].sort().values,
    }[place]
    alone, neighbours, cotangent = draw(mechanism, 1, length), draw(mechanism, 2, longer, 1), cotangent_of(1, longer)
    expected = run(mechanism, alone, cotangent[:, :, kept])

    mask = torch.ones(len(contents) + 2, longer, dtype=torch.long)
    mask[1:-1] = 0
    mask[1:-1, kept] = 1
    padded = []
    for one, two in zip(alone, neighbours, strict=True):
        rows = torch.tensor(contents)[:, None, None, None].repeat(1, HEADS, longer, WIDTH)
        rows[:, :, kept] = one.detach()
        padded.append(torch.cat([two[:1].detach(), rows, two[1:].detach()]).requires_grad_())
    if mechanism.settings.shares_query_and_key:
        padded[1] = padded[0]
    actual = run(lambda *rows: mechanism(*rows, mask), padded, torch.cat([cotangent] * len(mask)))

    for row, content in enumerate(contents, start=1):
        for mine, theirs in zip(actual, expected, strict=True):
            torch.testing.assert_close(
                mine[row : row + 1, :, kept],
                theirs,
                atol=1e-5,
                rtol=1e-5,
                msg=lambda message, content=content: f"where padding holds {content}: {message}",
            )
            assert (mine[row, :, mask[row] == 0] == 0).all(), f"where padding holds {content}"


@every_way
@pytest.mark.parametrize("training", [False, True])
def test_padding_that_is_finite_changes_no_bit_though_nobody_clears_it(name, shortcuts, training):
    length = 30
    mask, cotangent = masks(length), cotangent_of(4, length)
    mask[3, 0] = 1
    real = mask.bool()[:, None, :, None]
    mechanism = build(name).train(training)
    tensors = draw(mechanism, 4, length)
    others = [10 * rows.detach().flip(2) for rows in tensors]
    changed = [torch.where(real, *pair).requires_grad_() for pair in zip(tensors, others, strict=True)]
    if mechanism.settings.shares_query_and_key:
        changed[1] = changed[0]
    cleared = run(lambda *rows: mechanism(*rows, mask), tensors, cotangent * real)
    for given in (tensors, changed):
        output, *gradients = run(lambda *rows: mechanism(*rows, mask, padding_is_finite=True), given, cotangent * real)
        assert torch.equal(output * real, cleared[0])
        assert output.isfinite().all()
        assert all(map(torch.equal, gradients, cleared[1:]))


@every_way
def test_rows_of_a_batch_do_not_see_one_another(name, shortcuts):
    mechanism = build(name)
    tensors, mask, cotangent = draw(mechanism, 4, 50), masks(50), cotangent_of(4, 50)
    with torch.no_grad():
        tensors[0][0] *= 20
        tensors[1][0] *= 20  # a row of extreme size, to be noticed by the others if by any means
    together = run(lambda *rows: mechanism(*rows, mask), tensors, cotangent)
    for row in range(1, 4):
        alone = detached([tensor[row : row + 1] for tensor in tensors], torch.float32)
        if mechanism.settings.shares_query_and_key:
            alone = (alone[0], alone[0], alone[2])
        single = run(lambda *rows, row=row: mechanism(*rows, mask[row : row + 1]), alone, cotangent[row : row + 1])
        assert_close([part[row : row + 1] for part in together], single, 1e-5)


@every_way
@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize("training", [False, True])
def test_a_row_of_padding_only_comes_out_as_zeros(name, shortcuts, training):
    mechanism = build(name).train(training)
    length, contents = 13, (1.0, float("nan"))
    rows = 1 + len(contents)
    tensors, mask, cotangent = draw(mechanism, rows, length), torch.ones(rows, length), cotangent_of(rows, length)
    mask[1:] = 0
    with torch.no_grad():
        for tensor in tensors:
            tensor[1:] = torch.tensor(contents)[:, None, None, None]
    with torch.autograd.detect_anomaly():  # refuses a nan on the way, even one that is dropped in the end
        actual = run(lambda *rows: mechanism(*rows, mask), tensors, cotangent)
    for part in actual:
        assert (part[1:] == 0).all()
        assert part[0].isfinite().all()
        assert part[0].abs().max() > 0


@every_mechanism
def test_draws_are_the_mechanisms_own(name):
    tensors = draw(build(name), 1, 40)
    state = torch.get_rng_state()
    with torch.no_grad():
        for training in (False, True):
            mechanism = build(name).train(training)
            first = mechanism(*tensors)
            assert torch.equal(first, mechanism(*tensors))
            assert torch.equal(first, build(name).train(training)(*tensors))
            mechanism.reset_features()
            assert torch.equal(first, mechanism(*tensors))
    assert torch.equal(state, torch.get_rng_state())


def test_a_fresh_process_gives_the_same(tmp_path):
    saved = {}
    for name in EXAMPLES:
        mechanism = build(name)
        query, key, value = (tensor.detach() for tensor in draw(mechanism, 1, 40))
        if mechanism.settings.shares_query_and_key:
            key = query
        output = mechanism(query, key, value).detach()
        saved[name] = (EXAMPLES[name], mechanism.state_dict(), (query, key, value), output)
    torch.save(saved, tmp_path / "saved.pt")
    program = f"""
import torch
from lib.attention.contract import build
from lib.attention.settings import MECHANISMS
for name, (values, state, tensors, output) in torch.load({str(tmp_path / "saved.pt")!r}).items():
    mechanism = build(MECHANISMS.parse(values), num_heads={HEADS}, head_size={WIDTH}, layer=1, seed=3).eval()
    for round in ("drawn", "loaded"):
        torch.testing.assert_close(mechanism(*tensors), output, atol=1e-6, rtol=1e-6)
        mechanism.load_state_dict(state)
"""
    fresh_python(program)


@every_way
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.bfloat16, 3e-2), (torch.float16, 4e-3)])
def test_half_precision_is_near_the_reference(name, shortcuts, dtype, tolerance):
    mechanism = build(name)
    tensors, mask, cotangent = draw(mechanism, 4, 50, dtype=dtype), masks(50), cotangent_of(4, 50)
    output = mechanism(*tensors, mask)
    assert output.dtype == dtype
    actual = run(lambda *rows: mechanism(*rows, mask), tensors, cotangent)
    assert_close(actual, truth(mechanism, tensors, mask, cotangent), tolerance)


@every_way
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_is_near_the_reference(name, shortcuts, dtype):
    mechanism = build(name)
    tensors, mask, cotangent = draw(mechanism, 4, 50), masks(50), cotangent_of(4, 50)
    with torch.autocast("cpu", dtype=dtype):
        assert mechanism(*tensors, mask).dtype == torch.float32
        actual = run(lambda *rows: mechanism(*rows, mask), tensors, cotangent)
    assert_close(actual, truth(mechanism, tensors, mask, cotangent), 3e-2)


@every_way
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("opposite", [False, True])
def test_norms_up_to_fifty_stay_finite(name, shortcuts, dtype, opposite):
    mechanism = build(name)
    if getattr(mechanism.settings, "stabilize", True) is False:
        pytest.skip("the unstabilised feature map overflows, as documented")
    tensors, mask = draw(mechanism, 4, 40), masks(40)
    with torch.no_grad():
        for tensor in tensors[: 1 if tensors[1] is tensors[0] else 2]:
            tensor *= 50 / tensor.norm(dim=-1, keepdim=True)
            tensor[:, :, ::3] *= 0.01
        if opposite and tensors[1] is not tensors[0]:
            tensors[1].copy_(-tensors[0])
    tensors = detached(tensors, dtype)
    for part in run(lambda *rows: mechanism(*rows, mask), tensors, cotangent_of(4, 40)):
        assert part.isfinite().all()


@every_mechanism
@pytest.mark.parametrize("length", [5, 26, 64])
def test_working_block_by_block_changes_nothing(name, length, monkeypatch):
    mechanism = build(name)
    modules = [sys.modules[base.__module__] for base in type(mechanism).__mro__]
    tensors, mask, cotangent = draw(mechanism, 4, length), masks(length), cotangent_of(4, length)
    expected = run(lambda *rows: mechanism(*rows, mask), tensors, cotangent)
    limits = [getattr(module, name) for module in modules for name in ("SCORES", "FEATURES") if hasattr(module, name)]
    if not limits:
        pytest.skip("the mechanism works on all rows at once")
    for size in (1, 40, 700):
        for limit in limits:
            monkeypatch.setitem(limit, "cpu", size)
        assert_close(run(lambda *rows: mechanism(*rows, mask), tensors, cotangent), expected, 1e-5)


@every_mechanism
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("length", [1, 30])
def test_weights_are_what_is_applied_to_the_values(name, training, length):
    mechanism = build(name).train(training)
    set_step(mechanism, 7)
    (query, key, value), mask = draw(mechanism, 4, length), masks(length)
    weights = mechanism.weights(query, key, mask)
    assert weights.shape == (4, HEADS, length, length)
    torch.testing.assert_close(weights @ value, mechanism(query, key, value, mask), atol=1e-5, rtol=1e-5)
    unmasked = mechanism.weights(query, key) @ value
    torch.testing.assert_close(unmasked, mechanism(query, key, value), atol=1e-5, rtol=1e-5)
    real = mask.bool()[:, None].expand(-1, HEADS, -1)
    assert (weights[~real] == 0).all()
    assert (weights.transpose(-1, -2)[~real] == 0).all()
    is_stochastic = weights.sum(-1).allclose(real.float(), atol=1e-5, rtol=0) and bool((weights >= 0).all())
    if mechanism.settings.row_stochastic or length > 1:  # a token alone may have the weight 1 with every mechanism
        assert is_stochastic == mechanism.settings.row_stochastic


@every_mechanism
def test_the_order_of_tokens_matters_where_it_is_said_to(name):
    mechanism = build(name)
    length = min(mechanism.settings.longest() or 300, 300)
    tensors, order = draw(mechanism, 1, length), torch.randperm(length, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        permuted = [tensor[:, :, order] for tensor in tensors]
        if mechanism.settings.shares_query_and_key:
            permuted[1] = permuted[0]
        follows = mechanism(*permuted).allclose(mechanism(*tensors)[:, :, order], atol=1e-5)
    assert follows != (mechanism.settings.depends_on_positions or name in BIASED)


@every_mechanism
def test_more_tokens_than_a_mechanism_reads_are_refused(name):
    mechanism = build(name)
    if (longest := mechanism.settings.longest()) is None:
        pytest.skip("reads any number of tokens")
    mechanism(*draw(mechanism, 1, longest))
    with pytest.raises(ValueError, match=f"{longest} tokens at most, but the text has {longest + 1}"):
        mechanism(*draw(mechanism, 1, longest + 1))


def test_an_encoder_reads_what_its_positions_and_its_mechanism_do():
    def encoder(name, **settings):
        mechanism = {"mechanism": EXAMPLES[name]}
        return BACKBONES.parse({"kind": "encoder", **mechanism, **settings})

    learned = {"position_embedding_type": "learned", "max_position_embeddings": 40}
    assert [encoder(name).longest() for name in ("sdpa-native", "linformer")] == [None, 64]
    assert [encoder(name, **learned).longest() for name in ("sdpa-native", "linformer")] == [40, 40]
    assert encoder("linformer", **learned | {"max_position_embeddings": 100}).longest() == 64
    assert encoder("sdpa-native").abilities - encoder("linformer").abilities == {"attention_maps"}


def test_a_study_of_longer_texts_than_a_mechanism_reads_is_refused():
    added = [("mechanisms/linformer-k6", EXAMPLES["linformer"])]
    added += [("models/linformer-k6", {"backbone": "encoder", "mechanism": "linformer-k6"})]
    with pytest.raises(ConfigError, match=r"reads 64 tokens at most, but imdb has max_tokens = 128 \(linformer-k6\)"):
        study(*added)
    shorter = [(f"datasets/{name}/max_tokens", 64) for name in ("imdb", "arxiv")]
    assert "linformer-k6" in study(*added, *shorter).experiment.models


@every_mechanism
def test_weights_equal_the_reference(name):
    mechanism = build(name)
    (query, key, _), mask = draw(mechanism, 4, 26, dtype=torch.float64), masks(26)
    identity = torch.eye(26, dtype=torch.float64).expand(4, HEADS, 26, 26)
    expected = REFERENCES[mechanism.settings.kind].reference(mechanism, query, key, identity, mask)
    torch.testing.assert_close(mechanism.weights(query, key, mask), expected, atol=1e-6, rtol=1e-6)


@every_mechanism
def test_weights_are_those_before_dropout_which_others_refuse(name):
    mechanism, (query, key, _) = build(name).train(), draw(build(name), 2, 30)
    expected = mechanism.weights(query, key)
    if not mechanism.settings.takes_attention_dropout:
        with pytest.raises(ConfigError, match=f"{mechanism.settings.kind} never forms attention weights"):
            build(name, dropout=0.5)
        return
    mechanism = build(name, dropout=0.5).train()
    state = torch.get_rng_state()
    assert torch.equal(mechanism.weights(query, key), expected)
    assert torch.equal(state, torch.get_rng_state())
    assert mechanism.dropout == 0.5


@every_way
def test_weights_are_exact_in_low_precision_and_whatever_the_padding_holds(name, shortcuts):
    mechanism, mask = build(name), masks(20)
    query, key, _ = draw(mechanism, 4, 20, dtype=torch.bfloat16)
    with torch.no_grad():
        expected = mechanism.weights(*detached((query, key, key), torch.float32)[:2], mask)
        for rows in (query, key):
            rows.masked_fill_(mask[:, None, :, None] == 0, float("nan"))
    for autocast in (False, True):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
            weights = mechanism.weights(query, key, mask)
        assert weights.dtype == torch.float32
        torch.testing.assert_close(weights, expected, atol=1e-6, rtol=1e-6)


@every_mechanism
def test_no_square_of_the_length_is_formed_where_the_cost_is_linear(name):
    mechanism, length = build(name), 4096
    keys = mechanism.settings.keys_per_query
    if mechanism.settings.longest() or keys(2 * length) > keys(length):
        pytest.skip("costs the square of the length, or ends")
    rows = draw(mechanism, 1, length)
    mask = torch.ones(1, length)
    mask[0, ::5] = 0
    with Largest() as largest:
        mechanism(*rows, mask).sum().backward()
    assert largest.elements < length**2 / 2


def passes_over(attend, rows):
    """Return how many kernels without arithmetic pass over all rows, forward and backward."""
    moving = {f"aten::{name}" for name in ("copy_", "fill_", "masked_fill_", "where", "mul", "bitwise_and")}
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiled:
        attend(*rows).backward(torch.ones_like(rows[0]))
    shapes = [event.input_shapes for event in profiled.events() if event.name in moving]
    return sum(max(math.prod(shape) for shape in each) >= rows[0].numel() for each in shapes)


def test_exact_attention_hides_padding_in_one_pass_over_each_tensor():
    rows, mask = [torch.randn(2, HEADS, 8, WIDTH, requires_grad=True) for _ in range(3)], masks(8)[:2]
    mechanism = build("sdpa-native").train()

    def exact(query, key, value):
        return torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask.bool()[:, None, None])

    ours = passes_over(lambda *each: mechanism(*each, mask), rows)
    assert ours - passes_over(exact, rows) <= 8  # queries, keys, values and outputs, and the gradient of each


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("strided", [False, True])
def test_what_hides_padding_gives_the_bits_of_masked_fill(dtype, strided):
    rows = torch.randn(3, 2, 7, 4, dtype=dtype)
    rows = rows.transpose(1, 2).contiguous().transpose(1, 2) if strided else rows
    real = torch.rand(3, 7) < 0.5
    rows.transpose(1, 2)[~real] = torch.tensor([math.nan, math.inf, -math.inf, -1.0], dtype=dtype)
    rows[rows > 1] = -0.0
    gradient = torch.randn_like(rows)
    found = []
    for hide in (lambda leaf: without_padding(leaf, real), lambda leaf: leaf.masked_fill(~real[:, None, :, None], 0)):
        leaf = rows.clone().requires_grad_()
        hidden = hide(leaf)
        hidden.backward(gradient)
        assert hidden.stride() == (56, 28, 4, 1)
        found.append([tensor.detach().contiguous().view(torch.uint8) for tensor in (hidden, leaf.grad)])
    assert all(torch.equal(*pair) for pair in zip(*found, strict=True))
